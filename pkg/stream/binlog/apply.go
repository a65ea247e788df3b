package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// smallBatch is how many rows one connection writes faster than several: those need two
// writes of the position more.
const smallBatch = 256

// applier writes batches of one claim to the target. Behind an error its connections are
// closed, and whoever uses it reads from the target how far it is.
type applier struct {
	c        *claim
	sessions []*session
	plans    map[*schema.Table]*plan
	// careful is set when a strict server refused a value that a lenient one may store.
	careful bool
}

func newApplier(c *claim) *applier { return &applier{c: c, plans: map[*schema.Table]*plan{}} }

// reset forgets the tables, which the next reader reads anew.
func (a *applier) reset() { a.plans = map[*schema.Table]*plan{} }

func (a *applier) plan(t *schema.Table) (*plan, error) {
	if p := a.plans[t]; p != nil {
		return p, nil
	}
	p, err := newPlan(a.c.w.stream.database, t)
	if err != nil {
		return nil, final("%v", err)
	}
	a.plans[t] = p
	return p, nil
}

// session is the n-th connection, opened when it is not there.
func (a *applier) session(ctx context.Context, n int) (*session, error) {
	for len(a.sessions) <= n {
		a.sessions = append(a.sessions, nil)
	}
	if a.sessions[n] == nil {
		db, err := a.c.w.stream.db(ctx)
		if err != nil {
			return nil, err
		}
		mode := sqlMode
		if a.careful {
			mode = lenientMode
		}
		if a.sessions[n], err = open(ctx, db, mode); err != nil {
			a.sessions[n] = nil
			return nil, a.c.w.stream.errorf("connecting to the target: %w", err)
		}
	}
	a.sessions[n].used = time.Now()
	a.sessions[n].spoken = time.Now()
	return a.sessions[n], nil
}

// keep holds idle connections open for a while.
func (a *applier) keep(ctx context.Context) {
	for i, s := range a.sessions {
		switch {
		case s == nil:
		case time.Since(s.used) > sessionUnused:
			discard(s.conn)
			a.sessions[i] = nil
		case time.Since(s.spoken) > sessionKept:
			s.spoken = time.Now()
			if _, err := s.conn.ExecContext(ctx, "DO 0"); err != nil {
				discard(s.conn)
				a.sessions[i] = nil
			}
		}
	}
}

func (a *applier) close() {
	for _, s := range a.sessions {
		if s != nil {
			discard(s.conn)
		}
	}
	a.sessions = nil
}

// progress is what is written of how far the stream is.
type progress struct {
	at        position.FilePos
	gtid      string           // empty: the stream has none
	ahead     position.FilePos // zero: none
	pending   position.FilePos // transaction.Part's at that place
	committed time.Time        // zero: as it was
	state     string
	done      uint64
	passed    bool
	blocked   string
	message   string
}

// update is the statement that writes p, unless another worker has the stream.
func (c *claim) update(p progress) string {
	ahead := "ahead_file=NULL,ahead_pos=NULL"
	if !p.ahead.IsZero() {
		ahead = fmt.Sprintf("ahead_file=%s,ahead_pos=%d", quote(p.ahead.File), p.ahead.Pos)
	}
	pending := "pending_file=NULL,pending_pos=NULL"
	if !p.pending.IsZero() {
		pending = fmt.Sprintf("pending_file=%s,pending_pos=%d", quote(p.pending.File), p.pending.Pos)
	}
	gtid := ""
	if p.gtid != "" {
		gtid = "gtid=" + quote(p.gtid) + ","
	}
	committed := ""
	if !p.committed.IsZero() {
		committed = fmt.Sprintf("committed=%d,", p.committed.Unix())
	}
	// updated is when the position was saved; assignments are made from left to right.
	p.message = c.w.stream.advise(p.message)
	return fmt.Sprintf("UPDATE _vifl.stream_progress SET updated=IF(file=%[1]s AND pos=%[2]d,updated,UTC_TIMESTAMP(6)),file=%[1]s,pos=%[2]d,server=%[12]s,%[13]s%[3]s,%[14]s,%[4]s"+
		"state=%[5]s,done=%[6]d,passed=%[7]t,blocked=LEFT(%[8]s,64),message=LEFT(%[9]s,1000),beat=beat+1 WHERE id=%[10]d AND generation=%[11]d",
		quote(p.at.File), p.at.Pos, ahead, committed, quote(p.state), p.done, p.passed, quote(p.blocked), quote(p.message), c.id, c.generation, quote(p.at.Server), gtid, pending)
}

// note writes a state and a message and leaves the position as it is.
func (c *claim) note(ctx context.Context, e execer, command uint64, p progress) error {
	_, err := e.ExecContext(ctx, fmt.Sprintf("UPDATE _vifl.stream_progress SET state=%s,done=%d,passed=FALSE,message=LEFT(%s,1000),beat=beat+1 WHERE id=%d AND generation=%d",
		quote(p.state), command, quote(c.w.stream.advise(p.message)), c.id, c.generation))
	return err
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// save writes p. Where that is the first statement of a transaction it is also its fence.
func (c *claim) save(ctx context.Context, e execer, p progress) error {
	res, err := e.ExecContext(ctx, c.update(p))
	if err != nil {
		return explain("", false, err)
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = errLost
	}
	return err
}

// job is how a batch is applied.
type job struct {
	changes []*transaction.Part
	// before is what the row says while the batch is applied by several connections: the
	// position as it is, and the batch's end as ahead. after is what it says then.
	before, after progress
	// again says that parts of the batch may have been applied before.
	again bool
}

// apply applies a batch, and reports whether it saved after with it.
//
// Several connections do not commit at one instant, so a crash between leaves a part of the
// batch applied. That is why the row says beforehand up to where (ahead). Whoever goes on
// from there applies the same batch again, exactly up to ahead and as one, before anything
// else; until then the stream is not stopped, and no place before ahead can be stopped at.
// The second time comes to the same: every row that the batch touches is deleted or written
// with its last image, whatever it is now, and a table with several unique keys, where the
// way there matters, is written by one connection in one transaction, so that it is found
// either wholly before the batch or wholly behind it. Cut at another place the batch would
// not do: a row of the first half could want a unique value that the second half, already
// applied, has given to another row.
func (a *applier) apply(ctx context.Context, j *job) (saved bool, err error) {
	n := newNet(a.plan)
	for _, p := range j.changes {
		for i := range p.Changes {
			if err := n.add(&p.Changes[i]); err != nil {
				return false, asFinal(err)
			}
		}
	}
	units := n.units()
	lanes := 1
	if a.c.w.stream.group == nil && (n.rows > smallBatch || j.again) {
		lanes = min(len(units), a.c.w.o.Connections)
	}
	work := queued(units)
	if lanes <= 1 {
		return true, a.transact(ctx, 0, func(ctx context.Context, s *session) error {
			if err := a.c.save(ctx, s.conn, j.after); err != nil {
				return err
			}
			return a.write(ctx, s, work, j.again)
		})
	}
	db, err := a.c.w.stream.db(ctx)
	if err != nil {
		return false, err
	}
	if err := a.c.save(ctx, db, j.before); err != nil {
		return false, err
	}
	for i := range lanes { // opened before, since they share the list of sessions
		if _, err := a.session(ctx, i); err != nil {
			return false, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, lanes)
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			errs[i] = a.transact(ctx, i, func(ctx context.Context, s *session) error {
				if err := a.c.fence(ctx, s.conn, "FOR SHARE"); err != nil {
					return err
				}
				return a.write(ctx, s, work, j.again)
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return false, worst(errs)
}

// worst is the error that decides what happens: one that ends the claim or the stream
// rather than one that may pass, and none that only says another one ended the others.
func worst(errs []error) error {
	var out error
	for _, err := range errs {
		switch {
		case err == nil:
		case out == nil || errors.Is(out, context.Canceled):
			out = err
		case errors.Is(err, errLost) || isFinal(err) && !errors.Is(out, errLost):
			out = err
		}
	}
	return out
}

func asFinal(err error) error {
	if isFinal(err) {
		return err
	}
	return final("%v", err)
}

// units cuts the batch into pieces, each of which one connection writes wholly. Whichever
// connection is free takes the next one, so that none waits long for the others at the end.
func (n *net) units() []*unit {
	var whole, pieces []*unit
	for _, t := range n.tables {
		if len(t.rows) == 0 {
			continue
		}
		if t.plan.split() {
			t.sort()
		}
		counter, image := t.swallowed()
		u := &unit{plan: t.plan}
		first := len(pieces)
		for _, r := range t.rows {
			if t.plan.split() && (len(u.rows) >= rowsAtMost || u.bytes >= statementAtMost) {
				pieces = append(pieces, u)
				u = &unit{plan: t.plan}
			}
			u.rows = append(u.rows, r)
			u.bytes += r.bytes + 64
			if r == counter {
				u.counter, u.counterRow = r, image
			}
		}
		if len(pieces) > first {
			pieces = append(pieces, u)
		} else {
			whole = append(whole, u)
		}
	}
	// What takes longest comes first. The pieces of a table stay in the order of their keys.
	sort.SliceStable(whole, func(i, j int) bool { return whole[i].bytes > whole[j].bytes })
	return append(whole, pieces...)
}

// transact runs f in a transaction of the n-th connection.
func (a *applier) transact(ctx context.Context, n int, f func(context.Context, *session) error) error {
	s, err := a.session(ctx, n)
	if err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return explain("", false, err)
	}
	if err := f(ctx, s); err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return explain("", false, err)
	}
	return nil
}

// queued lets several connections take units from one list.
func queued(units []*unit) <-chan *unit {
	work := make(chan *unit, len(units))
	for _, u := range units {
		work <- u
	}
	close(work)
	return work
}

// write writes units until there are no more.
func (a *applier) write(ctx context.Context, s *session, units <-chan *unit, again bool) error {
	for u := range units {
		rows := rowsAtMost
		if a.careful {
			rows = min(rows, max(1, warningsAtMost/len(u.plan.written)))
		}
		err := u.write(again, s.limit, rows, func(query string, images []transaction.Image) (int64, error) {
			res, err := s.conn.ExecContext(ctx, query)
			if err != nil {
				return 0, explain(u.plan.table.Name, !a.careful, err)
			}
			if a.careful {
				if err := s.lenient(ctx, u.plan, images); err != nil {
					return 0, err
				}
			}
			return res.RowsAffected()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// quote makes a string literal of SQL.
func quote(s string) string {
	out := make([]byte, 0, len(s)+2)
	out = append(out, '\'')
	for i := range len(s) {
		switch c := s[i]; c {
		case '\'', '\\':
			out = append(out, '\\', c)
		case 0:
			out = append(out, '\\', '0')
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '\''))
}
