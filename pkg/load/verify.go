package load

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// Servers are those of one shard, with accounts that may read its database.
type Servers struct {
	// Legacy are the sides, by name ("a", "b"), with the shard's database. An account with
	// CONNECTION_ADMIN is needed to read them once they are closed to the application.
	Legacy map[string]mysqlconn.Target
	// Vitess is vtgate with the landing as its database.
	Vitess mysqlconn.Target
}

// VerifyOptions say what to verify and where.
type VerifyOptions struct {
	Ledger string
	// Mains says where a shard is served now.
	Mains mysqlconn.Target
	// Servers are all servers of every shard that the ledger may name.
	Servers map[shardid.ID]Servers
	// Follows says that the legacy follows the landing where mains serves a shard from Vitess:
	// by a stream back it must have everything too.
	Follows bool
	// Wait is how long a row that is not yet as it must be is read again: the sides
	// replicate from each other with a delay. Default 30 s.
	Wait time.Duration
	// MaxProblems bounds the list in the result (not the counts). Default 100.
	MaxProblems int
}

// Kinds of problems.
const (
	// Missing: acknowledged, and not there.
	Missing = "missing"
	// Extra: there, though deleted, rolled back or refused.
	Extra = "extra"
	// Changed: there with other values than acknowledged.
	Changed = "changed"
	// Doubled: one write found twice: two rows, or on the landing and the legacy both.
	Doubled = "doubled"
	// Split: a write of unknown outcome that some servers have and others have not.
	Split = "split"
	// SameID: one AUTO_INCREMENT id acknowledged to two writes.
	SameID = "same id"
	// WrongPlace: a write that a server took which is not of the shard, or is not the one
	// that it was when the write was made.
	WrongPlace = "wrong place"
	// Mixed: mains serves one side from the legacy and the other from Vitess.
	Mixed = "mixed"
)

// Problem is one thing that is not as it must be.
type Problem struct {
	Kind     string     `json:"kind"`
	Shard    shardid.ID `json:"shard"`
	Server   string     `json:"server"`
	Table    string     `json:"table,omitempty"`
	Key      string     `json:"key,omitempty"`
	Found    string     `json:"found"`
	Expected string     `json:"expected"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: shard %s, %s, %s %s: found %s, expected %s", p.Kind, p.Shard, p.Server, p.Table, p.Key, p.Found, p.Expected)
}

// ShardResult says where a shard was looked at.
type ShardResult struct {
	Shard shardid.ID `json:"shard"`
	// Served is legacy, vitess or mixed, as mains says.
	Served  string   `json:"served"`
	Servers []string `json:"servers"`
	Keys    int      `json:"keys"`
}

// Result is what a verification found. Each key counts once, however many servers it was
// read on.
type Result struct {
	Ledger string        `json:"ledger"`
	In     LedgerCounts  `json:"in_ledger"`
	Shards []ShardResult `json:"shards"`
	// Found are the rows that are there and right on every server where they must be.
	Found int `json:"found"`
	// Gone are the rows that are rightly not there: deleted, rolled back, refused.
	Gone int `json:"gone"`
	// Applied and NotApplied are what became of the last writes of unknown outcome.
	Applied    int `json:"unknown_applied"`
	NotApplied int `json:"unknown_not_applied"`
	// IDs are the AUTO_INCREMENT values that were acknowledged.
	IDs int `json:"auto_increment_ids"`
	// Problems by kind, and the first of them.
	Wrong    map[string]int `json:"wrong"`
	Problems []Problem      `json:"problems,omitempty"`
	// Took is in nanoseconds.
	Took time.Duration `json:"took_ns"`
}

// OK reports that nothing was found wrong.
func (r *Result) OK() bool { return len(r.Wrong) == 0 }

// Verify replays a ledger and reads every row of it on every server where it must, or must
// not, be. What must hold, for each row:
//   - On every legacy server: exactly the state that the legacy acknowledged last. A write
//     that the landing acknowledged is not there, unless the legacy Follows.
//   - Where mains serves the shard now: exactly the state that was acknowledged last by
//     anybody.
//   - After a write of unknown outcome: the state before it or after it, the same on all
//     servers that must have it.
//
// The load must have ended. An error means that it could not be verified; that something is
// wrong is in the result. Memory: about 200 bytes per key.
func Verify(ctx context.Context, o VerifyOptions) (*Result, error) {
	started := time.Now()
	v := &verifier{options: o, result: &Result{Ledger: o.Ledger, Wrong: map[string]int{}}}
	if v.options.Wait == 0 {
		v.options.Wait = 30 * time.Second
	}
	if v.options.MaxProblems == 0 {
		v.options.MaxProblems = 100
	}
	v.book = newBook(v.kindOf)
	if err := v.book.read(o.Ledger); err != nil {
		return nil, err
	}
	v.result.In = v.book.counts
	for _, p := range v.book.strange {
		v.problem(p)
	}
	v.sameIDs()
	defer v.close()
	if err := v.connect(ctx); err != nil {
		return nil, err
	}
	if err := v.check(ctx); err != nil {
		return nil, err
	}
	v.result.Took = time.Since(started)
	return v.result, nil
}

// verifier is one verification under way.
type verifier struct {
	options VerifyOptions
	book    *book
	shards  map[shardid.ID]*shard
	result  *Result
}

// shard is where one shard's rows are read.
type shard struct {
	served  string
	servers []*server
}

// server is one that rows are read from.
type server struct {
	name string
	kind placeKind
	db   *sql.DB
}

func (v *verifier) close() {
	for _, s := range v.shards {
		for _, srv := range s.servers {
			_ = srv.db.Close()
		}
	}
}

func (v *verifier) problem(p Problem) {
	v.result.Wrong[p.Kind]++
	if len(v.result.Problems) < v.options.MaxProblems {
		v.result.Problems = append(v.result.Problems, p)
	}
}

// kindOf tells what an endpoint of the ledger is to a shard.
func (v *verifier) kindOf(id shardid.ID, at string) (placeKind, bool) {
	s := v.options.Servers[id]
	for _, t := range s.Legacy {
		if targetEndpoint(t) == at {
			return onLegacy, true
		}
	}
	if targetEndpoint(s.Vitess) == at {
		return onVitess, true
	}
	return onLegacy, false
}

func targetEndpoint(t mysqlconn.Target) string {
	return endpoint(appschema.Place{Host: t.Host, Port: t.Port, Database: t.Database})
}

// sameIDs looks for AUTO_INCREMENT values that two writes got.
func (v *verifier) sameIDs() {
	for g, ids := range v.book.ids {
		v.result.IDs += len(ids)
		slices.Sort(ids)
		for i := 1; i < len(ids); i++ {
			if ids[i] == ids[i-1] {
				v.problem(Problem{Kind: SameID, Shard: g.shard, Server: "ledger", Table: g.table.name, Key: fmt.Sprint(ids[i]),
					Found: "the id acknowledged to two writes", Expected: "each id once"})
			}
		}
	}
}

// connect finds out where the shards of the ledger are served, connects to all their
// servers, and sees that those are the ones that acknowledged the writes.
func (v *verifier) connect(ctx context.Context) error {
	mains, err := mysqlconn.Connect(ctx, v.options.Mains, asApplication)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { _ = mains.Close() }()
	v.shards = map[shardid.ID]*shard{}
	for g := range v.book.entries {
		if v.shards[g.shard] != nil {
			continue
		}
		s, err := v.connectShard(ctx, mains, g.shard)
		v.shards[g.shard] = s
		if err != nil {
			return fmt.Errorf("verify: shard %s: %w", g.shard, err)
		}
	}
	return nil
}

func (v *verifier) connectShard(ctx context.Context, mains *sql.DB, id shardid.ID) (*shard, error) {
	s := &shard{served: "legacy"}
	servers, known := v.options.Servers[id]
	if !known {
		return s, fmt.Errorf("the ledger names it, but its servers are not known")
	}
	places, err := readPlaces(ctx, mains, id)
	if err != nil {
		return s, err
	}
	legacy, vitess := 0, 0
	for _, p := range places {
		switch kind, known := v.kindOf(id, endpoint(p)); {
		case !known:
			v.problem(Problem{Kind: WrongPlace, Shard: id, Server: "mains", Key: "side " + p.Side, Found: endpoint(p), Expected: "a server of this shard"})
		case kind == onVitess:
			vitess++
		default:
			legacy++
		}
	}
	var sides []string
	for side := range servers.Legacy {
		sides = append(sides, side)
	}
	sort.Strings(sides)
	for _, side := range sides {
		if err := s.connect(ctx, servers.Legacy[side], "legacy side "+side, onLegacy); err != nil {
			return s, err
		}
		if err := v.identity(ctx, id, s.servers[len(s.servers)-1], targetEndpoint(servers.Legacy[side])); err != nil {
			return s, err
		}
	}
	if vitess > 0 {
		s.served = "vitess"
		if err := s.connect(ctx, servers.Vitess, "landing", onVitess); err != nil {
			return s, err
		}
	}
	if vitess > 0 && legacy > 0 {
		s.served = "mixed"
		v.problem(Problem{Kind: Mixed, Shard: id, Server: "mains", Found: fmt.Sprintf("%d sides on the legacy, %d on Vitess", legacy, vitess), Expected: "both on one of them"})
	}
	return s, nil
}

func (s *shard) connect(ctx context.Context, t mysqlconn.Target, name string, kind placeKind) error {
	db, err := mysqlconn.Connect(ctx, t, asApplication)
	if err != nil {
		return err
	}
	db.SetMaxIdleConns(readers)
	s.servers = append(s.servers, &server{name: name + " (" + t.Addr() + ")", kind: kind, db: db})
	return nil
}

// identity sees that the legacy server is the one that acknowledged the writes.
func (v *verifier) identity(ctx context.Context, id shardid.ID, srv *server, at string) error {
	var uuid string
	if err := srv.db.QueryRowContext(ctx, "SELECT @@server_uuid").Scan(&uuid); err != nil {
		return fmt.Errorf("%s: who it is: %w", srv.name, err)
	}
	for seen := range v.book.servers[at] {
		if seen != uuid {
			v.problem(Problem{Kind: WrongPlace, Shard: id, Server: srv.name, Found: "server_uuid " + uuid, Expected: seen + ", which answered the load there"})
		}
	}
	return nil
}
