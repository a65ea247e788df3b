package legacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/position"
)

// Cut is one instant of a server: a binlog position, and transactions that all see the data
// exactly as of that position.
type Cut struct {
	Position position.FilePos
	// Snapshots are connections inside REPEATABLE READ, read only transactions. They must
	// not be committed, nor used for two queries at once.
	Snapshots []*sql.Conn
	// Blocked is the longest stretch for which writers were held up, over all attempts:
	// from asking for the lock until it was given back and nobody waited for it any more.
	Blocked time.Duration
	// Attempts counts tries, also those that ended before asking for the lock.
	Attempts int

	conns []*solo
}

// Close ends the snapshots.
func (c *Cut) Close() error {
	for _, conn := range c.conns {
		conn.close()
	}
	c.conns, c.Snapshots = nil, nil
	return nil
}

// cutAttempts and cutBackOff bound how long a busy server is asked: about 15 s in all. Each
// attempt may cost writers lockTimeout, so they are spaced much wider than that.
const (
	cutAttempts = 10
	cutBackOff  = 300 * time.Millisecond
	cutMaxPause = 2 * time.Second
)

// longForLock is what a statement that holds tables must have been running for us to wait
// for its end before asking for the lock. The global read lock flushes tables: each table
// that such a statement has in use is closed to everybody until the statement ends, and
// stays so when our waiting lock is killed. So the look beforehand is what protects writers
// from a long SELECT; the bound protects them from everything else.
const longForLock = 100 * time.Millisecond

// ErrBusy is returned by Cut and Freeze when the lock was not had within the bound.
var ErrBusy = errors.New("lock not had in time")

// Cut makes n snapshots of one instant. It looks for long statements first, beats, takes
// the global read lock, reads the position, opens the snapshots and unlocks; everything
// that can be done before the lock (connecting, session settings) is.
//
// From asking for the lock to its release no more than lockTimeout may pass: then the
// connection is killed from a second one and the whole attempt is made again, after a
// pause. ErrBusy names what was in the way. One thing can hold writers up for longer than
// lockTimeout: a SELECT that began just before and runs long keeps the tables it uses closed
// to them until it ends (see longForLock); Blocked tells. A position at the very start of a
// fresh binlog is not used.
func (s *Server) Cut(ctx context.Context, n int, lockTimeout time.Duration) (*Cut, error) {
	return s.cut(ctx, n, lockTimeout, s.Beat)
}

// CutReplica is Cut on a server that takes no writes but those that it replicates, which
// alone wait for the lock. It writes no heartbeat there.
func (s *Server) CutReplica(ctx context.Context, n int, lockTimeout time.Duration) (*Cut, error) {
	return s.cut(ctx, n, lockTimeout, s.Position)
}

// cut asks mark for a position just before each attempt: see errRotated.
func (s *Server) cut(ctx context.Context, n int, lockTimeout time.Duration, mark func(context.Context) (position.FilePos, error)) (*Cut, error) {
	if n < 1 || lockTimeout <= 0 {
		return nil, fmt.Errorf("%s: cut: %d snapshots within %s: expected at least one, and a time", s.target, n, lockTimeout)
	}
	var longest time.Duration
	var last error
	pause := cutBackOff
	for attempt := 1; ; attempt++ {
		cut, blocked, err := s.tryCut(ctx, n, lockTimeout, mark)
		longest = max(longest, blocked)
		if err == nil {
			cut.Blocked, cut.Attempts = longest, attempt
			return cut, nil
		}
		if ctx.Err() != nil {
			// What an attempt that was cut short met with says less than the one before.
			if last == nil || errors.Is(err, ErrBusy) {
				last = err
			}
			return nil, fmt.Errorf("%s: cut: %w: last attempt: %w", s.target, ctx.Err(), last)
		}
		last = err
		if !errors.Is(err, ErrBusy) && !errors.Is(err, errRotated) {
			return nil, err
		}
		if attempt == cutAttempts {
			return nil, fmt.Errorf("%s: no cut in %d attempts of %s each (longest wait of writers %s): %w", s.target, attempt, lockTimeout, longest.Round(time.Millisecond), last)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: cut: %w: last attempt: %w", s.target, ctx.Err(), last)
		case <-time.After(pause):
		}
		pause = min(pause*3/2, cutMaxPause)
	}
}

// errRotated: the binlog was rotated between the heartbeat and the lock.
var errRotated = errors.New("the binlog was rotated during the cut")

// tryCut is one attempt. On an error nothing is left behind.
func (s *Server) tryCut(ctx context.Context, n int, bound time.Duration, mark func(context.Context) (position.FilePos, error)) (_ *Cut, blocked time.Duration, err error) {
	if err := s.clearForLock(ctx); err != nil {
		return nil, 0, err
	}
	lock, uuid, err := s.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer lock.close()
	killer, _, err := s.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer killer.close()
	cut := &Cut{}
	defer func() {
		if err != nil {
			_ = cut.Close()
		}
	}()
	for range n {
		conn, other, err := s.dial(ctx)
		if err != nil {
			return nil, 0, err
		}
		cut.conns = append(cut.conns, conn)
		cut.Snapshots = append(cut.Snapshots, conn.Conn)
		if other != uuid {
			return nil, 0, fmt.Errorf("%s: connections reach different servers (%s and %s): expected one server behind the address, not a load balancer", s.target, uuid, other)
		}
		// A diff may leave a snapshot idle for long, or read from it slowly.
		if _, err := conn.ExecContext(ctx, "SET SESSION transaction_isolation='REPEATABLE-READ', SESSION wait_timeout=86400, SESSION net_write_timeout=3600, SESSION max_execution_time=0"); err != nil {
			return nil, 0, s.failed("preparing a snapshot", err)
		}
	}
	if _, err := lock.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout=%d", wholeSeconds(bound))); err != nil {
		return nil, 0, s.failed("preparing the lock", err)
	}
	before, err := mark(ctx)
	if err != nil {
		return nil, 0, err
	}

	// From here the statements run to their end even if ctx is cancelled: the watchdog
	// ends them on the server.
	inside, cancel := detached(ctx, bound+killTimeout)
	defer cancel()
	stop := watch(ctx, killer, "KILL", lock.id, bound)
	asked := time.Now()
	err = s.snapshotsUnderLock(inside, lock, uuid, cut)
	blocked = time.Since(asked)
	struck := stop()
	if err != nil {
		if struck {
			why := s.inTheWay(ctx)
			lock.close()
			s.settle(ctx)
			return nil, time.Since(asked), fmt.Errorf("%w: the global read lock was not had and given back within %s%s: %w", ErrBusy, bound, why, err)
		}
		return nil, blocked, err
	}
	// A heartbeat lies in the file that before names. A position in another file may be that
	// file's very start.
	if cut.Position.File != before.File {
		return nil, blocked, fmt.Errorf("%w: at %s before, lock at %s", errRotated, before, cut.Position)
	}
	return cut, blocked, nil
}

// snapshotsUnderLock is all that happens while writers wait. UNLOCK TABLES succeeding on
// the connection that took the lock proves that the lock was held until then: a connection
// that was killed, or broke, cannot answer.
func (s *Server) snapshotsUnderLock(ctx context.Context, lock *solo, uuid string, cut *Cut) error {
	if _, err := lock.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
		return s.failed("taking the global read lock", err)
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p, err := s.endOfBinlog(gctx, lock.Conn, uuid)
		cut.Position = p
		return err
	})
	for _, conn := range cut.conns {
		group.Go(func() error {
			if _, err := conn.ExecContext(gctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); err != nil {
				return s.failed("opening a snapshot", err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if _, err := lock.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
		return s.failed("giving the global read lock back", err)
	}
	return nil
}

// clearForLock is ErrBusy while a statement runs that the global lock would wait for. A
// SLEEP() or GET_LOCK() without tables, which ordinary applications wait in for minutes, is
// no such statement.
func (s *Server) clearForLock(ctx context.Context) error {
	all, err := s.LongStatements(ctx, longForLock)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.HoldsTables {
			return fmt.Errorf("%w: not asked for while a long statement runs: %s", ErrBusy, p)
		}
	}
	return nil
}

// flushPoll and flushPatience bound the wait for the aftermath of a killed lock.
const (
	flushPoll     = 20 * time.Millisecond
	flushPatience = time.Minute
)

// settle waits until nobody waits any more for a table that our killed lock had flushed
// (see longForLock). Those writers were held up by us, so that time counts as blocked; and
// the next attempt must not pile on.
func (s *Server) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	for ctx.Err() == nil {
		all, err := s.processes(ctx)
		if err != nil {
			return
		}
		waiting := false
		for _, p := range all {
			waiting = waiting || p.State == "Waiting for table flush"
		}
		if !waiting {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(flushPoll):
		}
	}
}

// inTheWay says, after a failed attempt, what probably was.
func (s *Server) inTheWay(ctx context.Context) string {
	ctx, cancel := detached(ctx, killTimeout)
	defer cancel()
	long, err := s.LongStatements(ctx, longForLock)
	if err != nil {
		return ""
	}
	for _, p := range long {
		// Those that wait do so because of us, or for whom we wait for.
		if !strings.HasPrefix(p.State, "Waiting for") {
			return ": " + p.String()
		}
	}
	return ""
}
