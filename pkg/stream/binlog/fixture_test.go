package binlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

const database = "slack"

// ends are a legacy server and a landing's primary, with the accounts that vifl has there.
type ends struct {
	source, target  *mysqld.Server
	legacy, landing *sql.DB // as root
	vifl            *sql.DB // the landing, as the account that vifl has
	uuid            string
}

// start starts both ends. extra are settings of the legacy server.
func start(t testing.TB, extra ...string) *ends {
	t.Helper()
	e := &ends{}
	e.source = mysqldtest.Start(t, mysqldtest.Options{Name: "legacy", Extra: append([]string{"max_allowed_packet=64M"}, extra...)})
	e.target = mysqldtest.Start(t, mysqldtest.Options{Name: "landing", Extra: []string{"max_allowed_packet=64M", "gtid_mode=ON", "enforce_gtid_consistency=ON"}})
	mysqldtest.Exec(t, e.source, "set sql_log_bin=0", "create user vifl@'%' identified by 'pass'", "grant select, replication slave, replication client on *.* to vifl@'%'")
	mysqldtest.Exec(t, e.target, "create database _vifl", "create user vifl@'%' identified by 'pass'", "grant all on _vifl.* to vifl@'%'", "grant all on slack.* to vifl@'%'", "grant all on `slack2`.* to vifl@'%'")
	e.legacy, e.landing = mysqldtest.Open(t, e.source), mysqldtest.Open(t, e.target)
	var err error
	if e.vifl, err = mysqlconn.Open(account(e.target)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.vifl.Close() })
	if err := e.legacy.QueryRow("select @@server_uuid").Scan(&e.uuid); err != nil {
		t.Fatal(err)
	}
	e.both(t, "create database "+database)
	return e
}

func account(s *mysqld.Server) mysqlconn.Target {
	return mysqlconn.Target{Name: s.Name(), Host: "127.0.0.1", Port: s.Port(), Account: mysqlconn.Account{User: "vifl", Password: "pass"}}
}

func (e *ends) config() Config {
	id, _ := shardid.Parse("0123")
	return Config{Shard: id, Source: account(e.source), Server: e.uuid, Database: database, Target: func(context.Context) (*sql.DB, error) { return e.vifl, nil }}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// exec runs statements in one session, which is not used again.
func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	ctx := within(t, time.Minute)
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			t.Fatalf("%.300s: %v", q, err)
		}
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (e *ends) both(t testing.TB, statements ...string) {
	t.Helper()
	exec(t, e.legacy, statements...)
	exec(t, e.landing, statements...)
}

func (e *ends) end(t testing.TB) position.FilePos {
	t.Helper()
	p, err := streamtest.End(within(t, time.Minute), e.legacy, e.uuid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// running is a worker that a test runs.
type runningWorker struct {
	t      testing.TB
	c      Config
	opts   []Option
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
	worker *Worker
}

// work runs a worker until the end of the test.
func work(t testing.TB, c Config, opts ...Option) *runningWorker {
	t.Helper()
	r := &runningWorker{t: t, c: c, opts: opts}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *runningWorker) start() {
	r.t.Helper()
	w, err := NewWorker(r.c, r.opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.mu.Lock()
	r.worker, r.cancel, r.done = w, cancel, done
	r.mu.Unlock()
	go func() {
		defer close(done)
		_ = w.Run(ctx)
	}()
}

func (r *runningWorker) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(20 * time.Second):
		r.t.Error("the worker did not end when asked to")
	}
}

// emptied makes the stream absent and both tables t the same and empty.
func (e *ends) emptied(t testing.TB, s *Stream) {
	t.Helper()
	if err := s.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	e.both(t, "drop table if exists slack.t", "create table slack.t "+streamtest.Table)
	t.Cleanup(func() {
		if t.Failed() {
			st, err := s.Status(context.Background())
			t.Logf("the stream: %+v, %v", st, err)
		}
		if err := s.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestConformance(t *testing.T) {
	e := start(t)
	streamtest.Run(t, func(t *testing.T) *streamtest.Bench {
		s := New(e.config())
		e.emptied(t, s)
		w := work(t, e.config())
		return &streamtest.Bench{
			Stream: s, Legacy: e.legacy, Landing: e.landing, Server: e.uuid, Database: database,
			Restart: func(context.Context) error { w.kill(); w.start(); return nil },
		}
	})
}

// stopAt stops the stream exactly at p.
func stopAt(t testing.TB, s *Stream, p position.FilePos) {
	t.Helper()
	if err := s.StopAt(within(t, 2*time.Minute), p); err != nil {
		t.Fatal(err)
	}
	st, err := s.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if st.State != stream.Stopped || st.Position != p {
		t.Fatalf("StopAt(%s) succeeded, but the stream is %s at %s", p, st.State, st.Position)
	}
}
