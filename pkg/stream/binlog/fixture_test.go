package binlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/runas"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// All tests of this package share one legacy server and one target. They take turns on the
// database slack.
var world struct {
	source, target  *mysqld.Server
	legacy, landing *sql.DB
	uuid            string
}

const (
	database = "slack"
	// takeover is the workers' in these tests.
	takeover = 600 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerProcess())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	nobody, err := runas.Lookup("nobody")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := nobody.MkdirTemp("vifl-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	servers, err := start(ctx, nobody, dir)
	defer func() {
		for _, s := range servers {
			_ = s.Kill()
			_ = s.Stop(context.Background())
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start(ctx context.Context, nobody runas.User, dir string) (servers []*mysqld.Server, err error) {
	inst, err := mysqld.Find("")
	if err != nil {
		return nil, err
	}
	if inst, err = inst.For(nobody, dir); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		to    **mysqld.Server
		name  string
		extra []string
	}{
		{&world.source, "legacy", []string{"gtid_mode=OFF", "enforce_gtid_consistency=OFF", "max_connections=1000", "max_allowed_packet=64M", "sql_require_primary_key=OFF"}},
		{&world.target, "target", []string{"gtid_mode=ON", "enforce_gtid_consistency=ON", "max_connections=1000", "max_allowed_packet=64M", "sql_require_primary_key=OFF"}},
	} {
		*s.to, err = mysqld.Start(ctx, inst, mysqld.Options{Dir: dir + "/" + s.name, Name: s.name, RunAs: nobody, Extra: s.extra})
		if err != nil {
			return servers, err
		}
		servers = append(servers, *s.to)
		db, err := mysqlconn.Connect(ctx, (*s.to).Target(s.name))
		if err != nil {
			return servers, err
		}
		for _, q := range []string{"create user root@'127.0.0.1'", "grant all on *.* to root@'127.0.0.1' with grant option", "create database " + database} {
			if _, err := db.ExecContext(ctx, q); err != nil {
				return servers, err
			}
		}
		if s.name == "legacy" {
			world.legacy = db
		} else {
			world.landing = db
		}
	}
	return servers, world.legacy.QueryRowContext(ctx, "select @@server_uuid").Scan(&world.uuid)
}

func tcp(s *mysqld.Server) mysqlconn.Target {
	return mysqlconn.Target{Name: s.Name(), Host: "127.0.0.1", Port: s.Port(), Account: mysqlconn.Account{User: "root"}}
}

func source() dump.Source { return dump.Source{Target: tcp(world.source), Server: world.uuid} }

func target(context.Context) (*sql.DB, error) { return world.landing, nil }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// do runs statements in one session, which does not go back into the pool.
func do(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	conn, err := db.Conn(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range statements {
		if _, err := conn.ExecContext(within(t, time.Minute), q); err != nil {
			t.Fatalf("%.200s: %v", q, err)
		}
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

func end(t testing.TB) position.FilePos {
	t.Helper()
	p, err := streamtest.End(within(t, time.Minute), world.legacy, world.uuid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// options are those of the workers in these tests.
func options() Options { return Options{Takeover: takeover} }

// runner runs workers of one stream: whenever the stream is there.
type runner struct {
	t      testing.TB
	stream *Stream
	o      Options
	// faults are expected: servers go away, and workers end with errors.
	faults bool

	mu     sync.Mutex
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (r *runner) start() {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	r.mu.Lock()
	r.cancel, r.done = cancel, done
	r.mu.Unlock()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := NewWorker(r.stream, r.o).Run(ctx)
			if err != nil && !errors.Is(err, stream.ErrAbsent) && !r.faults {
				r.t.Errorf("a worker ended with %v", err)
			}
			sleep(ctx, 5*time.Millisecond)
		}
	}()
}

// stop ends the worker, with errAbandoned as a killed one ends.
func (r *runner) stop(cause error) {
	r.mu.Lock()
	cancel, done := r.cancel, r.done
	r.mu.Unlock()
	cancel(cause)
	<-done
}

// world with the tables of definition, empty on both sides, and no stream; a worker runs
// until the end of the test.
func emptied(t testing.TB, o Options, tables ...string) *runner {
	t.Helper()
	s := New(target, "vifl_0123", database, source())
	if err := s.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	definition := append([]string{"drop database " + database, "create database " + database, "use " + database}, tables...)
	do(t, world.landing, definition...)
	do(t, world.legacy, definition...)
	r := &runner{t: t, stream: s, o: o}
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
	return r
}

// begun is emptied with the stream started at the end of the binlog.
func begun(t testing.TB, o Options, tables ...string) *runner {
	t.Helper()
	r := emptied(t, o, tables...)
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *runner) stopAtEnd() {
	r.t.Helper()
	if err := r.stream.StopAt(within(r.t, time.Minute), end(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runner) resume() {
	r.t.Helper()
	if err := r.stream.Resume(within(r.t, time.Minute)); err != nil {
		r.t.Fatal(err)
	}
}

// blobs is a table with large values.
const blobs = "b"

// content is a table as text, the same for the same rows.
func content(t testing.TB, db *sql.DB, table string) string {
	t.Helper()
	order := "1, 2"
	if table == blobs {
		order = "1" // there is no room to sort the others
	}
	_, rows := mysqldtest.Rows(t, db, "select * from "+database+"."+table+" order by "+order)
	var out strings.Builder
	for _, values := range rows {
		fmt.Fprintf(&out, "%v\n", values)
	}
	return out.String()
}

// same compares tables of both sides while the stream stands still.
func same(t testing.TB, tables ...string) {
	t.Helper()
	for _, table := range tables {
		if want, got := content(t, world.legacy, table), content(t, world.landing, table); got != want {
			t.Errorf("table %s: the target has\n%.1000s\nexpected\n%.1000s", table, got, want)
		}
	}
}

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) *streamtest.Bench {
		r := emptied(t, options(), "create table t "+streamtest.Table)
		return &streamtest.Bench{
			Stream: r.stream, Legacy: world.legacy, Landing: world.landing, Server: world.uuid, Database: database,
			Restart: func(ctx context.Context) error {
				before, err := r.stream.present(ctx)
				for err == nil && !before.alive && sleep(ctx, 10*time.Millisecond) {
					before, err = r.stream.present(ctx)
				}
				if err != nil {
					return err
				}
				r.stop(errAbandoned)
				r.start()
				for {
					now, err := r.stream.present(ctx)
					if err != nil {
						return err
					}
					if now.generation > before.generation {
						return nil
					}
					if !sleep(ctx, 10*time.Millisecond) {
						return ctx.Err()
					}
				}
			},
		}
	})
}
