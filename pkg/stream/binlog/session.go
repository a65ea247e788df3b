package binlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
)

var errBadConn = driver.ErrBadConn

const (
	// saveEvery is how often the position alone is saved, while only others write.
	saveEvery = 200 * time.Millisecond
	// closeAfter is how long connections stay open without work.
	closeAfter = 5 * time.Second
	// keepAlive is how often a transaction whose next piece is awaited says that it is alive.
	keepAlive = sleepAtMost / 4
	// cleanUp bounds what is done after the end.
	cleanUp = 5 * time.Second
)

// session is a worker's work on a stream that it owns, until that ends in one way or another.
type session struct {
	w   *Worker
	db  *sql.DB
	row *row // position and orders as this session knows them

	pipe  *pipe
	conns []*sql.Conn
	// packet is the target's max_allowed_packet.
	packet int
	// inPiece: a transaction is open that has parts of a large one.
	inPiece bool
	saved   time.Time // when the position was saved
	busy    time.Time // when connections were used
	pace    time.Time // when the next batch may begin, for the rate

	orders chan struct{} // they may have changed
	lost   chan struct{} // the stream is not ours any more

	stopAll func()
	all     sync.WaitGroup

	mu      sync.Mutex
	message string // what the row says, as far as it is known here
}

// run reads and applies. nil: the stream is stopped.
func (s *session) run(ctx context.Context) error {
	if s.w.readFor != s.row.id {
		tables, charsets, err := readTables(ctx, s.db, s.w.Database)
		if err != nil {
			return err
		}
		s.w.tables, s.w.charsets, s.w.readFor = tables, charsets, s.row.id
	}
	ctx, s.stopAll = context.WithCancel(ctx)
	s.orders, s.lost = make(chan struct{}, 1), make(chan struct{})
	control, ordered := s.row.control, s.w.ordered
	s.all.Go(func() { s.watch(ctx, control, ordered) })
	s.pipe = newPipe(s.row.pos, s.stopFor())
	if done, err := s.obey(ctx); done || err != nil {
		return err
	}
	at := *s.row
	s.all.Go(func() { s.read(ctx, at.pos, at.readFrom, at.born) })
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.lost:
			return errLost
		case <-s.orders:
			if done, err := s.obey(ctx); done || err != nil {
				return err
			}
			continue
		default:
		}
		if done, err := s.step(ctx); done || err != nil {
			return err
		}
	}
}

// stopFor is where the pipe is to stop. While the target is not at one position yet there is
// no stopping.
func (s *session) stopFor() position.FilePos {
	if s.recovering() {
		return position.FilePos{}
	}
	return s.row.stop
}

// recovering: some tables may be ahead of the position, as a batch was not ended. Until it
// has passed what that batch reached, rows are written as if they could be there already.
func (s *session) recovering() bool { return !s.row.ahead.IsZero() }

// step applies what waits, or waits for it.
func (s *session) step(ctx context.Context) (done bool, err error) {
	waits, matters := s.pipe.peek()
	if !waits && !s.inPiece && s.pipe.passed() {
		return s.cannotStop(ctx)
	}
	if !waits || !matters && s.row.stop.IsZero() && time.Since(s.saved) < saveEvery {
		return false, s.wait(ctx)
	}
	limited, err := s.hold(ctx)
	if err != nil || limited {
		return false, err
	}
	b, err := s.pipe.take()
	if err != nil {
		return false, err
	}
	if b == nil {
		return false, nil
	}
	if err := s.apply(ctx, b); err != nil {
		return false, err
	}
	return s.row.state != running, nil
}

// wait waits until something is to be done.
func (s *session) wait(ctx context.Context) error {
	idle := closeAfter
	if s.inPiece {
		idle = keepAlive
	} else if waits, _ := s.pipe.peek(); waits {
		idle = saveEvery
	}
	t := time.NewTimer(idle)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-s.lost:
	case <-s.orders:
		signal(s.orders) // for the loop
	case <-s.pipe.filled:
	case <-t.C:
		if s.inPiece {
			_, err := s.conns[0].ExecContext(ctx, "DO 1")
			return err
		}
		if time.Since(s.busy) >= closeAfter {
			s.closeConns()
		}
	}
	return nil
}

// hold asks the throttle and keeps to the rate. A throttle that fails lets a little through
// each second: it is not known how much the target can take.
func (s *session) hold(ctx context.Context) (bool, error) {
	if s.inPiece { // its transaction is open: the sooner it ends the better
		return false, nil
	}
	wait := time.Until(s.pace)
	if s.w.throttle != nil {
		asked, why, err := s.w.throttle(ctx)
		if err != nil {
			asked, why = blindWait, "the throttle cannot tell: "+err.Error()
			if time.Since(s.busy) >= blindWait {
				asked = 0
			}
		}
		if asked > wait {
			wait = asked
			s.say(ctx, "throttled: "+why)
		}
	}
	if wait <= 0 {
		return false, nil
	}
	t := time.NewTimer(min(wait, time.Second))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-s.lost:
	case <-s.orders:
		signal(s.orders)
	case <-t.C:
	}
	return true, nil
}

// blindWait lies between two batches when the throttle fails.
const blindWait = time.Second

// say notes a message for the status, once.
func (s *session) say(ctx context.Context, message string) {
	s.mu.Lock()
	same := s.message == message
	s.message = message
	s.mu.Unlock()
	if same {
		return
	}
	_, _ = s.db.ExecContext(ctx, fmt.Sprintf("UPDATE `_vifl`.`stream` SET message=%s WHERE id=%d AND generation=%d", quote(short(message)), s.row.id, s.row.generation))
}

// obey takes in what somebody ordered. done: the stream is stopped.
func (s *session) obey(ctx context.Context) (done bool, err error) {
	now, err := readRow(ctx, s.db, s.w.Name())
	if err != nil {
		return false, err
	}
	if now == nil || now.id != s.row.id || now.generation != s.row.generation {
		return false, errLost
	}
	if now.control != s.row.control {
		s.w.ordered = time.Now()
	}
	s.row.control, s.row.wanted, s.row.stop = now.control, now.wanted, now.stop
	if s.row.wanted == stopped && !s.recovering() {
		return true, s.markStopped(ctx)
	}
	if !s.row.stop.IsZero() {
		if s.recovering() {
			if c, err := position.Compare(s.row.stop, s.row.ahead); err == nil && c < 0 {
				return s.cannotStop(ctx)
			}
		}
		c, err := position.Compare(s.row.pos, s.row.stop)
		switch {
		case err != nil || c > 0:
			return s.cannotStop(ctx)
		case c == 0 && !s.recovering():
			return true, s.markStopped(ctx)
		}
	}
	if !s.pipe.setStop(s.stopFor()) {
		return false, errControl // what was read lies behind it already
	}
	return false, nil
}

// set changes the row if the stream is still ours and its orders are still those known here.
func (s *session) set(ctx context.Context, assignments string) error {
	res, err := s.db.ExecContext(ctx, "UPDATE `_vifl`.`stream` SET "+assignments+s.ours())
	if err != nil {
		return err
	}
	return changed(res)
}

// ours is the condition of every change of the row.
func (s *session) ours() string {
	return fmt.Sprintf(" WHERE id=%d AND generation=%d AND control=%d", s.row.id, s.row.generation, s.row.control)
}

func changed(res sql.Result) error {
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return errControl
	}
	return nil
}

func (s *session) markStopped(ctx context.Context) error {
	s.closeConns() // an open part of a transaction goes with its connection
	return s.set(ctx, "state='stopped', wanted='stopped', stop_position='', owner_seen=NOW(6)")
}

// cannotStop tells that no transaction ends at the position to stop at. The stream stands
// still, unless the target is between two positions.
func (s *session) cannotStop(ctx context.Context) (bool, error) {
	set := "passed=stop_position, stop_position=''"
	if !s.recovering() {
		set += ", state='stopped', wanted='stopped'"
	}
	if err := s.set(ctx, set); err != nil {
		return false, err
	}
	s.row.stop = position.FilePos{}
	return !s.recovering(), nil
}

// watch looks for orders, and shows that the stream's owner is alive.
func (s *session) watch(ctx context.Context, control int64, lastOrder time.Time) {
	renewed := time.Now()
	for {
		wait := idlePoll
		if time.Since(lastOrder) < nearFor {
			wait = nearPoll
		}
		s.w.sleep(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		if time.Since(renewed) >= renewEvery {
			res, err := s.db.ExecContext(ctx, fmt.Sprintf("UPDATE `_vifl`.`stream` SET owner_seen=NOW(6) WHERE id=%d AND generation=%d", s.row.id, s.row.generation))
			if err != nil {
				continue
			}
			renewed = time.Now()
			if n, err := res.RowsAffected(); err == nil && n == 0 {
				close(s.lost)
				return
			}
		}
		var generation, now int64
		err := s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT generation, control FROM `_vifl`.`stream` WHERE id=%d", s.row.id)).Scan(&generation, &now)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && generation != s.row.generation:
			close(s.lost)
			return
		case err == nil && now != control:
			control, lastOrder = now, time.Now()
			signal(s.orders)
		}
	}
}

// read follows the binlog into the pipe, over as many connections as it takes.
func (s *session) read(ctx context.Context, from, readFrom position.FilePos, born uint32) {
	retry := retryFirst
	for {
		r := &reader{
			database: s.w.Database, tables: s.w.tables, charsets: s.w.charsets, pipe: s.pipe, from: from, born: born,
			boundary: readFrom, named: map[uint64]*named{}, prepared: map[string]*prepared{},
		}
		err := dump.Source{Target: s.w.Source, Server: s.w.Server}.Follow(ctx, readFrom, func(e *dump.Event) error {
			retry = retryFirst
			return r.handle(ctx, e)
		})
		if ctx.Err() != nil {
			return
		}
		if dump.IsPermanent(err) {
			s.pipe.end(finalError{err})
			return
		}
		// Where the last transaction that was handed over ends. What was prepared is read
		// again.
		if r.pieces {
			if s.pipe.abandon(ctx) != nil {
				return
			}
		}
		if at := s.pipe.handedOver(); r.live && at != from {
			from, readFrom, born = at, r.readFrom(at), r.fileBorn
			if r.boundary.File != at.File {
				born = 0
			}
		}
		s.say(ctx, err.Error())
		t := time.NewTimer(retry)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		retry = min(retry*2, retryMost)
	}
}

// release gives the stream up, so that another worker need not wait.
func (s *session) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	_, _ = s.db.ExecContext(ctx, fmt.Sprintf("UPDATE `_vifl`.`stream` SET owner='' WHERE id=%d AND generation=%d", s.row.id, s.row.generation))
}

// note writes what went wrong into the row. What trying again does not mend ends the stream.
func (s *session) note(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	set := "message=" + quote(short(scrub(err).Error()))
	if isFinal(err) {
		set += ", state='error', wanted='stopped', stop_position=''"
		var b blockedError
		if errors.As(err, &b) {
			set += ", blocked=" + quote(b.kind)
		}
	}
	_, _ = s.db.ExecContext(ctx, fmt.Sprintf("UPDATE `_vifl`.`stream` SET %s WHERE id=%d AND generation=%d", set, s.row.id, s.row.generation))
}

// close ends everything that the session started, and waits for it.
func (s *session) close() {
	if s.stopAll != nil {
		s.stopAll()
	}
	s.all.Wait()
	s.closeConns()
}

func (s *session) closeConns() {
	for _, c := range s.conns {
		discard(c)
	}
	s.conns, s.inPiece = nil, false
}

// quote makes a string literal of SQL, in a session without NO_BACKSLASH_ESCAPES.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// short cuts a message to what the row has room for.
func short(message string) string {
	if len(message) > 1900 {
		return strings.ToValidUTF8(message[:1900], "") + " …"
	}
	return message
}
