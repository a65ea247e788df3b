package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"vitess.io/vitess/go/mysql/replication"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// group is the target of the other tests with replicas of its own: here it is what is read,
// and the legacy server is written.
type group struct {
	t       testing.TB
	mu      sync.Mutex
	sources []*mysqld.Server // those that may be read
	all     []*mysqld.Server
}

func (g *group) Name() string { return "landing slack" }

func (g *group) read(servers ...*mysqld.Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = servers
}

func (g *group) Sources(ctx context.Context) ([]dump.Source, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []dump.Source
	for _, s := range g.sources {
		uuid, err := g.ask(ctx, s, "select @@server_uuid")
		if err != nil {
			continue // it is gone
		}
		out = append(out, dump.Source{Target: tcp(s), Server: uuid})
	}
	return out, nil
}

func (g *group) Elsewhere(ctx context.Context, server string) (string, error) {
	var union replication.GTIDSet = replication.Mysql56GTIDSet{}
	for _, s := range g.all {
		uuid, err := g.ask(ctx, s, "select @@server_uuid")
		if err != nil || uuid == server {
			continue
		}
		text, err := g.ask(ctx, s, "select @@gtid_executed")
		if err != nil {
			continue
		}
		set, err := replication.ParseMysql56GTIDSet(text)
		if err != nil {
			return "", err
		}
		union = union.Union(set)
	}
	return union.String(), nil
}

func (g *group) ask(ctx context.Context, s *mysqld.Server, query string) (string, error) {
	db, err := mysqlconn.Open(tcp(s))
	if err != nil {
		return "", err
	}
	defer db.Close()
	var text string
	err = db.QueryRowContext(ctx, query).Scan(&text)
	return strings.ReplaceAll(text, "\n", ""), err
}

// replica starts a replica of the target by GTID.
func replica(t testing.TB, name string) *mysqld.Server {
	t.Helper()
	s := mysqldtest.Start(t, mysqldtest.Options{Name: name, Extra: []string{"gtid_mode=ON", "enforce_gtid_consistency=ON", "sql_require_primary_key=OFF"}})
	mysqldtest.Exec(t, s, "RESET BINARY LOGS AND GTIDS")
	mysqldtest.Exec(t, s, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1", world.target.Port()), "START REPLICA")
	return s
}

// back is a group of the target and two replicas, with the table on all and on the legacy
// server, and a running stream from the group to the latter.
func back(t *testing.T, table string) (g *group, r *runner, one, two *mysqld.Server) {
	t.Helper()
	// What the servers of other tests had in their binlogs is not what is looked at here.
	do(t, world.landing, "drop database if exists _vifl")
	do(t, world.landing, "RESET BINARY LOGS AND GTIDS")
	definition := []string{"drop database if exists " + database, "create database " + database, "use " + database, table}
	do(t, world.landing, definition...)
	do(t, world.legacy, definition...)
	one, two = replica(t, "one"), replica(t, "two")
	g = &group{t: t, all: []*mysqld.Server{world.target, one, two}}
	g.read(one, two)
	s := NewFrom(func(context.Context) (*sql.DB, error) { return world.legacy, nil }, "vifl_back", database, g)
	if err := s.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBehind(within(t, time.Minute), g.executed(world.landing)); err != nil {
		t.Fatal(err)
	}
	r = &runner{t: t, stream: s, o: options()}
	r.start()
	t.Cleanup(func() {
		if t.Failed() {
			st, err := s.Status(context.Background())
			t.Logf("the stream: %+v, %v", st, err)
		}
		r.stop(nil)
		if err := s.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g, r, one, two
}

func (g *group) executed(db *sql.DB) string {
	g.t.Helper()
	var text string
	if err := db.QueryRowContext(within(g.t, time.Minute), "select @@gtid_executed").Scan(&text); err != nil {
		g.t.Fatal(err)
	}
	return strings.ReplaceAll(text, "\n", "")
}

// drained waits until exactly what the target has executed is applied.
func (g *group) drained(s *Stream) {
	g.t.Helper()
	want, err := replication.ParseMysql56GTIDSet(g.executed(world.landing))
	if err != nil {
		g.t.Fatal(err)
	}
	g.until(s, "all applied", func(st stream.Status) bool {
		got, err := replication.ParseMysql56GTIDSet(st.GTID)
		return err == nil && got.Equal(want)
	})
}

func (g *group) until(s *Stream, what string, ok func(stream.Status) bool) {
	g.t.Helper()
	for ctx := within(g.t, time.Minute); ; {
		st, err := s.Status(ctx)
		if err != nil {
			g.t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok(st) {
			return
		}
		if !sleep(ctx, 20*time.Millisecond) {
			g.t.Fatalf("waited a minute for %s: %+v", what, st)
		}
	}
}

func writes(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		do(t, world.landing, fmt.Sprintf("insert into %s.t values (%d, 1, 'new')", database, i), fmt.Sprintf("update %s.t set n = n + 1 where id = %d", database, i/2))
	}
}

func TestAGroupIsReadAtAnotherServerWhenOneIsGone(t *testing.T) {
	g, r, one, two := back(t, simple)
	writes(t, 1, 30)
	g.drained(r.stream)
	same(t, "t")
	first, err := r.stream.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if uuid, err := g.ask(within(t, time.Minute), one, "select @@server_uuid"); err != nil || first.Position.Server != uuid {
		t.Fatalf("it reads %s, expected %s, the first (%v)", first.Position.Server, uuid, err)
	}
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	writes(t, 30, 60)
	g.drained(r.stream)
	same(t, "t")
	second, err := r.stream.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if uuid, err := g.ask(within(t, time.Minute), two, "select @@server_uuid"); err != nil || second.Position.Server != uuid {
		t.Errorf("it reads %s, expected %s (%v)", second.Position.Server, uuid, err)
	}
	// A worker that is killed goes on from what was saved with the data.
	r.stop(errAbandoned)
	writes(t, 60, 90)
	r.start()
	g.drained(r.stream)
	same(t, "t")
}

// The counterexample: a commit that waits for its acknowledgement is in the binlog of the
// server that takes the writes, and is sent to whoever reads it. If that server is lost,
// the transaction never was.
func TestWhatOneServerOnlyHasIsNotApplied(t *testing.T) {
	g, r, one, two := back(t, simple)
	writes(t, 1, 5)
	g.drained(r.stream)
	for _, s := range []*mysqld.Server{one, two} {
		mysqldtest.Exec(t, s, "STOP REPLICA")
	}
	g.read(world.target)
	g.until(r.stream, "the primary to be read", func(st stream.Status) bool {
		writes(t, 1000, 1001)
		do(t, world.landing, "delete from "+database+".t where id = 1000")
		return strings.Contains(st.Message, "not known to be on another server")
	})
	do(t, world.landing, "insert into "+database+".t values (2000, 1, 'ghost')")
	time.Sleep(2 * time.Second)
	if got := content(t, world.legacy, "t"); strings.Contains(got, "ghost") {
		t.Fatalf("a row that only one server has was applied:\n%s", got)
	}
	for _, s := range []*mysqld.Server{one, two} {
		mysqldtest.Exec(t, s, "START REPLICA")
	}
	g.drained(r.stream)
	same(t, "t")
}

func TestAServerWithoutTheBinlogsIsNotChosen(t *testing.T) {
	g, r, one, two := back(t, simple)
	g.read(one)
	writes(t, 1, 5)
	g.drained(r.stream)
	r.stop(errAbandoned)
	writes(t, 5, 10)
	for g.executed(mysqldtest.Open(t, two)) != g.executed(world.landing) {
		time.Sleep(20 * time.Millisecond)
	}
	mysqldtest.Exec(t, two, "FLUSH BINARY LOGS")
	_, logs := mysqldtest.Rows(t, mysqldtest.Open(t, two), "SHOW BINARY LOGS")
	mysqldtest.Exec(t, two, "PURGE BINARY LOGS TO '"+logs[len(logs)-1][0].String+"'")
	g.read(two)
	r.start()
	g.until(r.stream, "an error", func(st stream.Status) bool { return st.State == stream.Failed })
	st, err := r.stream.Status(within(t, time.Minute))
	if err != nil || !strings.Contains(st.Message, dump.ErrGone.Error()) {
		t.Errorf("%+v, %v, expected %q", st, err, dump.ErrGone)
	}
	g.read(two, one)
	if err := r.stream.Resume(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	g.drained(r.stream)
	same(t, "t")
}

// What happened before the start is passed by unseen, also what could not be carried over.
func TestWhatIsAppliedAlreadyIsSkippedWhole(t *testing.T) {
	g, r, _, two := back(t, simple)
	if err := r.stream.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	do(t, world.landing, "insert into "+database+".t values (1, 1, 'before')", "alter table "+database+".t auto_increment = 500",
		"create table "+database+".other (id int primary key)", "drop table "+database+".other",
		"xa start 'x'", "insert into "+database+".t values (2, 1, 'before')", "xa end 'x'", "xa prepare 'x'", "xa commit 'x'",
		"set session binlog_transaction_compression = 1", "insert into "+database+".t values (3, 1, 'before')")
	if err := r.stream.StartBehind(within(t, time.Minute), g.executed(world.landing)); err != nil {
		t.Fatal(err)
	}
	writes(t, 10, 20)
	g.read(two)
	writes(t, 20, 30)
	g.drained(r.stream)
	do(t, world.landing, "delete from "+database+".t where id < 10")
	g.fails(r.stream, "the target lacks 3 rows")
	if st, err := r.stream.Status(within(t, time.Minute)); err != nil || strings.Contains(st.Message, "seed the landing again") {
		t.Errorf("%q, %v: the landing is what counts, it must not be seeded again", st.Message, err)
	}
	// Once the cause is mended it goes on.
	do(t, world.legacy, "insert into "+database+".t values (1, 1, 'before'), (2, 1, 'before'), (3, 1, 'before')")
	if err := r.stream.Resume(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	g.drained(r.stream)
	same(t, "t")
}

// fails waits for a failure that says so.
func (g *group) fails(s *Stream, says string) {
	g.t.Helper()
	g.until(s, says, func(st stream.Status) bool { return st.State == stream.Failed && strings.Contains(st.Message, says) })
}

func TestAGroupIsNotStartedAtAPositionNorBehindNothing(t *testing.T) {
	g := &group{t: t}
	s := NewFrom(func(context.Context) (*sql.DB, error) { return world.legacy, nil }, "vifl_back", database, g)
	if err := s.Start(within(t, time.Minute), end(t)); err == nil {
		t.Error("started at a position")
	}
	for _, set := range []string{"", "nonsense"} {
		if err := s.StartBehind(within(t, time.Minute), set); err == nil {
			t.Errorf("started behind %q", set)
		}
	}
	if err := New(target, "vifl_0123", database, source()).StartBehind(within(t, time.Minute), "00000000-0000-0000-0000-000000000001:1"); err == nil || errors.Is(err, stream.ErrOther) {
		t.Errorf("a stream of one server behind GTIDs: %v", err)
	}
}
