package binlog

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
)

const (
	// Orders are looked for every lookNear for a while behind one, every lookBusy while
	// changes come, and every lookIdle otherwise: one process watches hundreds of quiet
	// streams.
	lookNear = 3 * time.Millisecond
	lookBusy = 10 * time.Millisecond
	lookIdle = 100 * time.Millisecond
	// busyFor is how long after a change a stream counts as busy.
	busyFor = 5 * time.Second
)

// order is what shall be done.
type order struct {
	command uint64
	running bool
	stop    position.FilePos // zero: none
}

// watch keeps a claim alive and looks for orders.
type watch struct {
	c *claim
	// changed has an entry when there is a new order.
	changed chan struct{}
	// lastChange is when a change was applied last; Unix nanoseconds.
	lastChange atomic.Int64

	mu  sync.Mutex
	now order
}

func newWatch(c *claim) *watch { return &watch{c: c, changed: make(chan struct{}, 1)} }

// order is the present one.
func (w *watch) order() order {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// run works until ctx ends or the claim is lost. An error that may pass is none: while the
// target cannot be reached, nothing is applied there either.
func (w *watch) run(ctx context.Context) error {
	renewed := time.Now()
	for {
		attentive, err := w.look(ctx, renewed)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errLost) || errors.Is(err, stream.ErrAbsent):
			return err
		case err == nil && time.Since(renewed) >= w.c.w.o.Takeover/3:
			renewed = time.Now()
		}
		wait := lookIdle
		switch {
		case err != nil:
		case attentive:
			wait = lookNear
		case time.Since(time.Unix(0, w.lastChange.Load())) < busyFor:
			wait = lookBusy
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-w.c.w.stream.given:
		case <-t.C:
		}
		t.Stop()
	}
}

// look reads the order, and gives a sign of life when it is time to.
func (w *watch) look(ctx context.Context, renewed time.Time) (attentive bool, err error) {
	db, err := w.c.w.stream.db(ctx)
	if err != nil {
		return false, err
	}
	if time.Since(renewed) >= w.c.w.o.Takeover/3 {
		if err := w.c.renew(ctx, db); err != nil && !errors.Is(err, errLost) {
			return false, err
		}
	}
	var o order
	var wanted string
	var file, server sql.NullString
	var pos sql.Null[uint64]
	var mine bool
	err = db.QueryRowContext(ctx, `SELECT command, wanted, stop_file, stop_pos, stop_server, token <=> ?, attention > UTC_TIMESTAMP(6) FROM _vifl.stream WHERE id = ?`, w.c.token, w.c.id).
		Scan(&o.command, &wanted, &file, &pos, &server, &mine, &attentive)
	switch {
	case errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err):
		return false, stream.ErrAbsent
	case err != nil:
		return false, err
	case !mine:
		return false, errLost
	}
	o.running = wanted == stateRunning
	if file.Valid {
		o.stop = position.FilePos{Server: server.String, File: file.String, Pos: pos.V}
	}
	w.mu.Lock()
	fresh := o.command != w.now.command
	w.now = o
	w.mu.Unlock()
	if fresh {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	return attentive, nil
}
