package transaction

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/inspect"
)

// query judges a statement.
func (s *session) query(e *dump.Event, loadData bool) error {
	q, err := dump.ParseQuery(e.Body, loadData)
	if err != nil {
		return s.broken(e, "%w", err)
	}
	class, kind := inspect.Statement(q.SQL, q.Database, s.database)
	if loadData {
		class, kind = inspect.Change, "LOAD DATA"
	}
	switch class {
	case inspect.Begin:
		return s.begin(e)
	case inspect.End:
		return s.commit(e)
	case inspect.Nothing:
	case inspect.XA:
		return s.xaStatement(e, q.SQL, kind)
	case inspect.Change:
		// The server itself lists the databases that a statement changed, those of its
		// triggers and functions too.
		if s.changed(q) {
			return s.blocked(kind, "it was logged as a statement, not as rows, and may do something else elsewhere: binlog_format is not ROW in a session")
		}
	case inspect.Definition:
		// A statement that the parser does not understand is judged by the names that occur
		// in it; the server knows better.
		if storedRoutine.MatchString(q.SQL) {
			break // it holds no data; what it does when called is logged as rows
		}
		if inspect.Understood(q.SQL) || s.changed(q) {
			return s.blocked(kind, "DDL on the database is not carried over: seed the landing again")
		}
	case inspect.Unknown:
		if kind == "ROLLBACK" {
			return s.rollback(e, q.SQL)
		}
		if kind != "RELEASE" {
			return s.blocked(kind, "what it does is not known: it may change data")
		}
	}
	if s.begun {
		return nil
	}
	return s.end(e)
}

// storedRoutine is DDL of a procedure or function, as the server writes it.
var storedRoutine = regexp.MustCompile("(?is)^(CREATE|ALTER|DROP)\\s+(DEFINER\\s*=\\s*(`[^`]*`|'[^']*'|[^\\s`'])+\\s+)?(AGGREGATE\\s+)?(PROCEDURE|FUNCTION)\\s")

// changed reports a statement that may have changed the database.
func (s *session) changed(q dump.Query) bool {
	if !q.Known || len(q.Databases) == 0 {
		return true
	}
	return slices.ContainsFunc(q.Databases, func(d string) bool { return strings.EqualFold(d, s.database) })
}

// rollback ends a transaction that was logged although it was rolled back: it also changed
// something that cannot be, such as a table of MyISAM.
func (s *session) rollback(e *dump.Event, sql string) error {
	if !s.begun {
		return s.broken(e, "a transaction ends that did not begin behind %s: the position is not between two transactions", s.boundary)
	}
	partly := !strings.EqualFold(strings.TrimSpace(sql), "ROLLBACK") // to a savepoint
	if len(s.changes) > 0 || s.handed || s.xa.tooLarge {
		return s.blocked("ROLLBACK", "the transaction also changed what cannot be rolled back: which of its changes stay is not known")
	}
	if partly {
		return nil
	}
	return s.end(e)
}
