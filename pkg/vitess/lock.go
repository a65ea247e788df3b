package vitess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"vitess.io/vitess/go/vt/topo"
)

// ErrLockLost is the cause of the context that Lock returned, once the lock is gone.
var ErrLockLost = errors.New("the Vitess shard lock was lost")

const (
	// lockWait bounds waiting for the shard lock. VTOrc's recoveries and planned reparents
	// hold it for seconds.
	lockWait = 15 * time.Second
	// lockTTL is how long the lock outlives a holder that was killed. Vitess' default of 30 s
	// would keep VTOrc, and whoever clears up, away from a frozen shard for that long.
	lockTTL = 12 * time.Second
	// lockBeat is how often a held lock is renewed.
	lockBeat = 3 * time.Second
	// lockPatience is how long renewing may fail before the lock counts as lost: it is given
	// up before another can have it.
	lockPatience = 7 * time.Second
)

// Lock takes Vitess' shard lock, the one that VTOrc's recoveries and reparents take: while
// it is held VTOrc does not undo what we do to the primary. Elect takes it too and would
// wait for us, so elect first.
//
// The context that it returns carries the lock and is cancelled with ErrLockLost when the
// lock is lost; work under the lock must use it. The function gives the lock back. Waiting
// is bounded; the error then says who holds the lock.
func (l *Landing) Lock(ctx context.Context, action string) (context.Context, func(*error), error) {
	held, err := l.lock(ctx, action)
	if err == nil {
		return held.ctx, held.release, nil
	}
	if ctx.Err() != nil {
		return nil, nil, l.errorf("taking the shard lock: %w", context.Cause(ctx))
	}
	if topo.IsErrType(err, topo.NoNode) {
		return nil, nil, l.errorf("taking the shard lock: there is no shard %s: %w", shard, err)
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	holder, herr := l.LockHolder(ask)
	switch {
	case herr != nil:
		holder = "a holder that could not be read: " + herr.Error()
	case holder == "":
		holder = "nobody any more"
	}
	return nil, nil, l.errorf("the shard lock was not to be had: held by %s: %w: wait until that has ended, then run it again", holder, err)
}

// heldLock is a shard lock that is kept alive.
type heldLock struct {
	ctx     context.Context
	release func(*error)
}

func (l *Landing) lock(ctx context.Context, action string) (*heldLock, error) {
	// Not WithTimeout: the context that comes back must outlive the wait.
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(lockWait, func() { cancel(fmt.Errorf("not to be had within %s", lockWait)) })
	locked, unlock, err := l.f.ts.LockShard(ctx, l.keyspace, shard, action, topo.WithTTL(lockTTL))
	if !timer.Stop() && err == nil {
		// It was had just as the time was over, with a context that is dead.
		late := errors.New("too late")
		unlock(&late)
		err = late
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	done := make(chan struct{})
	beat, stop := context.WithCancel(locked)
	go func() {
		defer close(done)
		l.keepLock(beat, cancel)
	}()
	return &heldLock{ctx: locked, release: func(failure *error) {
		stop()
		<-done
		if failure == nil {
			failure = new(error)
		}
		unlock(failure)
		cancel(nil)
	}}, nil
}

// keepLock renews the lock until ctx ends. Vitess itself does not: it ties the lease's
// keep-alive to a context that ends when the lock has been had, so that a lock held for
// longer than the lease silently goes to the next in line.
func (l *Landing) keepLock(ctx context.Context, lost context.CancelCauseFunc) {
	renewed := time.Now()
	tick := time.NewTicker(lockBeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, lockBeat)
		err := topo.CheckShardLocked(call, l.keyspace, shard)
		cancel()
		switch {
		case err == nil:
			renewed = time.Now()
		case ctx.Err() != nil:
			return
		case topo.IsErrType(err, topo.NoNode) || time.Since(renewed) > lockPatience:
			lost(fmt.Errorf("%s: %w: %w", l, ErrLockLost, err))
			return
		}
	}
}

// Locked reports whether ctx carries the shard lock, asking the topo server.
func (l *Landing) Locked(ctx context.Context) error {
	if err := topo.CheckShardLocked(ctx, l.keyspace, shard); err != nil {
		return l.errorf("%w: %w", ErrLockLost, err)
	}
	return nil
}

// LockHolder says who holds the shard lock, for people; empty when nobody does.
func (l *Landing) LockHolder(ctx context.Context) (string, error) {
	conn, err := l.f.ts.ConnForCell(ctx, topo.GlobalCell)
	if err != nil {
		return "", l.errorf("topo server: %w", err)
	}
	// etcd keeps one key per holder and waiter in this folder; the oldest revision holds.
	dir := path.Join(topo.KeyspacesPath, l.keyspace, topo.ShardsPath, shard, "locks")
	entries, err := conn.List(ctx, dir+"/")
	switch {
	case topo.IsErrType(err, topo.NoNode):
		return "", nil
	case err != nil:
		return "", l.errorf("reading the shard lock: %w", err)
	case len(entries) == 0:
		return "", nil
	}
	first := entries[0]
	for _, e := range entries[1:] {
		if revision(e.Version) < revision(first.Version) {
			first = e
		}
	}
	var lock topo.Lock
	if err := json.Unmarshal(first.Value, &lock); err != nil {
		return "an unreadable lock record", nil
	}
	return fmt.Sprintf("%q (%s@%s since %s)", lock.Action, lock.UserName, lock.HostName, lock.Time), nil
}

// revision orders topo versions, which are numbers printed as text.
func revision(v topo.Version) (n int64) {
	_, _ = fmt.Sscan(v.String(), &n)
	return n
}
