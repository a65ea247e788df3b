package legacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// write inserts and updates from several connections until the returned function is called;
// that returns the longest any statement took, and the first error.
func write(t *testing.T, db *sql.DB, writers int) (stop func() (time.Duration, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	var failed error
	for w := range writers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				start := time.Now()
				_, err := db.Exec("INSERT INTO m (v) VALUES (?)", fmt.Sprint(w, i))
				if err == nil && i%3 == 0 {
					_, err = db.Exec("UPDATE m SET v=CONCAT(v,'.') WHERE id % 7 = ? LIMIT 3", w)
				}
				mu.Lock()
				longest = max(longest, time.Since(start))
				if err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	var once sync.Once
	stop = func() (time.Duration, error) {
		once.Do(func() { cancel(); wg.Wait() })
		return longest, failed
	}
	t.Cleanup(func() { _, _ = stop() })
	return stop
}

const fingerprint = "SELECT CONCAT(COUNT(*), '/', COALESCE(SUM(CRC32(CONCAT(id,'|',v))),0)) FROM slack.m"

// The proof that position and snapshots are one instant: a replica that runs until exactly
// the position holds exactly what every snapshot shows.
func testCutIsOneInstant(t *testing.T, a, b *mysqld.Server, la, _ *Server) {
	ctx := ctxFor(t)
	mysqldtest.Exec(t, b, "STOP REPLICA")
	stop := write(t, pool(t, a), 4)
	time.Sleep(200 * time.Millisecond)
	cut, err := la.Cut(ctx, 3, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	time.Sleep(200 * time.Millisecond)
	if _, err := stop(); err != nil {
		t.Errorf("a writer failed: %v", err)
	}
	if cut.Attempts < 1 || cut.Blocked <= 0 || len(cut.Snapshots) != 3 {
		t.Errorf("cut %+v", cut)
	}
	id, _ := la.Identity(ctx)
	if cut.Position.Server != id.ServerUUID {
		t.Errorf("position of %q, server %q", cut.Position.Server, id.ServerUUID)
	}

	var now, want string
	if err := la.DB().QueryRowContext(ctx, fingerprint).Scan(&now); err != nil {
		t.Fatal(err)
	}
	mysqldtest.Exec(t, b, fmt.Sprintf("START REPLICA UNTIL SOURCE_LOG_FILE='%s', SOURCE_LOG_POS=%d", cut.Position.File, cut.Position.Pos))
	db := mysqldtest.Open(t, b)
	for {
		r, err := (&Server{db: db, database: "slack"}).Replica(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.SQLRunning == "No" {
			if r.LastSQLError != "" {
				t.Fatal(r.LastSQLError)
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := db.QueryRowContext(ctx, fingerprint).Scan(&want); err != nil {
		t.Fatal(err)
	}
	for i, snapshot := range cut.Snapshots {
		var got string
		if err := snapshot.QueryRowContext(ctx, fingerprint).Scan(&got); err != nil || got != want {
			t.Errorf("snapshot %d shows %s, the replica at %s holds %s, %v", i, got, cut.Position, want, err)
		}
		if _, err := snapshot.ExecContext(ctx, "INSERT INTO _vifl.heartbeat VALUES ('x',1,1)"); err == nil {
			t.Errorf("snapshot %d can write", i)
		}
	}
	if now == want {
		t.Error("nothing was written between the cut and now: the test shows nothing")
	}
	mysqldtest.Exec(t, b, "START REPLICA")
	mysqldtest.CaughtUp(t, b, a)
}

// A writer that has the table locked holds the global lock up, and is idle: the look
// beforehand does not see it. The bound has to end the attempt.
func testCutGivesUp(t *testing.T, a *mysqld.Server, s *Server) {
	app := pool(t, a)
	holder, err := mysqldtest.Open(t, a).Conn(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	must(t, holder, "CREATE TABLE IF NOT EXISTS slack.held (id INT PRIMARY KEY)")
	must(t, holder, "LOCK TABLES slack.held WRITE")
	stop := write(t, app, 2)
	ctx, cancel := context.WithTimeout(ctxFor(t), 5*time.Second)
	defer cancel()
	start := time.Now()
	_, err = s.Cut(ctx, 1, 200*time.Millisecond)
	if !errors.Is(err, ErrBusy) {
		t.Errorf("cut behind a locked table: %v", err)
	}
	// 1205 would be lock_wait_timeout, which cannot be less than a second.
	if n := mysqlconn.Number(err); n == 1205 {
		t.Errorf("the second bound ended it, not the first: %v", err)
	}
	if took := time.Since(start); took < 4*time.Second {
		t.Errorf("one attempt and no more: %s", took)
	}
	longest, werr := stop()
	if werr != nil {
		t.Errorf("a writer failed: %v", werr)
	}
	// The lock is never given back: a lock that waited for it would have held the writers
	// for as long as Cut ran.
	if longest > 3*time.Second {
		t.Errorf("a writer waited %s for a lock bounded by 200ms", longest)
	}
	if err := lockers(t, s); err != nil {
		t.Error(err)
	}
}

// A long SELECT is the case that the bound does not cover, so no attempt may be made. A
// SLEEP without tables is none.
func testCutLooksFirst(t *testing.T, a *mysqld.Server, s *Server) {
	app := pool(t, a)
	done := make(chan struct{}, 2)
	go func() { _, _ = app.Exec("SELECT SLEEP(600) FROM m"); done <- struct{}{} }()
	long := longOnes(t, s, 1)
	if long[0].User != "app" || !long[0].HoldsTables || long[0].Running < longForLock {
		t.Errorf("%+v", long[0])
	}
	stop := write(t, app, 2)
	ctx, cancel := context.WithTimeout(ctxFor(t), time.Second)
	defer cancel()
	_, err := s.Cut(ctx, 1, time.Minute)
	if !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cut beside a long SELECT: %v", err)
	}
	// Were the lock asked for, writers would wait for ten minutes.
	if longest, err := stop(); err != nil || longest > 10*time.Second {
		t.Errorf("a writer waited %s, %v", longest, err)
	}
	if killed, err := s.KillApplication(ctxFor(t), nil); err != nil || killed < 1 {
		t.Errorf("killed %d, %v", killed, err)
	}
	<-done
	go func() { _, _ = app.Exec("SELECT SLEEP(600)"); done <- struct{}{} }()
	longOnes(t, s, 1)
	cut, err := s.Cut(ctxFor(t), 2, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = cut.Close()
	if _, err := s.KillApplication(ctxFor(t), nil); err != nil {
		t.Error(err)
	}
	<-done
}

func testLongStatementsCoarse(t *testing.T, a *mysqld.Server, s *Server) {
	mysqldtest.Exec(t, a, "UPDATE performance_schema.setup_consumers SET enabled='NO' WHERE name='events_statements_current'")
	defer mysqldtest.Exec(t, a, "UPDATE performance_schema.setup_consumers SET enabled='YES' WHERE name='events_statements_current'")
	app := pool(t, a)
	done := make(chan struct{})
	go func() { _, _ = app.Exec("SELECT SLEEP(600) FROM m"); close(done) }()
	long := longOnes(t, s, 1)
	if !long[0].HoldsTables || long[0].Running%time.Second != 0 {
		t.Errorf("%+v", long[0])
	}
	if _, err := s.KillApplication(ctxFor(t), nil); err != nil {
		t.Error(err)
	}
	<-done
}

// longOnes waits until there are n long statements.
func longOnes(t *testing.T, s *Server, n int) []Statement {
	t.Helper()
	var long []Statement
	for range 600 {
		var err error
		if long, err = s.LongStatements(ctxFor(t), longForLock); err != nil {
			t.Fatal(err)
		}
		if len(long) == n {
			return long
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("found %d long statements, expected %d: %v", len(long), n, long)
	return nil
}

func testCutCancelled(t *testing.T, a *mysqld.Server, s *Server) {
	app := pool(t, a)
	holder, err := mysqldtest.Open(t, a).Conn(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	must(t, holder, "LOCK TABLES slack.held WRITE")
	ctx, cancel := context.WithCancel(ctxFor(t))
	done := make(chan error, 1)
	go func() {
		_, err := s.Cut(ctx, 2, time.Minute)
		done <- err
	}()
	waitFor(t, s, "Waiting for global read lock")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	must(t, app, "INSERT INTO m (v) VALUES ('not locked')")
	if err := lockers(t, s); err != nil {
		t.Error(err)
	}
}

func testCutAfterRotation(t *testing.T, a *mysqld.Server, s *Server) {
	for range 5 {
		mysqldtest.Exec(t, a, "FLUSH BINARY LOGS")
		cut, err := s.Cut(ctxFor(t), 1, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if fresh, err := s.FreshBinlog(ctxFor(t), cut.Position); err != nil || fresh {
			t.Errorf("cut at %s: fresh %v, %v", cut.Position, fresh, err)
		}
		_ = cut.Close()
	}
}

// waitFor waits until some connection is in the state.
func waitFor(t *testing.T, s *Server, state string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		all, err := s.processes(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.State == state {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no connection came to %q", state)
}

// lockers is an error when a connection of ours still waits for, or holds, a lock.
func lockers(t *testing.T, s *Server) error {
	t.Helper()
	var last string
	for range 100 {
		all, err := s.processes(ctxFor(t))
		if err != nil {
			return err
		}
		last = ""
		for _, p := range all {
			if p.User == "vifl" && p.Command == "Query" && p.Text != "SHOW FULL PROCESSLIST" {
				last = p.String()
			}
		}
		if last == "" {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("still there: %s", last)
}
