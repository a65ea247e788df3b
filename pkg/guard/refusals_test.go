package guard

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/position"
)

// observed is a shard against whose switch nothing speaks.
func observed(t *testing.T) *Observed {
	t.Helper()
	now := time.Now()
	side := func(n int) cert.Server {
		return cert.Server{ServerUUID: fmt.Sprint("uuid-", n), Hostname: "h", Host: "10.0.0.1", Port: 3306 + n, ServerID: uint32(n), Version: "8.0.36", Database: "slack"}
	}
	pos := position.FilePos{Server: "uuid-1", File: "binlog.000002", Pos: 157}
	var tablets []Tablet
	var compared []cert.Tablet
	for i := range 3 {
		alias, uuid := fmt.Sprint("zone1-10", i), fmt.Sprint("uuid-t", i)
		tablets = append(tablets, Tablet{Alias: alias, ServerUUID: uuid, Seed: &SeedRecord{Shard: 123, Keyspace: "legacy_0123", Database: "slack", UUIDA: "uuid-1", UUIDB: "uuid-2", Position: pos}})
		compared = append(compared, cert.Tablet{Alias: alias, ServerUUID: uuid})
	}
	c := &cert.Certificate{
		Shard: 123, A: side(1), B: side(2), StreamedUUID: "uuid-1", Cut: pos,
		Landing: cert.Landing{Keyspace: "legacy_0123", PrimaryAlias: "zone1-100", PrimaryUUID: "uuid-t0", Tablets: compared},
		Stream:  cert.Stream{ID: 7, Source: "legacy_0123_a", Start: pos}, SchemaSource: "s", SchemaTarget: "s", Inspected: pos,
		Tables: []cert.Table{{Name: "messages", Rows: 3, Sum: "aa"}}, CutAt: now.Add(-2 * time.Minute), Finished: now.Add(-time.Minute), Version: "v",
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	here := []mains.Place{{Side: "a", Host: "10.0.0.1", Port: 3307, Database: "slack"}, {Side: "b", Host: "10.0.0.1", Port: 3308, Database: "slack"}}
	gate := []mains.Place{{Side: "a", Host: "gate", Port: 15306, Database: "legacy_0123"}, {Side: "b", Host: "gate", Port: 15306, Database: "legacy_0123"}}
	return &Observed{
		Shard: 123, Template: "legacy_{shard}", Keyspace: "legacy_0123", Database: "slack", Now: now, Confirm: "0123",
		MaxAge: 15 * time.Minute, MaxLag: 5 * time.Second, Certificate: c, A: side(1), B: side(2),
		SchemaA: "s", SchemaB: "s", SchemaTarget: "s", PrimaryAlias: "zone1-100", PrimaryUUID: "uuid-t0", Tablets: tablets, WantTablets: 3,
		Fenced: true, SemiSyncHave: 2, SemiSyncNeed: 1,
		Stream: Stream{State: "running", ID: 7, Source: "external", Start: pos}, Connection: "legacy_0123_a", Lag: 300 * time.Millisecond,
		PreparedXA: map[string][]string{"0123 side a": nil}, Piercing: map[string][]string{"0123 side b": {}},
		Places: here, Legacy: here, Vitess: gate,
	}
}

// reseal makes a certificate that holds by itself with another content, so that only what
// it is about can be wrong.
func reseal(o *Observed) {
	if err := o.Certificate.Seal(); err != nil {
		panic(err)
	}
}

// accept makes the certificate one with a row of drift that is accepted.
func accept(o *Observed) {
	row := cert.AcceptedRow{Table: "messages", Key: "1", A: "aa", B: "bb", Who: "me@here", At: o.Now.UTC().Round(0)}
	o.Certificate.Drift.Accepted, o.AcceptedDrift = []cert.AcceptedRow{row}, []cert.AcceptedRow{row}
	reseal(o)
}

var mutations = []struct {
	name   string
	want   string
	mutate func(*Observed)
}{
	{"no certificate", "R01", func(o *Observed) { o.Certificate = nil }},
	{"void certificate", "R01", func(o *Observed) { o.CertificateVoid = "rehearsed" }},
	{"a digit of a row count edited", "R02", func(o *Observed) { o.Certificate.Drift.Rows++ }},
	{"drift that is accepted", "", func(o *Observed) { accept(o); o.AcceptedDrift[0].At = o.AcceptedDrift[0].At.Local() }},
	{"an accepted row that is not accepted any more", "R13", func(o *Observed) { accept(o); o.AcceptedDrift = nil }},
	{"an accepted row that was accepted as something else", "R13", func(o *Observed) { accept(o); o.AcceptedDrift[0].B = "cc" }},
	{"an accepted row edited", "R02 R13", func(o *Observed) { accept(o); o.Certificate.Drift.Accepted[0].Key = "2" }},
	{"another format", "R02", func(o *Observed) { o.Certificate.Format++ }},
	{"another shard's certificate", "R03", func(o *Observed) { o.Certificate.Shard = 4567; reseal(o) }},
	{"a landing whose name is another shard's", "R03 R06 R07", func(o *Observed) { o.Keyspace = "legacy_4567" }},
	{"another server at a's address", "R04 R07", func(o *Observed) { o.A.ServerUUID = "uuid-9" }},
	{"a moved", "R04", func(o *Observed) { o.A.Host = "10.0.0.9" }},
	{"another database on a", "R04", func(o *Observed) { o.A.Database = "slack2" }},
	{"a was upgraded", "R04", func(o *Observed) { o.A.Version = "8.4.0" }},
	{"another server was streamed", "R04", func(o *Observed) { o.Certificate.StreamedUUID = "uuid-9"; reseal(o) }},
	{"another server at b's address", "R05 R07", func(o *Observed) { o.B.ServerUUID = "uuid-9" }},
	{"b has another server id", "R05", func(o *Observed) { o.B.ServerID = 77 }},
	{"sides exchanged", "R04 R05 R07", func(o *Observed) { o.A, o.B = o.B, o.A }},
	{"another landing's certificate", "R06", func(o *Observed) { o.Certificate.Landing.Keyspace = "legacy_0124"; reseal(o) }},
	{"a primary that was not compared", "R06", func(o *Observed) { o.PrimaryAlias, o.PrimaryUUID = "zone1-200", "uuid-t9" }},
	{"a primary whose data was made anew", "R06", func(o *Observed) { o.PrimaryUUID = "uuid-t9" }},
	{"seeded from another shard", "R07", func(o *Observed) { o.Tablets[1].Seed.Shard = 4567 }},
	{"seeded from another pair", "R07", func(o *Observed) { o.Tablets[2].Seed.UUIDB = "uuid-9" }},
	{"seeded from another database", "R07", func(o *Observed) { o.Tablets[0].Seed.Database = "slack2" }},
	{"a tablet that came up empty", "R07", func(o *Observed) { o.Tablets[2].Seed = nil }},
	{"a tablet missing", "R08", func(o *Observed) { o.Tablets = o.Tablets[:2] }},
	{"a tablet that does not answer", "R08", func(o *Observed) { o.Tablets[2].Problem = "connection refused" }},
	{"a tablet that was not compared", "R08", func(o *Observed) { o.Tablets[2].ServerUUID = "uuid-t9" }},
	{"a stream made anew", "R09", func(o *Observed) { o.Stream.ID = 8 }},
	{"a stream that started elsewhere", "R09", func(o *Observed) { o.Stream.Start.Pos = 99999 }},
	{"a stream of side b", "R09", func(o *Observed) { o.Connection = "legacy_0123_b" }},
	{"a stopped stream", "R10", func(o *Observed) { o.Stream.State = "stopped" }},
	{"a stream in error", "R10", func(o *Observed) { o.Stream.State, o.Stream.Message = "error", "duplicate entry" }},
	{"a tainted stream", "R10", func(o *Observed) { o.Stream.Taints = 1 }},
	{"a column more on a", "R11", func(o *Observed) { o.SchemaA = "t" }},
	{"a column more on b", "R11", func(o *Observed) { o.SchemaB = "t" }},
	{"a column more on the landing", "R11", func(o *Observed) { o.SchemaTarget = "t" }},
	{"too old", "R12", func(o *Observed) { o.Now = o.Certificate.CutAt.Add(o.MaxAge + time.Second) }},
	{"from the future", "R12", func(o *Observed) { o.Now = o.Certificate.CutAt.Add(-time.Hour) }},
	{"differing rows", "R02 R13", func(o *Observed) { o.Certificate.Differing = 1 }},
	{"drift of b", "R02 R13", func(o *Observed) { o.Certificate.Drift.Differing = 1 }},
	{"lag", "R14", func(o *Observed) { o.Lag = o.MaxLag + time.Millisecond }},
	{"a lag that is not known", "R14", func(o *Observed) { o.Lag = -1 }},
	{"a hold", "R15", func(o *Observed) { o.Hold = "the team's launch" }},
	{"somebody's VDiff", "R16", func(o *Observed) { o.Automation = []string{"VDiff 1234 is open"} }},
	{"a prepared transaction on a", "R17", func(o *Observed) { o.PreparedXA["0123 side a"] = []string{"x1"} }},
	{"a piercing account on b", "R18", func(o *Observed) { o.Piercing["0123 side b"] = []string{"app@%"} }},
	{"too few semi-sync replicas", "R19", func(o *Observed) { o.SemiSyncHave = 0 }},
	{"mains on Vitess already", "R20", func(o *Observed) { o.Places = o.Vitess }},
	{"mains half on Vitess", "R20", func(o *Observed) { o.Places = []mains.Place{o.Legacy[0], o.Vitess[1]} }},
	{"mains elsewhere", "R20", func(o *Observed) { o.Places = nil }},
	{"another number typed", "R21", func(o *Observed) { o.Confirm = "0124" }},
	{"the number without its zero", "R21", func(o *Observed) { o.Confirm = "123" }},
	{"no landing at all", "R22", func(o *Observed) { o.Fenced, o.NoLanding = false, true }},
	{"no stream at all", "R10", func(o *Observed) { o.Stream.State = "" }},
	{"nothing typed", "R21", func(o *Observed) { o.Confirm = "" }},
	{"an open landing", "R22", func(o *Observed) { o.Fenced = false }},
	{"a grant for the way back missing", "R23", func(o *Observed) { o.LacksBack = map[string][]string{"0123 side a": {"ALTER on slack"}} }},
	{"the same of a one-way cutover", "", func(o *Observed) {
		o.OneWay, o.LacksBack = true, map[string][]string{"0123 side a": {"ALTER on slack"}}
	}},
}

func TestRefusals(t *testing.T) {
	if got := Refusals(observed(t)); len(got) != 0 {
		t.Fatalf("nothing is wrong, yet: %+v", got)
	}
	alone := map[string]bool{}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			o := observed(t)
			m.mutate(o)
			ids := map[string]bool{}
			for _, f := range Refusals(o) {
				ids[f.ID] = true
				if f.Level != Refuse || f.Name == "" || f.Server == "" || f.Found == "" || f.Expected == "" || f.Remedy == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
			var got []string
			for id := range ids {
				got = append(got, id)
			}
			sort.Strings(got)
			if strings.Join(got, " ") != m.want {
				t.Errorf("refused by %v, expected %s", got, m.want)
			}
			if len(got) > 0 {
				for _, id := range strings.Fields(m.want) {
					alone[id] = true
				}
			}
		})
	}
	for _, r := range refusals {
		if !alone[r.id] {
			t.Errorf("%s (%s): no mutation shows it", r.id, r.name)
		}
	}
}

// Without the one refusal, its mutations go through, or fewer speak against them: each
// refusal is needed.
func TestEachRefusalIsNeeded(t *testing.T) {
	for i, r := range refusals {
		needed := false
		for _, m := range mutations {
			o := observed(t)
			m.mutate(o)
			n := 0
			for j, other := range refusals {
				if j != i {
					n += len(other.check(o))
				}
			}
			needed = needed || n == 0 && len(r.check(o)) > 0
		}
		if !needed {
			t.Errorf("%s (%s): every mutation is refused without it", r.id, r.name)
		}
	}
}

func TestAllReasonsAtOnce(t *testing.T) {
	o := observed(t)
	o.Hold, o.Confirm, o.Fenced, o.Lag = "x", "", false, -1
	var got []string
	for _, f := range Refusals(o) {
		got = append(got, f.ID)
	}
	if strings.Join(got, " ") != "R14 R15 R21 R22" {
		t.Errorf("%v", got)
	}
}

// What is not there must not be described as if it were: a landing that nobody made is not
// one that clients can write to.
func TestFindingsOfAShardThatWasNeverTouchedSayWhatIsMissing(t *testing.T) {
	for _, f := range Refusals(&Observed{Shard: 123, Template: "legacy_{shard}", Keyspace: "legacy_0123", NoLanding: true, Lag: -1}) {
		if strings.Contains(f.Found, "clients can write") || strings.TrimSpace(f.Found) != f.Found || strings.Contains(f.Found, "that is ") {
			t.Errorf("%s found %q", f.ID, f.Found)
		}
	}
}

func TestTypedNumberIsAWholeFinding(t *testing.T) {
	if f := TypedNumber(123, "0123"); len(f) != 0 {
		t.Errorf("the right number gives %v", f)
	}
	f := TypedNumber(123, "123")
	if len(f) != 1 || f[0].ID != "R21" || f[0].Name == "" || f[0].Level != Refuse || f[0].Remedy == "" {
		t.Errorf("finding %+v", f)
	}
}
