package binlog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

const (
	// staleAfter is how long an owner may be silent, by the target's clock, before another
	// worker takes the stream over.
	staleAfter = 10 * time.Second
	renewEvery = 2500 * time.Millisecond
	// claimWait bounds the wait for a former owner's transaction. One that is asleep is ended
	// by the server after sleepAtMost, as its session is set up so.
	claimWait   = 5 * time.Second
	sleepAtMost = 10 * time.Second
	// Orders are looked for often for a while after the last one: whoever stops a stream
	// does so several times.
	nearFor   = 30 * time.Second
	nearPoll  = 5 * time.Millisecond
	idlePoll  = 100 * time.Millisecond
	absentFor = 500 * time.Millisecond // between looks when there is nothing to do at all
	// retryFirst and retryMost lie between attempts after a failure.
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Throttle says before each batch how long to wait, and why. An error means that it cannot
// tell: then the stream goes on slowly.
type Throttle func(context.Context) (wait time.Duration, why string, err error)

// Worker carries out the orders of one stream: it reads the legacy's binlog and applies it
// to the target. Any number of workers may be run for one stream, in any processes: one of
// them has it, and the others take over when that one is not seen any more.
type Worker struct {
	Config
	owner       string
	connections int
	throttle    Throttle
	rowsPerSec  int
	wake        chan struct{}

	// What was read of the target's tables, for the generation it was read under.
	tables   map[string]*table
	charsets charsets
	readFor  int64
	ordered  time.Time // when the last order was seen
	applied  atomic.Uint64
}

// Option changes a worker.
type Option func(*Worker)

// WithConnections sets how many connections apply a large batch; 4 without.
func WithConnections(n int) Option { return func(w *Worker) { w.connections = max(n, 1) } }

// WithThrottle sets what is asked before each batch.
func WithThrottle(t Throttle) Option { return func(w *Worker) { w.throttle = t } }

// WithRowsPerSecond bounds the rate, in changed rows; 0 for no bound.
func WithRowsPerSecond(n int) Option { return func(w *Worker) { w.rowsPerSec = n } }

// NewWorker makes a worker; Run runs it.
func NewWorker(c Config, opts ...Option) (*Worker, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, c.errorf("random name of a worker: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	w := &Worker{Config: c, owner: fmt.Sprintf("%.200s pid %d worker %s", host, os.Getpid(), hex.EncodeToString(b[:])), connections: 4, wake: make(chan struct{}, 1)}
	for _, o := range opts {
		o(w)
	}
	return w, nil
}

// Wake makes the worker look for orders now. Orders are found without it; a process that has
// both the handle and the worker saves the wait.
func (w *Worker) Wake() { signal(w.wake) }

// Rows is how many changed rows the worker has applied since it was made.
func (w *Worker) Rows() uint64 { return w.applied.Load() }

// Run works until ctx ends, and returns its cause. What goes wrong is in the stream's status.
func (w *Worker) Run(ctx context.Context) error {
	retry := retryFirst
	for ctx.Err() == nil {
		wait, err := w.once(ctx)
		switch {
		case err == nil:
			retry = retryFirst
		case errors.Is(err, errControl):
			continue
		case errors.Is(err, errLost):
			wait = absentFor
		default:
			wait = retry
			retry = min(retry*2, retryMost)
		}
		w.sleep(ctx, wait)
	}
	return context.Cause(ctx)
}

func (w *Worker) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-t.C:
	}
}

func (w *Worker) poll() time.Duration {
	if time.Since(w.ordered) < nearFor {
		return nearPoll
	}
	return idlePoll
}

// once looks at the stream and works on it until it is stopped or something is wrong.
func (w *Worker) once(ctx context.Context) (wait time.Duration, err error) {
	db, err := w.Target(ctx)
	if err != nil {
		return 0, err
	}
	r, err := readRow(ctx, db, w.Name())
	if err != nil {
		return 0, err
	}
	if r == nil {
		return absentFor, nil
	}
	if r.state != running {
		return w.poll(), nil
	}
	if r.server != w.Server || r.database != w.Database {
		return absentFor, nil // of another configuration than ours: Start says so
	}
	got, err := claim(ctx, db, r, w.owner)
	if err != nil {
		return 0, err
	}
	if !got {
		return absentFor, nil
	}
	s := &session{w: w, db: db, row: r}
	err = s.run(ctx)
	s.close()
	switch {
	case ctx.Err() != nil:
		s.release(ctx)
		return 0, nil
	case err == nil:
		s.release(ctx)
		w.ordered = time.Now()
		return 0, nil
	case errors.Is(err, errControl), errors.Is(err, errLost):
		return 0, err
	}
	w.readFor = 0 // the tables may have been changed
	s.note(ctx, err)
	return 0, err
}

// stale reports that nobody works on the stream, or nobody who was seen lately.
func (r *row) stale() bool { return r.owner == "" || r.ownerSeen < 0 || r.ownerSeen > staleAfter }

// claim makes the stream owner's, when nobody else was seen on it lately. It waits for what
// a former owner is applying, and shuts it out of anything later.
func claim(ctx context.Context, db *sql.DB, r *row, owner string) (bool, error) {
	if !r.stale() && r.owner != owner {
		return false, nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer discard(conn)
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout=%d, transaction_isolation='READ-COMMITTED'", int(claimWait.Seconds()))); err != nil {
		return false, err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	for _, q := range []string{
		fmt.Sprintf("UPDATE `_vifl`.`stream_fence` SET generation=generation+1 WHERE id=%d AND generation=%d", r.id, r.generation),
		fmt.Sprintf("UPDATE `_vifl`.`stream` SET generation=generation+1, owner=%s, owner_seen=NOW(6) WHERE id=%d AND generation=%d AND "+
			"(owner IN ('', %s) OR owner_seen IS NULL OR owner_seen < NOW(6) - INTERVAL %d SECOND)", quote(owner), r.id, r.generation, quote(owner), int(staleAfter.Seconds())),
	} {
		res, err := tx.ExecContext(ctx, q)
		if mysqlconn.IsLockTimeout(err) {
			return false, nil // its owner is applying, or asleep
		}
		if err != nil {
			return false, fmt.Errorf("claiming the stream: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return false, err
		}
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("claiming the stream: %w", err)
	}
	r.generation++
	r.owner = owner
	return true, nil
}

// discard closes a connection whose session was changed: it must not go back into the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return errBadConn })
	_ = conn.Close()
}
