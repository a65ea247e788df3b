package legacy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

func testThawRestores(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	for _, found := range []Flags{{}, {ReadOnly: true}, {ReadOnly: true, SuperReadOnly: true}} {
		if err := s.SetFlags(ctx, found); err != nil {
			t.Fatal(err)
		}
		f, err := s.Freeze(ctx, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if f.Found() != found || f.ConnectionID() == 0 || f.Took() <= 0 {
			t.Errorf("found %s, expected %s; connection %d, took %s", f.Found(), found, f.ConnectionID(), f.Took())
		}
		if err := f.Check(ctx); err != nil {
			t.Error(err)
		}
		// root has SUPER.
		_, err = mysqldtest.Open(t, srv).Exec("INSERT INTO slack.m (v) VALUES ('frozen?')")
		if !mysqlconn.IsReadOnly(err) {
			t.Errorf("a write of root while frozen: %v", err)
		}
		if _, err := s.Beat(ctx); !mysqlconn.IsReadOnly(err) {
			t.Errorf("a heartbeat while frozen: %v", err)
		}
		if err := f.Thaw(ctx); err != nil {
			t.Error(err)
		}
		if now, err := s.Flags(ctx); err != nil || now != found {
			t.Errorf("after the thaw %s, expected %s, %v", now, found, err)
		}
	}
	if err := s.SetFlags(ctx, Flags{}); err != nil {
		t.Error(err)
	}
}

func testFreezeBounded(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	app := pool(t, srv)
	done := make(chan error, 1)
	go func() {
		_, err := app.Exec("UPDATE m SET v=CONCAT(LEFT(v,9), SLEEP(3)) LIMIT 1")
		done <- err
	}()
	waitFor(t, s, "User sleep")
	if _, err := s.Freeze(ctx, 300*time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Errorf("freeze behind a long write: %v", err)
	}
	if now, err := s.Flags(ctx); err != nil || now != (Flags{}) {
		t.Errorf("flags %s, %v", now, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := s.Freeze(cancelled, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled freeze: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if now, err := s.Flags(ctx); err != nil || now != (Flags{}) {
		t.Errorf("flags after the long write ended %s, %v", now, err)
	}
	f, err := s.Freeze(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Thaw(ctx); err != nil {
		t.Error(err)
	}
}

// A freeze whose connection was killed belongs to whoever killed it.
func testKilledFreeze(t *testing.T, _ *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	f, err := s.Freeze(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.KillConnection(ctx, f.ConnectionID()); err != nil {
		t.Fatal(err)
	}
	// The server answers KILL before the victim is gone.
	for range 100 {
		if err := f.Check(ctx); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := f.Thaw(ctx); err == nil {
		t.Error("thawed over a new connection")
	}
	if now, err := s.Flags(ctx); err != nil || !now.SuperReadOnly {
		t.Errorf("flags %s, %v", now, err)
	}
	if err := s.KillConnection(ctx, f.ConnectionID()); err != nil {
		t.Errorf("killing it again: %v", err)
	}
	if err := s.SetFlags(ctx, f.Found()); err != nil {
		t.Error(err)
	}
	if now, err := s.Flags(ctx); err != nil || now != (Flags{}) {
		t.Errorf("flags %s, %v", now, err)
	}
}

// A new owner ends what a former one still holds: it could thaw this server long after. The
// application's connections and other people's are not its own.
func testKillOwn(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	former := open(t, srv, "a")
	f, err := former.Freeze(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	app, err := pool(t, srv).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if killed, err := s.KillOwn(ctx); err != nil || killed == 0 {
		t.Fatalf("ended %d connections, %v", killed, err)
	}
	for deadline := time.Now().Add(5 * time.Second); f.Check(ctx) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the former owner's connection lives on")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := f.Thaw(ctx); err == nil {
		t.Error("the former owner thawed the server after it was taken over")
	}
	if now, err := s.Flags(ctx); err != nil || !now.SuperReadOnly {
		t.Errorf("flags %s, %v, expected the server frozen still", now, err)
	}
	if err := app.PingContext(ctx); err != nil {
		t.Errorf("the application's connection was ended: %v", err)
	}
	if err := s.SetFlags(ctx, f.Found()); err != nil {
		t.Error(err)
	}
}

func testFreezePrivileges(t *testing.T, srv *mysqld.Server, s *Server) {
	defer mysqldtest.Exec(t, srv, "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO vifl@'%'")
	mysqldtest.Exec(t, srv, "REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM vifl@'%'")
	if _, err := s.Freeze(ctxFor(t), time.Second); !mysqlconn.IsAccessDenied(err) {
		t.Errorf("freeze: %v", err)
	}
	if err := s.KeepClosed(ctxFor(t)); !mysqlconn.IsAccessDenied(err) {
		t.Errorf("keep closed: %v", err)
	} else {
		t.Log(err)
	}
}

func testClosed(t *testing.T, a, b *mysqld.Server, la, lb *Server) {
	ctx := ctxFor(t)
	app := pool(t, a)
	must(t, app, "INSERT INTO m (v) VALUES ('before')")
	f, err := la.Freeze(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := la.KeepClosed(ctx); err != nil {
		t.Fatal(err)
	}
	closed := func(when string) {
		t.Helper()
		if now, err := la.Flags(ctx); err != nil || now != (Flags{true, true, true}) {
			t.Errorf("%s: flags %s, %v", when, now, err)
		}
		fresh := pool(t, a)
		if err := fresh.Ping(); !mysqlconn.IsReadOnly(err) {
			t.Errorf("%s: the application's login: %v", when, err)
		}
		// b's writes reach a, over a replication account with CONNECTION_ADMIN, and the
		// other way round the threads run too.
		at, err := lb.Beat(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := WaitApplied(ctx, la, lb, at); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		end, err := la.Position(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := WaitApplied(wctx, lb, la, end); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	closed("before the restart")
	if err := a.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.Thaw(ctx); err == nil {
		t.Error("a freeze outlived its connection")
	}
	closed("after the restart")
	if err := la.KeepOpen(ctx, f.Found()); err != nil {
		t.Fatal(err)
	}
	must(t, pool(t, a), "INSERT INTO m (v) VALUES ('open again')")
	// What the next restart would take from.
	var persisted int
	err = la.DB().QueryRowContext(ctx, "SELECT COUNT(*) FROM performance_schema.persisted_variables WHERE variable_name IN ('read_only', 'super_read_only', 'offline_mode')").Scan(&persisted)
	if err != nil || persisted != 0 {
		t.Errorf("%d variables are still persisted, %v", persisted, err)
	}
}

func testKillSpares(t *testing.T, a, _ *mysqld.Server, la, lb *Server) {
	ctx := ctxFor(t)
	mysqldtest.Exec(t, a, "CREATE USER dba@'127.0.0.1' IDENTIFIED BY 'd'")
	app, err := pool(t, a).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	db, err := mysqlconn.Connect(ctx, as(a, "dba", "dba", "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dba, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer dba.Close()
	killed, err := la.KillApplication(ctx, []string{"dba@127.0.%"})
	if err != nil || killed < 1 {
		t.Errorf("killed %d, %v", killed, err)
	}
	if _, err := app.ExecContext(ctx, "DO 1"); err == nil {
		t.Error("the application's connection lives")
	}
	if _, err := dba.ExecContext(ctx, "DO 1"); err != nil {
		t.Errorf("an exempt account's connection: %v", err)
	}
	for _, d := range [][2]*Server{{la, lb}, {lb, la}} {
		at, err := d[1].Beat(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := WaitApplied(ctx, d[0], d[1], at); err != nil {
			t.Error(err)
		}
	}
}

func testWaitApplied(t *testing.T, a, b *mysqld.Server, la, lb *Server) {
	ctx := ctxFor(t)
	must(t, pool(t, a), "INSERT INTO m (v) VALUES ('x')")
	at, err := la.Position(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := WaitApplied(ctx, lb, la, at); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := lb.DB().QueryRow("SELECT COUNT(*) FROM slack.m WHERE v='x'").Scan(&n); err != nil || n != 1 {
		t.Errorf("applied, but %d rows, %v", n, err)
	}
	if found, err := lb.SetCheckpointPeriod(ctx, 10); err != nil || found != 300 {
		t.Errorf("found %d, expected the default, %v", found, err)
	}
	if found, err := lb.SetCheckpointPeriod(ctx, 300); err != nil || found != 10 {
		t.Errorf("found %d, expected what was set, %v", found, err)
	}
	if err := WaitApplied(ctx, la, lb, at); err == nil {
		t.Error("a's position taken for b's")
	}
	_, other := one(t)
	theirs, _ := other.Position(ctx)
	if err := WaitApplied(ctx, lb, other, theirs); err == nil {
		t.Error("b does not replicate from the other server")
	}
	if err := WaitApplied(ctx, other, la, at); err == nil {
		t.Error("the other server replicates from nobody")
	}
	// Later than all there is: the deadline ends it, naming both.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	far := at
	far.Pos += 1 << 30
	if err := WaitApplied(short, lb, la, far); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	// A row that is there already breaks b's replication.
	mysqldtest.Exec(t, b, "SET sql_log_bin=0", "INSERT INTO slack.m (id, v) VALUES (9001, 'mine')")
	must(t, pool(t, a), "INSERT INTO m (id, v) VALUES (9001, 'theirs')")
	at, _ = la.Position(ctx)
	start := time.Now()
	err = WaitApplied(ctx, lb, la, at)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("broken replication after %s: %v", time.Since(start), err)
	}
	t.Log(err)
}

// A transaction that is open at a freeze would commit when it is lifted.
func testKillTransactions(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	app, err := pool(t, srv).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	must(t, app, "BEGIN")
	must(t, app, "UPDATE m SET v='too late' LIMIT 1")
	// A statement with characters of four bytes at work: tables of statements cannot tell it.
	go func() { _, _ = pool(t, srv).ExecContext(ctx, "DO SLEEP(20), '\U0001F389'") }()
	waitFor(t, s, "User sleep")
	f, err := s.Freeze(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.KillTransactions(ctx); err != nil || n != 1 {
		t.Errorf("%d ended, %v, expected one", n, err)
	}
	if err := f.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := app.ExecContext(ctx, "COMMIT"); err == nil {
		t.Error("committed behind the freeze")
	}
	var late int
	if err := s.DB().QueryRowContext(ctx, "SELECT COUNT(*) FROM slack.m WHERE v='too late'").Scan(&late); err != nil || late != 0 {
		t.Errorf("%d row(s) of it, %v", late, err)
	}
	if n, err := s.KillTransactions(ctx); err != nil || n != 0 {
		t.Errorf("%d ended where there was none, %v", n, err)
	}
}

func testAdmitOwn(t *testing.T, srv *mysqld.Server, s *Server) {
	ctx := ctxFor(t)
	if err := s.KeepClosed(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(ctx); !mysqlconn.IsReadOnly(err) {
		t.Errorf("a heartbeat on a closed server: %v", err)
	}
	if err := s.AdmitOwn(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(ctx); err != nil {
		t.Errorf("a heartbeat of our own: %v", err)
	}
	if err := pool(t, srv).PingContext(ctx); err == nil {
		t.Error("the application got in")
	}
	var persisted string
	if err := s.DB().QueryRowContext(ctx, "SELECT GROUP_CONCAT(variable_name ORDER BY 1) FROM performance_schema.persisted_variables WHERE variable_name LIKE '%read_only' OR variable_name = 'offline_mode'").Scan(&persisted); err != nil || persisted != "offline_mode,read_only" {
		t.Errorf("persisted: %s, %v", persisted, err)
	}
	if err := s.KeepOpen(ctx, Flags{}); err != nil {
		t.Fatal(err)
	}
	must(t, pool(t, srv), "UPDATE m SET v='open' LIMIT 1")
}
