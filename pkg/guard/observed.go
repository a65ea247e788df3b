package guard

import (
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
)

// Observed is everything that the refusals look at, read from the servers just now. Plain
// values: who reads them is not the guards' business.
type Observed struct {
	Shard    shardid.ID
	Template shardid.Template
	Keyspace string
	Database string
	Now      time.Time
	// Confirm is the number that the operator typed.
	Confirm        string
	MaxAge, MaxLag time.Duration

	Certificate     *cert.Certificate
	CertificateVoid string
	// AcceptedDrift are the rows whose drift is accepted now.
	AcceptedDrift []cert.AcceptedRow

	// A and B are who answers at the sides' addresses now.
	A, B cert.Server
	// SchemaA, SchemaB and SchemaTarget are digests of the tables now.
	SchemaA, SchemaB, SchemaTarget string

	PrimaryAlias, PrimaryUUID string
	Tablets                   []Tablet
	WantTablets               int
	// NoLanding says that the keyspace is not there at all.
	NoLanding    bool
	Fenced       bool
	SemiSyncHave int
	SemiSyncNeed int

	Stream Stream
	// Connection is the external connection that the configuration names for side a.
	Connection string
	// Lag is of the stream behind the legacy; negative when it could not be told.
	Lag time.Duration

	// Hold is why somebody forbade the cutover; empty for no hold.
	Hold string
	// Automation lists what else works on the landing, a line each.
	Automation []string
	// PreparedXA and Piercing list transactions and accounts by server.
	PreparedXA, Piercing map[string][]string

	// OneWay says that the operator wants no stream back. LacksBack lists, by server, the
	// privileges that one would need and vifl's account has not.
	OneWay    bool
	LacksBack map[string][]string
	// Back is the stream back, of a shard that has been cut over; nil for none.
	Back *Back

	// Places is what mains says; Legacy what it must say before a switch; Vitess what it
	// says behind one.
	Places, Legacy, Vitess []mains.Place
}

// Tablet is one tablet of the landing.
type Tablet struct {
	Alias, ServerUUID, Problem string
	// Seed is the record in the tablet's data, nil when there is none.
	Seed *SeedRecord
}

// SeedRecord is what a tablet's data says of its own origin.
type SeedRecord struct {
	Shard              shardid.ID
	Keyspace, Database string
	UUIDA, UUIDB       string
	Position           position.FilePos
}

// Stream is the stream into the landing.
type Stream struct {
	State   string // running, stopped, error, absent
	Message string
	ID      int64
	Source  string
	Start   position.FilePos
	Taints  int
}

// Back is the stream back, and the legacy behind a cutover.
type Back struct {
	Stream Stream
	// Lag is of the stream behind the landing; negative when it could not be told.
	Lag time.Duration
	// UUIDA and UUIDB are the servers that the cutover closed.
	UUIDA, UUIDB string
	// Open lists, by server, what keeps the legacy open to others than vifl.
	Open map[string]string
	// Diff is when the last clean comparison with the landing was made; zero for none. Differing
	// counts the rows that differed in the last one.
	Diff      time.Time
	Differing uint64
}

// Refusals lists every reason against a switch, all at once. Empty: nothing speaks against
// it.
func Refusals(o *Observed) []Finding { return list(refusals, o) }

// RollbackRefusals lists every reason against a rollback, all at once.
func RollbackRefusals(o *Observed) []Finding { return list(rollbackRefusals, o) }

// CompleteRefusals lists every reason against the end of a move, all at once.
func CompleteRefusals(o *Observed) []Finding { return list(completeRefusals, o) }

func list(refusals []refusal, o *Observed) []Finding {
	var out []Finding
	for _, r := range refusals {
		for _, f := range r.check(o) {
			f.ID, f.Name, f.Level = r.id, r.name, Refuse
			out = append(out, f)
		}
	}
	return out
}

// refusal is one numbered reason. Numbers are never used again for something else.
type refusal struct {
	id, name string
	check    func(*Observed) []Finding
}

var refusals = []refusal{
	{"R01", "no certificate", noCertificate},
	{"R02", "certificate does not verify", brokenCertificate},
	{"R03", "certificate of another shard", otherShard},
	{"R04", "side a is not the certified server", otherSideA},
	{"R05", "side b is not the certified server", otherSideB},
	{"R06", "landing is not the certified one", otherLanding},
	{"R07", "tablet seeded from another source", otherSeed},
	{"R08", "tablets missing, broken or not compared", tabletsNotCompared},
	{"R09", "stream is not the certified one", otherStream},
	{"R10", "stream does not run, or lost events", brokenStream},
	{"R11", "schema changed since the certificate", schemaChanged},
	{"R12", "certificate too old", tooOld},
	{"R13", "differences or drift", differences},
	{"R14", "stream lags", lagging},
	{"R15", "on hold", onHold},
	{"R16", "other automation on the landing", automated},
	{"R17", "prepared XA transactions", preparedXA},
	{"R18", "accounts that pierce the freeze", piercing},
	{"R19", "too few semi-sync replicas", semiSync},
	{"R20", "mains does not serve the shard from this pair", mainsElsewhere},
	{"R21", "typed number differs", notConfirmed},
	{"R22", "landing is not fenced", notFenced},
	{"R23", "no way back", noWayBack},
}

var rollbackRefusals = append([]refusal{
	{"R24", "no stream back", noStreamBack},
	{"R29", "legacy differs from the landing", differsBack},
	{"R15", "on hold", onHold},
	{"R16", "other automation on the landing", automated},
	{"R17", "prepared XA transactions", preparedXA},
}, backRefusals...)

var completeRefusals = append([]refusal{
	{"R28", "no clean diff back", noDiffBack},
}, backRefusals...)

// backRefusals are those of all that goes on behind a cutover. Where there is no stream back
// they have nothing to say.
var backRefusals = []refusal{
	{"R11", "schema changed since the certificate", schemaChangedBehind},
	{"R21", "typed number differs", notConfirmed},
	{"R25", "stream back does not run, or lags", brokenStreamBack},
	{"R26", "legacy is not as the cutover left it", legacyTouched},
	{"R27", "mains does not serve the shard from Vitess", notOnVitess},
}
