package transaction

import (
	"slices"
	"strings"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// xaState is the open transaction's, when it is a distributed one.
type xaState struct {
	name     string // as the server writes it; empty for a plain transaction
	tooLarge bool   // its changes were dropped
}

// prepared is a distributed transaction that waits for its decision, or that was decided not
// long ago: what reads on from a place before the decision meets it a second time.
type prepared struct {
	name     string
	changes  []Change
	bytes    int
	tooLarge bool
	began    position.FilePos // the boundary before it
	at       position.FilePos // where its PREPARE ends
	decided  position.FilePos // where its COMMIT or ROLLBACK ends; zero for none
}

// xaLimit times the reader's limit is how large a distributed transaction may be, and all together
// that are prepared: what will be decided of one is not known before its end, so it is kept whole.
const xaLimit = 16

// decidedAtMost bounds how many decided ones are kept beside their bytes.
const decidedAtMost = 1000

// waiting is the transaction of that name that waits for its decision; nil for none.
func (r *Reader) waiting(name string) *prepared {
	for _, p := range slices.Backward(r.prepared) {
		if p.name == name && p.decided.IsZero() {
			return p
		}
	}
	return nil
}

// keep adds a transaction. Decided ones make room for it; what is too large even then is
// known by its name only.
func (r *Reader) keep(p *prepared) {
	bytes, decided := p.bytes, 0
	for _, q := range r.prepared {
		bytes += q.bytes
		if !q.decided.IsZero() {
			decided++
		}
	}
	r.prepared = slices.DeleteFunc(r.prepared, func(q *prepared) bool {
		if q.decided.IsZero() || bytes <= r.limit*xaLimit && decided <= decidedAtMost {
			return false
		}
		bytes -= q.bytes
		decided--
		return true
	})
	if bytes > r.limit*xaLimit {
		p.changes, p.bytes, p.tooLarge = nil, 0, true
	}
	r.prepared = append(r.prepared, p)
}

// pending is where the oldest one begins that waits for its decision; zero for none.
func (r *Reader) pending() position.FilePos {
	for _, p := range r.prepared {
		if p.decided.IsZero() {
			return p.began
		}
	}
	return position.FilePos{}
}

// knows reports that all was read that is prepared at that place: the reader came by there.
func (r *Reader) knows(at position.FilePos) bool {
	c, err := position.Compare(r.end, at)
	return !r.end.IsZero() && err == nil && c >= 0
}

// rewind puts back what is known of distributed transactions to a place that is read from
// again. Of one that is ahead, or in another binlog, nothing is known.
func (r *Reader) rewind(to position.FilePos) {
	behind := func(at position.FilePos) bool {
		c, err := position.Compare(at, to)
		return err != nil || c > 0
	}
	if c, err := position.Compare(r.end, to); err != nil || c < 0 {
		r.prepared = nil
	}
	r.prepared = slices.DeleteFunc(r.prepared, func(p *prepared) bool { return behind(p.at) })
	for _, p := range r.prepared {
		if !p.decided.IsZero() && behind(p.decided) {
			p.decided = position.FilePos{}
		}
	}
	r.end = to
}

// xaStatement takes in XA START, END, COMMIT and ROLLBACK. PREPARE and COMMIT … ONE PHASE
// are an event of their own.
func (s *session) xaStatement(e *dump.Event, sql, kind string) error {
	words := strings.Fields(sql)
	if len(words) < 3 {
		return s.blocked(kind, "it is not understood")
	}
	verb := strings.ToUpper(words[1])
	name := strings.TrimSpace(sql[strings.Index(sql, words[1])+len(words[1]):])
	switch verb {
	case "START", "BEGIN":
		if err := s.begin(e); err != nil {
			return err
		}
		s.xa = xaState{name: name}
		return nil
	case "END":
		if s.xa.name != name {
			return s.broken(e, "a distributed transaction ends that did not begin")
		}
		return nil
	case "COMMIT":
		if s.begun {
			return s.broken(e, "%s inside the transaction behind %s", kind, s.boundary)
		}
		p := s.waiting(name)
		switch {
		case !s.from.IsZero() && (p == nil || p.tooLarge):
			// It was applied before: one that began before those that wait still.
			if p != nil {
				p.decided = e.End
			}
			return s.end(e)
		case p == nil:
			return s.blocked(kind, "the transaction was prepared before the reading began, so that its changes are not known: seed the landing again, and decide prepared transactions first")
		case p.tooLarge:
			return s.blocked(kind, "the prepared transaction is larger than can be kept until its commit (%d bytes)", s.limit*xaLimit)
		}
		s.changes, s.bytes, p.decided = p.changes, p.bytes, e.End
		return s.end(e)
	case "ROLLBACK":
		if s.begun {
			return s.rollback(e, "ROLLBACK")
		}
		if p := s.waiting(name); p != nil {
			p.decided = e.End
		}
		return s.end(e)
	}
	return s.blocked(kind, "it is not understood")
}

// xaPrepare ends the open transaction: it is committed (ONE PHASE) or waits.
func (s *session) xaPrepare(e *dump.Event) error {
	if !s.begun || s.xa.name == "" || len(e.Body) < 1 {
		return s.broken(e, "a distributed transaction is prepared that did not begin behind %s", s.boundary)
	}
	if onePhase := e.Body[0] != 0; onePhase {
		if s.xa.tooLarge && s.from.IsZero() {
			return s.blocked("XA COMMIT … ONE PHASE", "the transaction is larger than can be kept until its commit (%d bytes)", s.limit*xaLimit)
		}
		return s.end(e)
	}
	s.keep(&prepared{name: s.xa.name, changes: s.changes, bytes: s.bytes, tooLarge: s.xa.tooLarge, began: s.boundary, at: e.End})
	s.discard()
	return s.end(e)
}
