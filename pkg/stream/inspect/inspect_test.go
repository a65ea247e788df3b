package inspect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/inspect"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// side is a legacy server with an inspector that reads it.
type side struct {
	t    *testing.T
	srv  *mysqld.Server
	db   *sql.DB
	uuid string
	i    *inspect.Inspector
	stop context.CancelFunc
	err  chan error
}

// account must use TLS: the reader's connection, not only those that ask, is protected as it says.
func account(t *testing.T, srv *mysqld.Server, password string) mysqlconn.Target {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(srv.DataDir(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return mysqlconn.Target{Name: "0123 side a", Host: "127.0.0.1", Port: srv.Port(), Account: mysqlconn.Account{User: "vifl", Password: mysqlconn.Secret(password),
		TLS: mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: string(ca)}}}
}

func legacy(t *testing.T) *side {
	t.Helper()
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	mysqldtest.Exec(t, srv, "create user vifl@'%' identified by 'pass' require ssl", "grant replication slave, replication client on *.* to vifl@'%'",
		"create database slack", "create database _vifl", "create database other",
		"create table slack.t (id bigint auto_increment primary key, n int, v varchar(100), j json, g int as (n + 1) virtual, s int as (n + 2) stored, h int invisible)",
		"create table other.t (id int auto_increment primary key, n int, j json)", "create table _vifl.heartbeat (id int primary key, n int)",
		"insert into slack.t (id, n, v, j) values (1, 1, 'one', '{\"a\": 1, \"long\": \"0123456789012345678901234567890123456789\"}')")
	s := &side{t: t, srv: srv, db: mysqldtest.Open(t, srv)}
	if err := s.db.QueryRow("select @@server_uuid").Scan(&s.uuid); err != nil {
		t.Fatal(err)
	}
	return s
}

// follow starts an inspector at the end of the binlog.
func (s *side) follow() *side {
	s.t.Helper()
	i, err := inspect.New(account(s.t, s.srv, "pass"), s.uuid, "slack", s.end())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.i, s.stop, s.err = i, cancel, make(chan error, 1)
	go func() { s.err <- i.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		select {
		case <-s.err:
		case <-time.After(20 * time.Second):
			s.t.Error("the inspector did not end when asked to")
		}
	})
	return s
}

func (s *side) end() position.FilePos {
	s.t.Helper()
	p, err := streamtest.End(context.Background(), s.db, s.uuid)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// run runs statements in one session of its own.
func (s *side) run(statements ...string) {
	s.t.Helper()
	conn, err := s.db.Conn(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range statements {
		if _, err := conn.ExecContext(context.Background(), q); err != nil {
			s.t.Fatalf("%s: %v", q, err)
		}
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (s *side) wait(p position.FilePos) []inspect.Taint {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	taints, err := s.i.Wait(ctx, p)
	if err != nil {
		s.t.Fatal(err)
	}
	return taints
}

// TestWhatTaintsAndWhatPasses goes through the statements that sessions can do. Each case
// has an inspector of its own, so that taints do not pile up.
func TestWhatTaintsAndWhatPasses(t *testing.T) {
	t.Parallel()
	const insert = "insert into slack.t (n, v) values (7, 'seven')"
	s := legacy(t)
	for _, c := range []struct {
		name string
		kind inspect.Kind // empty: passes
		run  []string
	}{
		{"rows", "", []string{insert, "update slack.t set n = n + 1", "delete from slack.t where id > 1"}},
		{"several tables in a transaction", "", []string{"begin", insert, "insert into other.t (n) values (1)", "savepoint x", "insert into _vifl.heartbeat values (1, 1)", "commit"}},
		{"rolled back", "", []string{"begin", insert, "rollback"}},
		{"rolled back to a savepoint", "", []string{"begin", insert, "savepoint a", insert, "rollback to a", insert, "commit"}},
		{"accounts", "", []string{"create user y identified by 'secret'", "grant select on slack.* to y", "use slack", "alter user y identified by 'secret2'", "create role r", "grant r to y", "set default role r to y", "drop user y", "drop role r"}},
		{"flush and analyze", "", []string{"flush binary logs", "flush privileges", "analyze table slack.t"}},
		{"other databases", "", []string{"create table other.more (id int)", "use other", "alter table more add column n int", "insert into more values (1, 1)", "drop table more", "create database third", "drop database third"}},
		{"temporary tables", "", []string{"use slack", "create temporary table tmp (id int)", "insert into tmp values (1)", "drop temporary table tmp"}},
		{"other database's partial JSON and short images", "", []string{"set binlog_row_image=minimal, binlog_row_value_options=partial_json", "insert into other.t (j) values ('{\"a\": 1, \"b\": \"0123456789012345678901234567890\"}')", "update other.t set j = json_set(j, '$.a', 2)"}},
		{"rows query event of another database", "", []string{"set binlog_rows_query_log_events=on", "insert into other.t (n) values (1)"}},
		{"compressed transaction", inspect.Compressed, []string{"set binlog_transaction_compression=on", insert}},
		{"partial JSON", inspect.PartialUpdate, []string{"set binlog_row_value_options=partial_json", "update slack.t set j = json_set(j, '$.a', 2) where id = 1"}},
		{"minimal image of an update", inspect.PartialImage, []string{"set binlog_row_image=minimal", "update slack.t set n = 100 where id = 1"}},
		{"minimal image of an insert", inspect.PartialImage, []string{"set binlog_row_image=minimal", insert}},
		{"minimal image of a delete", inspect.PartialImage, []string{insert, "set binlog_row_image=minimal", "delete from slack.t where id > 1"}},
		{"statement", inspect.Logged, []string{"set binlog_format=statement", insert}},
		{"statement with variables", inspect.Logged, []string{"set binlog_format=statement", "set @x = 'y'", "insert into slack.t (n, v) values (rand() * 10, @x)"}},
		{"statement in another database", inspect.Logged, []string{"set binlog_format=statement", "use other", "insert into other.t (n) values (1)"}},
		{"rows query event", inspect.Foreign, []string{"set binlog_rows_query_log_events=on", insert}},
		{"xa", inspect.Distributed, []string{"xa start 'x'", insert, "xa end 'x'", "xa prepare 'x'", "xa commit 'x'"}},
		{"alter table", inspect.DDL, []string{"alter table slack.t add column z int", "alter table slack.t drop column z"}},
		{"alter table from another database", inspect.DDL, []string{"use other", "alter table slack.t add column z int", "alter table slack.t drop column z"}},
		{"truncate", inspect.DDL, []string{"create table other.copy like slack.t", "truncate slack.t", "drop table other.copy", "insert into slack.t (id, n, j) values (1, 1, '{\"a\": 1}')"}},
		{"rename into another database", inspect.DDL, []string{"rename table slack.t to other.gone", "rename table other.gone to slack.t"}},
		{"create and drop index", inspect.DDL, []string{"create index nn on slack.t (n)", "drop index nn on slack.t"}},
		{"trigger", inspect.DDL, []string{"use slack", "create trigger tr before insert on t for each row set new.n = 1", "drop trigger tr"}},
		{"view", inspect.DDL, []string{"create view slack.w as select 1 as one", "drop view slack.w"}},
		{"procedure", inspect.DDL, []string{"use slack", "create procedure p() select 1", "drop procedure p"}},
		{"database", inspect.DDL, []string{"alter database slack character set utf8mb4"}},
		{"name that Vitess ignores", inspect.DDL, []string{"create table slack._vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_ (id int)", "drop table slack._vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &side{t: t, srv: s.srv, db: s.db, uuid: s.uuid}
			s.follow()
			s.run(c.run...)
			taints := s.wait(s.end())
			if c.kind == "" {
				if len(taints) != 0 {
					t.Errorf("found %v, expected none", taints)
				}
				return
			}
			if len(taints) == 0 || taints[0].Kind != c.kind {
				t.Fatalf("found %v, expected %q", taints, c.kind)
			}
			if text := fmt.Sprint(taints); strings.Contains(text, "seven") || strings.Contains(text, "column z") {
				t.Errorf("a taint shows a statement: %s", text)
			}
		})
	}
}

// What is already there when the inspector starts is read too, and a taint is known at once,
// not when somebody looks.
func TestTaintIsKnownAtOnceAndOnlyFromThereOn(t *testing.T) {
	t.Parallel()
	s := legacy(t).follow()
	s.run("insert into slack.t (n) values (1)")
	before := s.end()
	s.run("set binlog_transaction_compression=on", "insert into slack.t (n) values (2)")
	after := s.end()
	if taints := s.wait(after); len(taints) != 1 || taints[0].Position != after {
		t.Errorf("found %v, expected one at %s", taints, after)
	}
	if taints := s.wait(before); len(taints) != 0 {
		t.Errorf("found %v up to before the transaction", taints)
	}
	if all := s.i.Taints(); len(all) != 1 {
		t.Errorf("found %v", all)
	}
}

func TestGoesOnAfterTheServerRestartsAndConnectionsBreak(t *testing.T) {
	t.Parallel()
	s := legacy(t).follow()
	s.run("insert into slack.t (n) values (1)", "set binlog_row_image=minimal", "update slack.t set n = 2 where n = 1")
	if taints := s.wait(s.end()); len(taints) != 1 {
		t.Fatalf("found %v", taints)
	}
	var id int64
	if err := s.db.QueryRow("select id from information_schema.processlist where user = 'vifl' and command like 'Binlog Dump%'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	s.run(fmt.Sprintf("kill %d", id), "insert into slack.t (n) values (2)")
	s.wait(s.end())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.srv.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	s.run("insert into slack.t (n) values (3)", "set binlog_transaction_compression=on", "insert into slack.t (n) values (4)")
	if taints := s.wait(s.end()); len(taints) != 2 || taints[1].Kind != inspect.Compressed {
		t.Errorf("found %v, expected the old taint once and a new one", taints)
	}
	if p := s.i.Position(); p != s.end() {
		t.Errorf("reading would go on at %s, expected %s", p, s.end())
	}
}

func TestWaitEndsWithItsTimeAndAtAFreshBinlog(t *testing.T) {
	t.Parallel()
	s := legacy(t).follow()
	s.run("flush binary logs")
	s.wait(s.end())
	never := s.end()
	never.Pos += 1000
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.i.Wait(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v, expected the time to run out", err)
	}
	never.Server = "x"
	if _, err := s.i.Wait(context.Background(), never); !errors.Is(err, position.ErrNotComparable) {
		t.Errorf("found %v, expected ErrNotComparable", err)
	}
}

func TestWhatWaitingDoesNotMend(t *testing.T) {
	t.Parallel()
	s := legacy(t)
	from := s.end()
	ended := func(i *inspect.Inspector) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := i.Run(ctx)
		if ctx.Err() != nil {
			t.Errorf("it went on for 20 s")
		}
		if _, werr := i.Wait(ctx, position.FilePos{Server: from.Server, File: "binlog.999999", Pos: 4}); err == nil || !errors.Is(werr, err) {
			t.Errorf("Wait says %v, expected Run's %v", werr, err)
		}
		return err
	}
	another := from
	another.Server = "11111111-2222-3333-4444-555555555555"
	i, err := inspect.New(account(s.t, s.srv, "pass"), another.Server, "slack", another)
	if err != nil {
		t.Fatal(err)
	}
	from.Server = another.Server
	if err := ended(i); err == nil || !strings.Contains(err.Error(), another.Server) || !strings.Contains(err.Error(), s.uuid) {
		t.Errorf("another server: %v, expected both identities", err)
	}
	from.Server = s.uuid
	if i, err = inspect.New(account(s.t, s.srv, "wrong"), s.uuid, "slack", from); err != nil {
		t.Fatal(err)
	}
	if err := ended(i); !mysqlconn.IsAccessDenied(err) || strings.Contains(err.Error(), "wrong:") {
		t.Errorf("wrong password: %v", err)
	}
	s.run("flush binary logs", "purge binary logs to '"+s.next()+"'")
	if i, err = inspect.New(account(s.t, s.srv, "pass"), s.uuid, "slack", from); err != nil {
		t.Fatal(err)
	}
	if err := ended(i); !errors.Is(err, inspect.ErrGone) {
		t.Errorf("purged binlog: %v, expected ErrGone", err)
	}
	if _, err := inspect.New(account(s.t, s.srv, "pass"), "another", "slack", from); err == nil {
		t.Error("an inspector was made for a position of another server")
	}
}

// next is the name of the binlog that FLUSH BINARY LOGS makes.
func (s *side) next() string {
	p := s.end()
	var n int
	base, _, _ := strings.Cut(p.File, ".")
	if _, err := fmt.Sscanf(p.File, base+".%d", &n); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%s.%06d", base, n+1)
}
