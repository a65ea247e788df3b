package load_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/load"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/load/ledger"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/shardid"
)

const shard shardid.ID = 123

// fleet is a pair of legacy servers with mains; and a third server, which replicates from
// side a into the database legacy_0123, for the tests that switch.
type fleet struct {
	a, b, mains, landing *mysqld.Server
	places               []appschema.Place
	legacy               map[string]mysqlconn.Target
	vitess               mysqlconn.Target
	ledger               string
}

var app = mysqlconn.Account{User: "app", Password: "app"}

func start(t *testing.T, withLanding bool) *fleet {
	t.Helper()
	f := &fleet{ledger: filepath.Join(t.TempDir(), "ledger")}
	f.a, f.b = mysqldtest.Pair(t, mysqldtest.Options{Name: "0123"})
	f.mains = mysqldtest.Start(t, mysqldtest.Options{Name: "mains"})
	mysqldtest.Exec(t, f.mains, "CREATE DATABASE mains", "CREATE USER app@'%' IDENTIFIED BY 'app'", "GRANT SELECT ON mains.* TO app@'%'")
	if withLanding {
		f.landing = mysqldtest.Start(t, mysqldtest.Options{Name: "landing", Extra: []string{"replicate_rewrite_db = slack->legacy_0123", "auto_increment_increment = 2"}})
		mysqldtest.Exec(t, f.landing, "CREATE DATABASE legacy_0123", "CREATE USER app@'%' IDENTIFIED BY 'app'", "GRANT SELECT, INSERT, UPDATE, DELETE ON legacy_0123.* TO app@'%'")
		if err := appschema.Create(t.Context(), open(t, f.landing, "legacy_0123")); err != nil {
			t.Fatal(err)
		}
	}
	mysqldtest.Exec(t, f.a, "CREATE DATABASE slack", "CREATE USER app@'%' IDENTIFIED BY 'app'", "GRANT SELECT, INSERT, UPDATE, DELETE ON slack.* TO app@'%'")
	db := open(t, f.a, "slack")
	if err := appschema.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	mysqldtest.CaughtUp(t, f.b, f.a)
	if withLanding {
		if err := mysqld.Replicate(t.Context(), f.landing, f.a, mysqld.ReplicationAccount{User: "repl", Password: "repl"}); err != nil {
			t.Fatal(err)
		}
		f.vitess = target(f.landing, "landing", "legacy_0123")
	}
	if err := appschema.Populate(t.Context(), db, appschema.FirstTeam(shard), appschema.Size{Teams: 20, MessagesPerTeam: 10}); err != nil {
		t.Fatal(err)
	}
	f.legacy = map[string]mysqlconn.Target{"a": target(f.a, "side a", "slack"), "b": target(f.b, "side b", "slack")}
	f.places = []appschema.Place{{Side: "a", Host: "127.0.0.1", Port: f.a.Port(), Database: "slack"}, {Side: "b", Host: "127.0.0.1", Port: f.b.Port(), Database: "slack"}}
	if err := appschema.MainsRows(t.Context(), open(t, f.mains, "mains"), shard, appschema.Teams(shard, 20), f.places); err != nil {
		t.Fatal(err)
	}
	mysqldtest.CaughtUp(t, f.b, f.a)
	return f
}

func target(s *mysqld.Server, name, database string) mysqlconn.Target {
	tg := mysqldtest.TCP(s, name)
	tg.Database = database
	return tg
}

func open(t *testing.T, s *mysqld.Server, database string) *sql.DB {
	t.Helper()
	db, err := mysqlconn.Connect(t.Context(), target(s, s.Name(), database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *fleet) load(t *testing.T, writers int, rate float64) *load.Run {
	t.Helper()
	mains := target(f.mains, "mains", "mains")
	mains.Account = app
	run, err := load.Start(t.Context(), load.Options{Mains: mains, App: app, Writers: writers, Rate: rate, Ledger: f.ledger, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, run) })
	return run
}

func stop(t *testing.T, run *load.Run) *load.Summary {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := run.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for something that the load does.
func until(t *testing.T, run *load.Run, what string, ok func(load.Summary) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok(run.Snapshot()) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s:\n%s", what, run.Snapshot().Text())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (f *fleet) verify(t *testing.T, wait time.Duration) *load.Result {
	t.Helper()
	r, err := load.Verify(t.Context(), load.VerifyOptions{
		Ledger: f.ledger, Mains: target(f.mains, "mains", "mains"), Wait: wait,
		Servers: map[shardid.ID]load.Servers{shard: {Legacy: f.legacy, Vitess: f.vitess}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *fleet) mustVerify(t *testing.T) *load.Result {
	t.Helper()
	r := f.verify(t, time.Minute)
	t.Log("\n" + r.Text())
	if !r.OK() {
		t.Fatal("not verified")
	}
	return r
}

func TestLoadThenVerify(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	run := f.load(t, 8, 0)
	time.Sleep(3 * time.Second)
	s := stop(t, run)
	t.Log("\n" + s.Text())
	if s.Acked < 100 || s.RolledBack == 0 || s.Errors != 0 || s.Unknown != 0 || s.Unfinished != 0 {
		t.Errorf("acked %d, rolled back %d, errors %d, unknown %d, unfinished %d", s.Acked, s.RolledBack, s.Errors, s.Unknown, s.Unfinished)
	}
	r := f.mustVerify(t)
	if r.Found == 0 || r.Gone == 0 || r.IDs == 0 || r.Found+r.Gone != r.In.Keys || r.Shards[0].Served != "legacy" {
		t.Errorf("found %d, gone %d of %d, ids %d, served %s", r.Found, r.Gone, r.In.Keys, r.IDs, r.Shards[0].Served)
	}
	// Both sides took writes of their own, and every table was written to.
	perSide, perTable, acts := map[string]int{}, map[string]int{}, map[string]int{}
	err := ledger.Read(f.ledger, func(rec ledger.Record) error {
		if b := rec.Begin; b != nil {
			perSide[b.Side]++
			if want := "ab"[b.Team%2]; b.Side != string(want) {
				return fmt.Errorf("team %d wrote on side %s", b.Team, b.Side)
			}
			for _, fx := range b.Effects {
				perTable[fx.Table]++
				acts[fx.Act]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if perSide["a"] == 0 || perSide["b"] == 0 || len(perTable) != 6 || len(acts) != 3 {
		t.Errorf("sides %v, tables %v, acts %v", perSide, perTable, acts)
	}
}

func TestAFrozenSideIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	run := f.load(t, 6, 300)
	until(t, run, "writes", func(s load.Summary) bool { return s.Acked > 100 })
	run.Mark("freeze")
	const frozen = 600 * time.Millisecond
	mysqldtest.Exec(t, f.a, "SET GLOBAL super_read_only = ON")
	at := time.Now()
	time.Sleep(frozen)
	mysqldtest.Exec(t, f.a, "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
	thawed := time.Now()
	mark := run.Snapshot()
	until(t, run, "every writer to go on", func(s load.Summary) bool {
		for _, w := range s.Writers {
			if w.Longest.Pending && w.Longest.Started.Before(thawed) || w.Ops < mark.Writers[w.Writer].Ops+3 {
				return false
			}
		}
		return true
	})
	run.Mark("after")
	s := stop(t, run)
	t.Log("\n" + s.Text())
	w := s.Windows[1]
	if w.Name != "freeze" || w.Longest.Duration < frozen-300*time.Millisecond || w.Longest.Duration != s.Longest.Duration && w.Longest.Duration > s.Longest.Duration {
		t.Errorf("window %s: longest wait %v, of all %v, for a freeze of %v", w.Name, w.Longest, s.Longest, frozen)
	}
	// The longest wait itself may be a slow disk's; one of the writers' longest was refused.
	tries := 0
	for _, w := range s.Writers {
		tries = max(tries, w.Longest.Tries)
	}
	if w.Refused == 0 || tries < 2 || w.Longest.Started.Before(at.Add(-10*time.Second)) || s.Errors != 0 || s.Unknown != 0 {
		t.Errorf("refused %d, longest %+v, most tries %d, errors %d, unknown %d", w.Refused, w.Longest, tries, s.Errors, s.Unknown)
	}
	f.mustVerify(t)
}

func TestKilledConnectionsLeaveUnknownWritesThatVerifyResolves(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	run := f.load(t, 12, 0)
	a, b := open(t, f.a, ""), open(t, f.b, "")
	for round := 0; run.Snapshot().Unknown < 5; round++ {
		if round > 3000 {
			t.Fatalf("no replies lost:\n%s", run.Snapshot().Text())
		}
		for _, db := range []*sql.DB{a, b} {
			killApplication(t, db)
		}
		time.Sleep(10 * time.Millisecond)
	}
	acked := run.Snapshot().Acked
	until(t, run, "writes after the kills", func(s load.Summary) bool { return s.Acked > acked+100 })
	s := stop(t, run)
	if s.Errors != 0 {
		t.Errorf("errors: %v", s.ErrorTexts)
	}
	r := f.mustVerify(t)
	// A try of several rows is one lost reply and several unknown writes.
	if r.In.Unknown < int(s.Unknown) || r.Applied+r.NotApplied != r.In.Unknown {
		t.Errorf("%d lost replies, %d unknown writes, %d applied, %d not", s.Unknown, r.In.Unknown, r.Applied, r.NotApplied)
	}
}

func killApplication(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM performance_schema.processlist WHERE user = 'app'")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := db.ExecContext(t.Context(), "KILL "+id); err != nil && mysqlconn.Number(err) != 1094 {
			t.Fatal(err)
		}
	}
}

func TestALoadThatIsCutOffLeavesAVerifiableLedger(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	run := f.load(t, 8, 0)
	until(t, run, "writes", func(s load.Summary) bool { return s.Acked > 100 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time to end what was sent
	if _, err := run.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	f.mustVerify(t)
	second := f.load(t, 4, 0) // appended
	until(t, second, "writes", func(s load.Summary) bool { return s.Acked > 50 })
	stop(t, second)
	if r := f.mustVerify(t); r.In.Runs != 2 {
		t.Errorf("%d runs", r.In.Runs)
	}
}

func TestStartRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	mains := mysqldtest.Start(t, mysqldtest.Options{Name: "mains"})
	mysqldtest.Exec(t, mains, "CREATE DATABASE mains")
	if err := appschema.CreateMains(t.Context(), open(t, mains, "mains")); err != nil {
		t.Fatal(err)
	}
	good := target(mains, "mains", "mains")
	wrong := good
	wrong.Account = mysqlconn.Account{User: "nobody", Password: "secret-word"}
	dir := t.TempDir()
	for _, c := range []struct {
		want string
		o    load.Options
	}{
		{"found 0 writers", load.Options{Mains: good, Ledger: filepath.Join(dir, "x")}},
		{"turned the account", load.Options{Mains: wrong, Writers: 1, Ledger: filepath.Join(dir, "x")}},
		{"fill mains first", load.Options{Mains: good, Writers: 1, Ledger: filepath.Join(dir, "x")}},
	} {
		_, err := load.Start(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func hostPort(s *mysqld.Server) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())) }
