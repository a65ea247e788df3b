package binlog

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"vitess.io/vitess/go/mysql/replication"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

const (
	// saveEvery bounds how often the position is saved while nothing else is: a server whose
	// other databases are busy ends thousands of transactions a second.
	saveEvery = 100 * time.Millisecond
	// readOn is how long a stream that stands still keeps its reader: who compares both
	// sides stops it for a moment only.
	readOn = 30 * time.Second
	// pause lies between two looks at connections that are kept open.
	pause = time.Second
)

// errDropped is the end of a large transaction that shall not be applied, or not now.
var errDropped = errors.New("the transaction is not applied")

// follower applies the binlog under one claim.
type follower struct {
	c      *claim
	watch  *watch
	apply  *applier
	reader *transaction.Reader

	// at is up to where everything is applied, saved what the target knows of it. ahead is
	// the end of a batch that was begun before, zero for none.
	// With loaded unset nothing of this is known.
	loaded           bool
	at, saved, ahead position.FilePos
	// pending is transaction.Part's at that place, savedPending at saved.
	pending, savedPending position.FilePos
	// gtid is what is applied up to at, of a stream that reads a group; nil for others.
	gtid replication.GTIDSet
	// server is whom such a stream reads, looked when it was last seen to be fit for that.
	server    dump.Source
	looked    time.Time
	committed time.Time
	savedAt   time.Time
	// touched says that something was applied behind saved.
	touched bool

	reading *reading // nil when nothing is read
	since   time.Time
	// settled is the last order that was carried out or given up: until another one comes
	// the stream stands still.
	settled uint64
	// blocked says that it stands still whatever the order.
	blocked string
	message string

	// hold is until when the throttle lets nothing be applied; asked that it was asked about
	// what is applied next.
	hold  time.Time
	asked bool

	failedAt time.Time // the last failure that may pass
	retry    time.Time // nothing is read or applied before
	backoff  time.Duration
}

// work applies the stream until ctx ends, or the claim does.
func (c *claim) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(w.run(ctx))
	}()
	f := &follower{c: c, watch: w, apply: newApplier(c), backoff: backoffMin}
	if s := c.w.stream; s.group == nil {
		f.reader = c.w.reader(s.source, nil)
	}
	err := f.run(ctx)
	cancel(err)
	<-done
	f.stopReading()
	f.apply.close()
	return context.Cause(ctx)
}

func (f *follower) run(ctx context.Context) error {
	for {
		if !f.loaded {
			if err := f.load(ctx); err != nil {
				if err := f.failed(ctx, err); err != nil {
					return err
				}
				if !f.wait(ctx, nil) {
					return context.Cause(ctx)
				}
				continue
			}
		}
		err := f.step(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if err := f.failed(ctx, err); err != nil {
				return err
			}
		}
	}
}

// load reads from the target how far the stream is. The row is written first: what a former
// connection of ours, or of another worker, is committing just now is waited for.
func (f *follower) load(ctx context.Context) error {
	f.stopReading()
	f.apply.close()
	s := f.c.w.stream
	db, err := s.db(ctx)
	if err != nil {
		return err
	}
	err = transact(ctx, db, takeoverWait, func(c *sql.Conn) error {
		res, err := c.ExecContext(ctx, "UPDATE _vifl.stream_progress SET beat = beat + 1 WHERE id = ? AND generation = ?", f.c.id, f.c.generation)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(errLost, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r, err := s.read(ctx, db, f.c.w.o.Takeover)
	switch {
	case err != nil:
		return err
	case r == nil || r.id != f.c.id:
		return stream.ErrAbsent
	case r.generation != f.c.generation:
		return errLost
	}
	f.at, f.saved, f.ahead = r.at, r.at, r.ahead
	f.pending, f.savedPending = r.pending, r.pending
	if s.group != nil {
		f.reader = nil // chosen when something is to be read
		if f.gtid, err = replication.ParseMysql56GTIDSet(r.gtid); err != nil {
			return final("the set of applied GTIDs cannot be read: %v", err)
		}
	} else {
		f.reader.Since = r.pending
	}
	f.committed, f.touched, f.blocked, f.message = time.Time{}, false, r.blocked, r.message
	if r.stopped() || r.failed() {
		f.settled = r.command
	}
	f.loaded = true
	return nil
}

func (f *follower) stopReading() {
	if f.reading != nil {
		f.reading.stop()
		f.reading = nil
	}
	f.apply.reset()
}

// step does the next thing there is to do, or waits for one.
func (f *follower) step(ctx context.Context) error {
	o := f.watch.order()
	if o.command == 0 {
		f.wait(ctx, nil) // not read yet
		return nil
	}
	if f.blocked != "" && f.settled != o.command {
		return f.settle(ctx, o, progress{state: stateError, blocked: f.blocked, message: f.message})
	}
	if f.settled == o.command {
		if time.Since(f.since) > readOn {
			f.stopReading()
		}
		f.wait(ctx, nil)
		return nil
	}
	// In the midst of a batch the stream goes on to its end, whatever the order.
	if f.ahead.IsZero() {
		if !o.running {
			return f.settle(ctx, o, progress{state: stateStopped})
		}
		if done, err := f.atStop(ctx, o); done || err != nil {
			return err
		}
	}
	if time.Now().Before(f.retry) {
		f.wait(ctx, nil)
		return nil
	}
	if f.throttled(ctx, o) {
		f.wait(ctx, nil)
		return nil
	}
	if f.reading == nil {
		if f.reader == nil {
			if err := f.choose(ctx); err != nil {
				return err
			}
		}
		f.reading = read(ctx, f.reader, f.c.w.o.Limit, f.at, f.ahead)
	}
	bound, exact := o.stop, false
	if !f.ahead.IsZero() {
		bound, exact = f.ahead, true
	}
	got, err := f.reading.queue.take(f.c.w.o.Limit, f.c.w.o.Rows, bound, exact)
	switch {
	case err != nil:
		return asFinal(err)
	case got.batch.last != nil:
		return f.batch(ctx, o, got.batch)
	case got.large:
		return f.large(ctx, o)
	case got.passed && exact:
		return final("the batch from %s to %s that was begun cannot be read again: no transaction ends there now; seed the landing again", f.at, f.ahead)
	case got.passed:
		return f.settle(ctx, o, progress{state: stateStopped, passed: true})
	case got.ended:
		return f.ended(got.err)
	}
	return f.idle(ctx, o)
}

// atStop settles an order to stop that is carried out, or cannot be any more.
func (f *follower) atStop(ctx context.Context, o order) (done bool, err error) {
	if o.stop.IsZero() {
		return false, nil
	}
	c, err := position.Compare(f.at, o.stop)
	if err != nil {
		return true, f.settle(ctx, o, progress{state: stateStopped, passed: true, message: err.Error()})
	}
	if c < 0 {
		return false, nil
	}
	if c == 0 {
		return true, f.settle(ctx, o, progress{state: stateStopped})
	}
	// Between saved and at nothing was changed: it was not behind when the order was given.
	if s, err := position.Compare(f.saved, o.stop); err == nil && s <= 0 && !f.touched {
		f.stopReading()
		f.at, f.pending = f.saved, f.savedPending
		return false, nil
	}
	return true, f.settle(ctx, o, progress{state: stateStopped, passed: true})
}

// settle writes how an order ended, with the position.
func (f *follower) settle(ctx context.Context, o order, p progress) error {
	p.at, p.gtid, p.ahead, p.pending, p.committed, p.done = f.at, f.applied(), f.ahead, f.pending, f.committed, o.command
	db, err := f.c.w.stream.db(ctx)
	if err != nil {
		return err
	}
	if err := f.c.save(ctx, db, p); err != nil {
		return err
	}
	f.isSaved()
	f.settled, f.since = o.command, time.Now()
	return nil
}

func (f *follower) isSaved() {
	f.saved, f.savedPending, f.savedAt, f.committed, f.touched = f.at, f.pending, time.Now(), time.Time{}, false
	f.backoff, f.message = backoffMin, ""
}

// batch applies whole transactions.
func (f *follower) batch(ctx context.Context, o order, b batch) error {
	gtid, err := f.with(b.parts)
	if err != nil {
		return err
	}
	if b.rows == 0 {
		f.at, f.pending, f.gtid = b.last.End, b.last.Pending, gtid
		if !f.ahead.IsZero() && f.at == f.ahead {
			f.ahead = position.FilePos{}
		}
		if f.at == o.stop {
			return nil // the next step settles it
		}
		return f.saveSometimes(ctx, o)
	}
	f.asked = false
	f.watch.lastChange.Store(time.Now().UnixNano())
	after := progress{at: b.last.End, pending: b.last.Pending, gtid: textOf(gtid), committed: b.last.Committed, state: stateRunning, done: o.command}
	reached := b.last.End == o.stop
	if reached {
		after.state = stateStopped
	}
	before := progress{at: f.at, pending: f.pending, ahead: b.last.End, committed: f.committed, state: stateRunning, done: o.command}
	saved, err := f.apply.apply(ctx, &job{changes: b.parts, before: before, after: after, again: !f.ahead.IsZero()})
	if err != nil {
		return err
	}
	f.at, f.pending, f.gtid, f.ahead = b.last.End, b.last.Pending, gtid, position.FilePos{}
	f.committed, f.touched = b.last.Committed, true
	if !saved {
		// The next batch's beginning saves it too; only what nothing follows is saved here.
		f.reading.queue.wake()
		return nil
	}
	f.isSaved()
	if reached {
		f.settled, f.since = o.command, time.Now()
	}
	return nil
}

// large applies a transaction part by part.
func (f *follower) large(ctx context.Context, o order) error {
	f.asked = false
	var passed, reached bool
	var end, pending position.FilePos
	var gtid replication.GTIDSet
	var odd error
	next := func(ctx context.Context) (*transaction.Part, error) {
		for {
			// The order may be another one by now: to stop here does not wait for the end.
			if now := f.watch.order(); !now.running || now.stop == f.at {
				return nil, errDropped
			}
			p, ended, err := f.reading.queue.next()
			switch {
			case p != nil:
				f.watch.lastChange.Store(time.Now().UnixNano())
				return p, nil
			case ended:
				return nil, &readError{err}
			}
			if !f.wait(ctx, f.reading.queue.news) {
				return nil, context.Cause(ctx)
			}
		}
	}
	err := f.apply.large(ctx, next, func(last *transaction.Part) (progress, bool) {
		o = f.watch.order()
		if gtid, odd = f.with([]*transaction.Part{last}); odd != nil {
			return progress{}, false
		}
		p := progress{at: last.End, pending: last.Pending, gtid: textOf(gtid), committed: last.Committed, state: stateRunning, done: o.command}
		if !o.stop.IsZero() {
			c, err := position.Compare(last.End, o.stop)
			passed, reached = err != nil || c > 0, err == nil && c == 0
		}
		if reached {
			p.state = stateStopped
		}
		end, pending = last.End, last.Pending
		return p, !passed
	})
	var r *readError
	switch {
	case odd != nil:
		return odd
	case passed || errors.Is(err, errDropped):
		f.stopReading() // it has to be read again
		f.apply.close()
		if passed {
			return f.settle(ctx, o, progress{state: stateStopped, passed: true})
		}
		return nil
	case errors.As(err, &r):
		f.apply.close()
		return f.ended(r.error)
	case err != nil:
		return err
	}
	f.at, f.pending, f.gtid = end, pending, gtid
	f.isSaved()
	if reached {
		f.settled, f.since = o.command, time.Now()
	}
	return nil
}

// readError is the reader's, met in the midst of a transaction.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// ended takes the reader's end for what it is.
func (f *follower) ended(err error) error {
	f.stopReading()
	var b *transaction.Blocked
	if !errors.As(err, &b) {
		if dump.IsPermanent(err) {
			return final("%v", err)
		}
		return err
	}
	if c, cerr := position.Compare(b.At, f.at); cerr == nil && c > 0 {
		// Between here and there nothing changes the database.
		f.at = b.At
	}
	return &blockedError{b}
}

type blockedError struct{ *transaction.Blocked }

// failed decides what an error means: the end of the claim (it is returned then), the end of
// the order, or another attempt from what the target says.
func (f *follower) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errLost) || errors.Is(err, stream.ErrAbsent) {
		return err
	}
	// A transaction that is open has the row locked that the failure is written to.
	f.apply.close()
	o := f.watch.order()
	var b *blockedError
	switch {
	case errors.As(err, &b):
		if !o.stop.IsZero() && f.at == o.stop {
			return nil // stopped before it; found again when the stream goes on
		}
		f.blocked, f.message = b.Kind, b.Why
		return nil
	case errors.Is(err, errWarned) && !f.apply.careful:
		f.apply.careful = true
		f.forget()
		return nil
	case isFinal(err) && f.write(ctx, o, progress{state: stateError, message: err.Error()}):
		f.settled, f.since = o.command, time.Now()
		f.forget()
		return nil
	}
	f.write(ctx, o, progress{state: stateRunning, message: err.Error()})
	f.failedAt = time.Now()
	f.retry = f.failedAt.Add(f.backoff)
	f.backoff = min(2*f.backoff, backoffMax)
	f.forget()
	return nil
}

// write notes a failure beside the position that the target has.
func (f *follower) write(ctx context.Context, o order, p progress) bool {
	if !f.loaded || o.command == 0 {
		return false
	}
	db, err := f.c.w.stream.db(ctx)
	if err != nil {
		return false
	}
	return f.c.note(ctx, db, o.command, p) == nil
}

// forget makes the next step read from the target how far the stream is.
func (f *follower) forget() {
	f.loaded = false
	f.stopReading()
	f.apply.close()
}

// idle waits for something to do, having saved the position.
func (f *follower) idle(ctx context.Context, o order) error {
	if err := f.stillFit(ctx); err != nil {
		return err
	}
	if f.at != f.saved {
		if f.touched || time.Since(f.savedAt) >= saveEvery {
			return f.savePosition(ctx, o)
		}
	} else if f.message != "" && time.Since(f.failedAt) > 2*backoffMax {
		return f.savePosition(ctx, o) // it has gone on for a while: what it said is over
	}
	f.wait(ctx, f.reading.queue.news)
	return nil
}

func (f *follower) saveSometimes(ctx context.Context, o order) error {
	if time.Since(f.savedAt) < saveEvery {
		return nil
	}
	return f.savePosition(ctx, o)
}

func (f *follower) savePosition(ctx context.Context, o order) error {
	db, err := f.c.w.stream.db(ctx)
	if err != nil {
		return err
	}
	if err := f.c.save(ctx, db, progress{at: f.at, pending: f.pending, gtid: f.applied(), ahead: f.ahead, committed: f.committed, state: stateRunning, done: o.command}); err != nil {
		return err
	}
	f.isSaved()
	return nil
}

// wait waits for an order or news, but not for ever; false when ctx ended.
func (f *follower) wait(ctx context.Context, news <-chan struct{}) bool {
	d := pause
	if f.at != f.saved && news != nil {
		d = min(d, max(0, saveEvery-time.Since(f.savedAt)))
	}
	for _, until := range []time.Duration{time.Until(f.retry), time.Until(f.hold)} {
		if until > 0 {
			d = min(d, until)
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-f.watch.changed:
	case <-news:
	case <-t.C:
		f.apply.keep(ctx)
	}
	return true
}

// throttled says that what was read has to wait, as long as the throttle says or a moment
// when it says nothing. Its answer is for what is applied next.
func (f *follower) throttled(ctx context.Context, o order) bool {
	const blind = time.Second
	ask := f.c.w.o.Throttle
	if ask == nil || !o.stop.IsZero() || f.reading == nil || !f.reading.queue.waiting() {
		return false
	}
	if f.asked {
		return time.Now().Before(f.hold)
	}
	d, why, err := ask(ctx)
	if err != nil {
		d, why = blind, "the signal to throttle by is missing: "+err.Error()
	}
	f.asked, f.hold = true, time.Now().Add(d)
	if d <= 0 {
		return false
	}
	f.write(ctx, o, progress{state: stateRunning, message: "throttled: " + why})
	f.message = "throttled" // so that it is taken back
	return true
}
