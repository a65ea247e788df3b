package legacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/position"
)

// viflGrants are what docs/accounts.md asks for; the tests run with these and no more.
var viflGrants = []string{
	"CREATE USER vifl@'%' IDENTIFIED BY 'v'",
	"GRANT SELECT, RELOAD, LOCK TABLES, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER, EVENT ON *.* TO vifl@'%'",
	"GRANT BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.* TO vifl@'%'",
	"GRANT ALL ON `_vifl`.* TO vifl@'%'",
}

var appGrants = []string{
	"CREATE USER app@'%' IDENTIFIED BY 'a'",
	"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON slack.* TO app@'%'",
}

func as(srv *mysqld.Server, name, user, password string) mysqlconn.Target {
	t := mysqldtest.TCP(srv, name)
	t.Account = mysqlconn.Account{User: user, Password: mysqlconn.Secret(password)}
	return t
}

func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, srv *mysqld.Server, side string) *Server {
	t.Helper()
	s, err := Open(ctxFor(t), as(srv, "0123 side "+side, "vifl", "v"), 123, side, "slack")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// pool is a pool of the application's connections.
func pool(t *testing.T, srv *mysqld.Server) *sql.DB {
	t.Helper()
	target := as(srv, "app", "app", "a")
	target.Database = "slack"
	db, err := mysqlconn.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// one is a server with the accounts and a table.
func one(t *testing.T, extra ...string) (*mysqld.Server, *Server) {
	t.Helper()
	srv := mysqldtest.Start(t, mysqldtest.Options{Extra: extra})
	mysqldtest.Exec(t, srv, append(append([]string{}, viflGrants...), appGrants...)...)
	mysqldtest.Exec(t, srv, "CREATE DATABASE slack", "CREATE TABLE slack.m (id BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100) NOT NULL)", "INSERT INTO slack.m (v) VALUES ('a'),('b')")
	s := open(t, srv, "a")
	if _, err := s.Prepare(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	return srv, s
}

// both is a pair with the accounts and a table, at rest.
func both(t *testing.T) (a, b *mysqld.Server, la, lb *Server) {
	t.Helper()
	a, b = mysqldtest.Pair(t, mysqldtest.Options{})
	for _, srv := range []*mysqld.Server{a, b} {
		mysqldtest.Exec(t, srv, append([]string{"SET sql_log_bin=0"}, append(append([]string{}, viflGrants...), appGrants...)...)...)
	}
	mysqldtest.Exec(t, a, "CREATE DATABASE slack", "CREATE TABLE slack.m (id BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100) NOT NULL)")
	mysqldtest.CaughtUp(t, b, a)
	la, lb = open(t, a, "a"), open(t, b, "b")
	for _, s := range []*Server{la, lb} {
		if _, err := s.Prepare(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b, la, lb
}

// One server takes all tests that leave it as they found it: starting one takes longer than
// most of them.
func TestServer(t *testing.T) {
	t.Parallel()
	srv, s := one(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *mysqld.Server, *Server)
	}{
		{"identity", testIdentity},
		{"binlog positions and bytes behind", testBytesBehind},
		{"prepare names its undo", testPrepare},
		{"pulse turns a position into a lag", testPulse},
		{"prepared XA is listed", testPreparedXA},
		{"cut gives up within its bound", testCutGivesUp},
		{"cut looks for long statements first", testCutLooksFirst},
		{"without performance_schema's statements", testLongStatementsCoarse},
		{"cut cancelled leaves no lock", testCutCancelled},
		{"cut after rotation is not at the start", testCutAfterRotation},
		{"thaw restores the flags found", testThawRestores},
		{"freeze is bounded by long writes", testFreezeBounded},
		{"killed freeze does not thaw", testKilledFreeze},
		{"a former owner's connections are ended", testKillOwn},
		{"freeze needs privileges", testFreezePrivileges},
		{"an open transaction does not survive a freeze", testKillTransactions},
		{"closed for all but our own account", testAdmitOwn},
		{"load", testLoad},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, srv, s) })
	}
}

// The last breaks the replication.
func TestPair(t *testing.T) {
	t.Parallel()
	a, b, la, lb := both(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b *mysqld.Server, la, lb *Server)
	}{
		{"cut is one instant", testCutIsOneInstant},
		{"kill spares others", testKillSpares},
		{"closed over a restart", testClosed},
		{"wait applied", testWaitApplied},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, a, b, la, lb) })
	}
}

func must(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(ctxFor(t), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func testIdentity(t *testing.T, srv *mysqld.Server, s *Server) {
	id, err := s.Identity(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(id.ServerUUID) != 36 || id.Port != srv.Port() || id.Host != "127.0.0.1" || id.ServerID == 0 || id.Database != "slack" {
		t.Errorf("identity %+v", id)
	}
	vars, err := s.Variables(ctxFor(t))
	if err != nil || vars["server_uuid"] != id.ServerUUID || vars["binlog_format"] != "ROW" {
		t.Errorf("variables: uuid %q, format %q, %v", vars["server_uuid"], vars["binlog_format"], err)
	}
	if r, err := s.Replica(ctxFor(t)); r != nil || err != nil {
		t.Errorf("a server that replicates from nobody: %+v, %v", r, err)
	}
	_, err = Open(ctxFor(t), as(srv, "0123 side a", "vifl", "wrong"), 123, "a", "slack")
	if !mysqlconn.IsAccessDenied(err) {
		t.Errorf("wrong password: %v", err)
	}
}

func testBytesBehind(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	start, err := s.Beat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.BytesBehind(ctx, start); err != nil || n != 0 {
		t.Errorf("at the end: %d bytes behind, %v", n, err)
	}
	app := pool(t, srv)
	must(t, app, "INSERT INTO m (v) VALUES (?)", "one")
	end, _ := s.Position(ctx)
	if n, err := s.BytesBehind(ctx, start); err != nil || n != end.Pos-start.Pos || n == 0 {
		t.Errorf("in one file: %d bytes behind, %v", n, err)
	}
	mysqldtest.Exec(t, srv, "FLUSH BINARY LOGS")
	fresh, _ := s.Position(ctx)
	if is, err := s.FreshBinlog(ctx, fresh); err != nil || !is {
		t.Errorf("%s after FLUSH BINARY LOGS: fresh %v, %v", fresh, is, err)
	}
	must(t, app, "INSERT INTO m (v) VALUES (?)", "two")
	mysqldtest.Exec(t, srv, "FLUSH BINARY LOGS")
	beat, err := s.Beat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := s.FreshBinlog(ctx, beat); err != nil || is {
		t.Errorf("%s behind a heartbeat: fresh %v, %v", beat, is, err)
	}
	// start's file from start on, the middle file whole, the last up to its end.
	logs, err := s.BinaryLogs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	end, _ = s.Position(ctx)
	k := len(logs)
	want := logs[k-3].Size - start.Pos + logs[k-2].Size + end.Pos
	if n, err := s.BytesBehind(ctx, start); err != nil || n != want {
		t.Errorf("over three files: %d bytes behind, expected %d (%v), %v", n, want, logs, err)
	}
	mysqldtest.Exec(t, srv, "PURGE BINARY LOGS TO '"+end.File+"'")
	if _, err := s.BytesBehind(ctx, start); !errors.Is(err, ErrPurged) {
		t.Errorf("a purged file: %v", err)
	}
	start.Server = "00000000-0000-0000-0000-000000000000"
	if _, err := s.BytesBehind(ctx, start); !errors.Is(err, position.ErrNotComparable) {
		t.Errorf("a position of another server: %v", err)
	}
}

func testPrepare(t *testing.T, srv *mysqld.Server, s *Server) {
	mysqldtest.Exec(t, srv, "DROP DATABASE _vifl")
	ctx := ctxFor(t)
	if _, err := s.Beat(ctx); err == nil {
		t.Error("a heartbeat before Prepare succeeded")
	}
	undo, err := s.Prepare(ctx)
	if err != nil || len(undo) != 1 {
		t.Fatalf("first: %v, %v", undo, err)
	}
	if again, err := s.Prepare(ctx); err != nil || len(again) != 0 {
		t.Errorf("second: %v, %v", again, err)
	}
	if _, err := s.Beat(ctx); err != nil {
		t.Error(err)
	}
	for _, q := range undo {
		must(t, s.DB(), q)
	}
	var n int
	if err := s.DB().QueryRow("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='_vifl'").Scan(&n); err != nil || n != 0 {
		t.Errorf("after the undo %d databases, %v", n, err)
	}
	if _, err := s.Prepare(ctx); err != nil {
		t.Error(err)
	}
}

func TestBeatNotInTheBinlog(t *testing.T) {
	t.Parallel()
	_, s := one(t, "binlog_do_db=slack")
	if p, err := s.Beat(ctxFor(t)); err == nil {
		t.Errorf("a heartbeat that no binlog holds: %s", p)
	}
	srv := mysqldtest.Start(t, mysqldtest.Options{Extra: []string{"skip-log-bin", "log_replica_updates=OFF"}})
	mysqldtest.Exec(t, srv, viflGrants...)
	if _, err := open(t, srv, "a").Position(ctxFor(t)); !errors.Is(err, ErrNoBinlog) {
		t.Errorf("a server without binlog: %v", err)
	}
}

func testPulse(t *testing.T, _ *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	p, err := s.StartPulse(ctx, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	stuck := p.Last()
	for p.Last().Position == stuck.Position {
		time.Sleep(5 * time.Millisecond)
	}
	// The first beat not passed is younger than stuck and stays the same: the lag grows.
	first, err := p.Lag(stuck.Position)
	if err != nil || first <= 0 || first > time.Since(stuck.Time) {
		t.Errorf("lag %s, %v", first, err)
	}
	time.Sleep(50 * time.Millisecond)
	if later, err := p.Lag(stuck.Position); err != nil || later < first+50*time.Millisecond {
		t.Errorf("lag went from %s to %s, %v", first, later, err)
	}
	p.Stop()
	end, _ := s.Position(ctx)
	if lag, err := p.Lag(end); err != nil || lag != 0 {
		t.Errorf("at the end: lag %s, %v", lag, err)
	}
	end.Server = "00000000-0000-0000-0000-000000000000"
	if _, err := p.Lag(end); !errors.Is(err, position.ErrNotComparable) {
		t.Errorf("another server's position: %v", err)
	}
}

func TestPulseThinsItsHistory(t *testing.T) {
	p := &Pulse{}
	for i := range 3 * maxMarks {
		p.add(Mark{Position: position.FilePos{Server: "s", File: "b.1", Pos: uint64(i)}, Time: time.Now()}, nil)
	}
	if n := len(p.marks); n > maxMarks || n < maxMarks/2 {
		t.Errorf("%d marks", n)
	}
	for i := 1; i < len(p.marks); i++ {
		if p.marks[i].Position.Pos <= p.marks[i-1].Position.Pos {
			t.Fatalf("marks out of order at %d", i)
		}
	}
	if p.marks[0].Position.Pos != 0 {
		t.Errorf("the oldest mark is gone: %v", p.marks[0])
	}
	p.add(Mark{}, errors.New("down"))
	if _, err := p.Lag(position.FilePos{Server: "s", File: "b.1", Pos: 1 << 40}); err == nil {
		t.Error("beats fail, yet the lag is given without an error")
	}
}

func testPreparedXA(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	if xa, err := s.PreparedXA(ctx); err != nil || len(xa) != 0 {
		t.Fatalf("%v, %v", xa, err)
	}
	mysqldtest.Exec(t, srv, "XA START 'x1'", "INSERT INTO slack.m (v) VALUES ('xa')", "XA END 'x1'", "XA PREPARE 'x1'")
	if xa, err := s.PreparedXA(ctx); err != nil || len(xa) != 1 {
		t.Errorf("%v, %v", xa, err)
	}
	mysqldtest.Exec(t, srv, "XA ROLLBACK 'x1'")
}

func TestStatementTextIsCut(t *testing.T) {
	s := Statement{ID: 7, User: "app", Host: "h", State: "executing", Running: 3 * time.Second, Text: fmt.Sprintf("SELECT %0200d", 1)}
	if n := len(s.String()); n > 140 {
		t.Errorf("%d bytes: %s", n, s)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]struct {
		supported bool
		status    string
	}{
		"8.0.36-28":           {true, "SHOW MASTER STATUS"},
		"8.0.25":              {false, "SHOW MASTER STATUS"},
		"8.1.0":               {true, "SHOW MASTER STATUS"},
		"8.2.0":               {true, "SHOW BINARY LOG STATUS"},
		"8.4.3":               {true, "SHOW BINARY LOG STATUS"},
		"9.7.4-2":             {true, "SHOW BINARY LOG STATUS"},
		"10.11.6-MariaDB-log": {false, "SHOW BINARY LOG STATUS"},
		"5.7.44-log":          {false, "SHOW MASTER STATUS"},
	} {
		v, err := ParseVersion(text)
		if err != nil || v.Supported() != want.supported || (!v.MariaDB() && v.binaryLogStatus() != want.status) {
			t.Errorf("%s: %+v, supported %v, %s, %v", text, v, v.Supported(), v.binaryLogStatus(), err)
		}
	}
	if _, err := ParseVersion("mysql"); err == nil {
		t.Error("a version without numbers was accepted")
	}
}

func TestAccountMatches(t *testing.T) {
	list := []string{"root", "dba@10.0.%", "'repl'@'%'", "ops@localhost"}
	for _, c := range []struct {
		user, host string
		want       bool
	}{
		{"root", "1.2.3.4", true}, {"dba", "10.0.7.7", true}, {"dba", "10.1.7.7", false}, {"repl", "x", true},
		{"ops", "localhost", true}, {"ops", "127.0.0.1", false}, {"roo", "x", false}, {"app", "10.0.7.7", false},
		{"dba", "10.0.%", true},
	} {
		if got := AccountMatches(list, c.user, c.host); got != c.want {
			t.Errorf("%s@%s: %v", c.user, c.host, got)
		}
	}
}

func TestGrantLines(t *testing.T) {
	g := &Grants{global: map[string]bool{}, database: map[string]map[string]bool{}}
	for _, line := range []string{
		"GRANT SELECT, REPLICATION SLAVE ON *.* TO `v`@`%`",
		"GRANT CONNECTION_ADMIN ON *.* TO `v`@`%` WITH GRANT OPTION",
		"GRANT ALL PRIVILEGES ON `\\_vifl`.* TO `v`@`%`",
		"GRANT INSERT ON `slack`.* TO `v`@`%`",
		"GRANT UPDATE ON `slack`.`m` TO `v`@`%`",
		"GRANT `role`@`%` TO `v`@`%`",
	} {
		g.add(line)
	}
	for _, c := range []struct {
		database, privilege string
		want                bool
	}{
		{"slack", "SELECT", true}, {"slack", "INSERT", true}, {"slack", "UPDATE", false}, {"other", "INSERT", false},
		{"_vifl", "CREATE", true}, {"other", "REPLICATION SLAVE", true}, {"x", "CONNECTION_ADMIN", true},
	} {
		if got := g.On(c.database, c.privilege); got != c.want {
			t.Errorf("%s on %s: %v", c.privilege, c.database, got)
		}
	}
}

// testLoad: statements that run are counted, and transactions that a snapshot keeps from
// being purged.
func testLoad(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	load := func() Load {
		t.Helper()
		l, err := s.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	app := pool(t, srv)
	snapshot, err := app.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	if _, err := snapshot.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		t.Fatal(err)
	}
	const updates = 300
	for i := range updates {
		if _, err := app.ExecContext(ctx, "UPDATE m SET v = ? WHERE id = 1", i); err != nil {
			t.Fatal(err)
		}
	}
	// What was there before may be purged meanwhile.
	if l := load(); l.History < updates/2 {
		t.Errorf("history %d behind %d updates under a snapshot", l.History, updates)
	}
	// Each waits for a lock of ours until it was counted.
	lock, err := app.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(ctx, "DO GET_LOCK('load', 0)"); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 5)
	for range cap(waiting) {
		go func() {
			_, err := app.ExecContext(ctx, "DO GET_LOCK('load', 100), RELEASE_LOCK('load')")
			waiting <- err
		}()
	}
	for load().ThreadsRunning < cap(waiting) {
		if ctx.Err() != nil {
			t.Fatalf("%+v with %d statements at work", load(), cap(waiting))
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := lock.ExecContext(ctx, "DO RELEASE_LOCK('load')"); err != nil {
		t.Fatal(err)
	}
	for range cap(waiting) {
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
}
