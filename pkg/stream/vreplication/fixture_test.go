package vreplication

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream/streamtest"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

// All tests of this package share one landing and three legacy servers: the pair 0123 a and
// b, and 4567 a. They take turns on the table slack.t.
var world struct {
	fleet       *vitesstest.Fleet
	tablet      *vitesstest.Tablet
	a, b, other *mysqld.Server
	// As root; and as the accounts that vifl has there.
	legacy, landing *sql.DB
	uuidA           string
}

const database = "slack"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	servers, err := start(ctx)
	defer func() {
		for _, s := range servers {
			_ = s.Kill()
		}
		if world.fleet != nil {
			if err := world.fleet.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start(ctx context.Context) (servers []*mysqld.Server, err error) {
	if world.fleet, err = vitesstest.Start(ctx); err != nil {
		return nil, err
	}
	for i, s := range []struct {
		to   **mysqld.Server
		name string
	}{{&world.a, "a"}, {&world.b, "b"}, {&world.other, "other"}} {
		*s.to, err = world.fleet.MySQL(ctx, s.name, "gtid_mode=OFF", "enforce_gtid_consistency=OFF", "log_replica_updates=ON",
			"auto_increment_increment=2", fmt.Sprintf("auto_increment_offset=%d", i%2+1))
		if err != nil {
			return servers, err
		}
		servers = append(servers, *s.to)
		if err := accounts(ctx, *s.to); err != nil {
			return servers, err
		}
	}
	for _, d := range [][2]*mysqld.Server{{world.a, world.b}, {world.b, world.a}} {
		if err := mysqld.Replicate(ctx, d[0], d[1], mysqld.ReplicationAccount{User: "repl", Password: "repl"}); err != nil {
			return servers, err
		}
	}
	if world.legacy, err = mysqlconn.Connect(ctx, world.a.Target("a")); err != nil {
		return servers, err
	}
	if err := world.legacy.QueryRowContext(ctx, "select @@server_uuid").Scan(&world.uuidA); err != nil {
		return servers, err
	}
	world.tablet, err = world.fleet.AddLanding(ctx, "legacy_0123", database, map[string]mysqlconn.Target{
		"legacy_0123_a": tcp(world.a, "vifl_stream"), "legacy_0123_b": tcp(world.b, "vifl_stream"), "legacy_4567_a": tcp(world.other, "vifl_stream"),
		"nowhere": {Host: "127.0.0.1", Port: 1, Account: mysqlconn.Account{User: "vifl_stream", Password: "pass"}},
	})
	if err != nil {
		return servers, err
	}
	world.landing, err = mysqlconn.Connect(ctx, world.tablet.MySQL.Target("landing"))
	return servers, err
}

func tcp(s *mysqld.Server, user string) mysqlconn.Target {
	return mysqlconn.Target{Name: s.Name(), Host: "127.0.0.1", Port: s.Port(), Account: mysqlconn.Account{User: user, Password: "pass"}}
}

// accounts are those that docs ask for on a legacy server, and the two databases.
func accounts(ctx context.Context, s *mysqld.Server) error {
	db, err := mysqlconn.Connect(ctx, s.Target(s.Name()))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, q := range []string{
		"set sql_log_bin=0",
		"create database slack", "create database _vifl",
		"create user vifl@'%' identified by 'pass'",
		"grant select, reload, lock tables, process, replication slave, replication client on *.* to vifl@'%'", "grant all on _vifl.* to vifl@'%'",
		"create user vifl_stream@'%' identified by 'pass'",
		"grant select, reload, lock tables, replication slave, replication client on *.* to vifl_stream@'%'",
		"create user repl@'%' identified by 'repl'", "grant replication slave on *.* to repl@'%'",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %s: %w", s.Name(), q, err)
		}
	}
	return nil
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// exec runs statements in one session.
func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	conn, err := db.Conn(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range statements {
		if _, err := conn.ExecContext(within(t, time.Minute), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	// The session may have settings of its own: it must not go back into the pool.
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

func end(t *testing.T) position.FilePos {
	t.Helper()
	p, err := streamtest.End(within(t, time.Minute), world.legacy, world.uuidA)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shard0123 is the stream as vifl makes it.
func shard0123(opts ...Option) *Stream {
	id, _ := shardid.Parse("0123")
	return New(world.tablet.Landing, id, "legacy_0123_a", database, world.uuidA, append([]Option{WithSource(tcp(world.a, "vifl"))}, opts...)...)
}

// emptied gives both ends the same empty table, and no stream.
func emptied(t *testing.T) *Stream {
	t.Helper()
	s := shard0123()
	if err := s.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.landing, "drop table if exists slack.t", "create table slack.t "+streamtest.Table)
	exec(t, world.legacy, "drop table if exists slack.t", "create table slack.t "+streamtest.Table)
	t.Cleanup(func() {
		if t.Failed() {
			st, err := s.Status(context.Background())
			t.Logf("the stream: %+v, %v", st, err)
		}
		if err := s.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) *streamtest.Bench {
		return &streamtest.Bench{
			Stream: emptied(t), Legacy: world.legacy, Landing: world.landing, Server: world.uuidA, Database: database, Restart: world.tablet.Restart,
		}
	})
}
