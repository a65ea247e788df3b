package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/load/ledger"
)

const (
	// firstBackOff and longestBackOff bound the pause before the application looks up
	// again; half of it is random, so that writers do not come back all at once.
	firstBackOff   = 5 * time.Millisecond
	longestBackOff = 100 * time.Millisecond
)

// errRowGone is an update or delete that found no row where the server had acknowledged
// one: an acknowledged write is lost, or another one overtook it.
var errRowGone = errors.New("the writer's own row is not there in the version that was acknowledged")

// writer is one client of the application.
type writer struct {
	run      *Run
	number   int
	gen      *generator
	sessions sessions
	rows     []*row // its own, acknowledged
	attempts uint64
}

// loop does operations until the run is stopped. Its error is that of the ledger.
func (w *writer) loop() error {
	defer w.sessions.close()
	var interval time.Duration
	if w.run.options.Rate > 0 {
		interval = time.Duration(float64(time.Second) * float64(w.run.options.Writers) / w.run.options.Rate)
	}
	// Writers start spread over one interval.
	next := time.Now().Add(interval * time.Duration(w.number) / time.Duration(w.run.options.Writers))
	for w.run.sleep(time.Until(next)) {
		ok, err := w.operate()
		if err != nil {
			return err
		}
		next = next.Add(interval)
		if late := time.Now(); next.Before(late) {
			next = late // what a stall held back is not made up for in a burst
		}
		if !ok {
			next = time.Now().Add(max(interval, longestBackOff))
		}
	}
	return nil
}

// operate does one logical operation, retries included. It reports false after an
// application error.
func (w *writer) operate() (ok bool, err error) {
	o := w.build(w.pickKind(), 0)
	started := time.Now()
	w.run.stats.begin(w.number, started)
	back := firstBackOff
	for tries := 1; ; tries++ {
		t, err := w.try(o)
		if t.fatal != nil {
			return false, t.fatal
		}
		w.run.stats.tried(w.number, t.outcome)
		if err == nil {
			w.run.stats.done(w.number, Wait{Writer: w.number, Kind: o.kind, Team: o.team, Shard: t.shard, Tries: tries, Started: started}, o.rollback)
			return true, nil
		}
		switch t.verdict {
		case fault:
			w.run.stats.failed(w.number, err, time.Now())
			return false, nil
		case lost:
			// The old keys and versions are never touched again, so that each of them has
			// at most two possible states; the operation itself goes on with new ones.
			o = w.build(o.kind, o.team)
			fallthrough
		case again:
			w.run.directory.drop(o.team)
			w.sessions.drop(t.endpoint)
		}
		pause := back/2 + time.Duration(w.gen.Int64N(int64(back/2)+1))
		back = min(2*back, longestBackOff)
		if !w.run.sleep(pause) {
			w.run.stats.unfinished(w.number)
			return true, nil
		}
	}
}

// attempt is how one try of an operation ended.
type attempt struct {
	ledger.Attempt
	outcome  ledger.Outcome // "" when nothing was sent
	verdict  verdict
	shard    string
	endpoint string
	fatal    error
}

// try looks the team up, connects, and does the operation once. A nil error means that it
// is acknowledged (or rolled back as intended).
func (w *writer) try(o *operation) (attempt, error) {
	var a attempt
	ctx := w.run.hard
	lookup, cancel := context.WithTimeout(ctx, connectTimeout)
	id, place, err := w.run.directory.where(lookup, o.team)
	cancel()
	a.shard = id.String()
	if err != nil {
		a.verdict = judge(err, before)
		return a, err
	}
	a.endpoint = endpoint(place)
	s, err := w.sessions.get(ctx, place)
	if err != nil {
		a.verdict = judge(err, before)
		return a, err
	}
	w.attempts++
	a.Attempt = ledger.Attempt{
		Writer: w.number, N: w.attempts, Team: o.team, Shard: id, Side: place.Side, Endpoint: a.endpoint, Server: s.server,
		Rollback: o.rollback, Begin: time.Now().UnixMicro(), Effects: o.effects(),
	}
	if a.fatal = w.run.ledger.Append(ledger.Record{Begin: &a.Attempt}); a.fatal != nil {
		return a, a.fatal
	}
	ids, p, err := send(ctx, s.conn, o)
	a.outcome = ledger.Acked
	switch {
	case err != nil && o.rollback:
		a.outcome, a.verdict = ledger.Refused, judge(err, before) // never sent to commit
		w.sessions.drop(a.endpoint)
	case err != nil:
		a.outcome, a.verdict = ledger.Refused, judge(err, p)
		if a.verdict == lost {
			a.outcome = ledger.Unknown
			w.forget(o.gone)
		}
		// Whatever is open on it must not leak into the next operation.
		w.sessions.drop(a.endpoint)
	case o.rollback:
		a.outcome = ledger.RolledBack
	default:
		w.forget(o.gone)
		w.remember(o.made)
	}
	if errors.Is(err, errRowGone) {
		w.forget(o.gone)
	}
	end := ledger.End{Writer: w.number, N: w.attempts, Outcome: a.outcome, IDs: ids, End: time.Now().UnixMicro()}
	a.fatal = w.run.ledger.Append(ledger.Record{End: &end})
	return a, err
}

// send runs the statements of an operation. p is what was under way when it failed.
func send(ctx context.Context, conn *sql.Conn, o *operation) (ids []uint64, p phase, err error) {
	exec := func(q string) (sql.Result, error) {
		res, err := conn.ExecContext(ctx, q)
		if err != nil {
			words := strings.SplitN(q, " ", 4)
			err = fmt.Errorf("%s …: %w", strings.Join(words[:min(3, len(words))], " "), err)
		}
		return res, err
	}
	p = statement
	if o.tx {
		p = before
		if _, err := exec("BEGIN"); err != nil {
			return nil, p, err
		}
	}
	given := false
	for _, s := range o.steps {
		res, err := exec(s.sql)
		if err != nil {
			return nil, p, err
		}
		// Neither can fail: the driver has both numbers from the reply.
		n, _ := res.RowsAffected()
		id, _ := res.LastInsertId()
		if n != int64(len(s.effects)) {
			return nil, p, fmt.Errorf("%s %s: %d rows changed, expected %d: %w", s.effects[0].Table, s.effects[0].Key, n, len(s.effects), errRowGone)
		}
		for range s.effects {
			if s.auto {
				given = true
				ids = append(ids, uint64(id))
			} else {
				ids = append(ids, 0)
			}
		}
	}
	if !given {
		ids = nil
	}
	switch {
	case o.rollback:
		_, err = exec("ROLLBACK")
	case o.tx:
		p = commit
		_, err = exec("COMMIT")
	}
	return ids, p, err
}
