package transaction

import (
	"strings"

	"github.com/vifl/vifl/pkg/stream/dump"
)

// xaState is the open transaction's, when it is a distributed one.
type xaState struct {
	name     string // as the server writes it; empty for a plain transaction
	tooLarge bool   // its changes were dropped
}

// prepared is a distributed transaction that waits for its decision.
type prepared struct {
	changes  []Change
	bytes    int
	tooLarge bool
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
		p := s.prepared[name]
		switch {
		case p == nil:
			return s.blocked(kind, "the transaction was prepared before the reading began, so that its changes are not known: seed the landing again, and decide prepared transactions first")
		case p.tooLarge:
			return s.blocked(kind, "the prepared transaction is larger than can be kept until its commit (%d bytes)", s.limit)
		}
		s.changes, s.bytes = p.changes, p.bytes
		if err := s.end(e); err != nil {
			return err
		}
		s.forget(name)
		return nil
	case "ROLLBACK":
		if s.begun {
			return s.rollback(e, "ROLLBACK")
		}
		if err := s.end(e); err != nil {
			return err
		}
		s.forget(name)
		return nil
	}
	return s.blocked(kind, "it is not understood")
}

func (s *session) forget(name string) {
	if p := s.prepared[name]; p != nil {
		s.preparedBytes -= p.bytes
		delete(s.prepared, name)
	}
}

// xaPrepare ends the open transaction: it is committed (ONE PHASE) or waits.
func (s *session) xaPrepare(e *dump.Event) error {
	if !s.begun || s.xa.name == "" || len(e.Body) < 1 {
		return s.broken(e, "a distributed transaction is prepared that did not begin behind %s", s.boundary)
	}
	if onePhase := e.Body[0] != 0; onePhase {
		if s.xa.tooLarge {
			return s.blocked("XA COMMIT … ONE PHASE", "the transaction is larger than can be kept until its commit (%d bytes)", s.limit)
		}
		return s.end(e)
	}
	name, p := s.xa.name, &prepared{changes: s.changes, bytes: s.bytes, tooLarge: s.xa.tooLarge}
	if s.preparedBytes+p.bytes > s.limit {
		*p = prepared{tooLarge: true}
	}
	s.discard()
	if err := s.end(e); err != nil {
		return err
	}
	s.forget(name)
	s.prepared[name] = p
	s.preparedBytes += p.bytes
	return nil
}
