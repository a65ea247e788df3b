// Package transaction turns the events of a server's binlog into the transactions of one
// database: which rows of which tables they change, with every value written as an SQL
// literal that stores exactly the same value again.
//
// The literals are for a session with SET NAMES utf8mb4, time_zone '+00:00' and the sql_mode
// NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION and nothing else: strict
// modes refuse an ENUM's error value, NO_ZERO_DATE and NO_ZERO_IN_DATE the dates that the
// source holds, NO_BACKSLASH_ESCAPES and ANSI_QUOTES read strings otherwise. Each stands by
// itself, in VALUES or behind =: a CASE or a UNION of several would make them one type. A
// FLOAT has all digits of the DOUBLE it equals, so that it stores the same bits; to find one,
// compare with CAST(column AS DOUBLE). JSON is text, or an expression where text would lose a
// type inside; it is for storing, not for comparing.
//
// What could change the database's data and is not understood ends the reading with an
// error before anything behind it is handed over; nothing is ever left out silently.
package transaction

import (
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
)

// Image is one row: for each of the table's Columns, in their order, its value as an SQL
// literal (NULL included). A generated column is never written: it is nil, but for one of the
// primary key, whose value is there to find the row by.
type Image [][]byte

// Change is one row's change. Before is nil for an insert, After for a delete.
type Change struct {
	Table         *schema.Table
	Before, After Image
}

// Part is a transaction, or a piece of one that is larger than the reader may keep in
// memory. Transactions that change nothing of the database are parts without changes: they
// move the position.
type Part struct {
	Changes []Change
	// Bytes is about what Changes take in memory.
	Bytes int
	// Last tells the only or last part of a transaction; the fields behind it are set only
	// then.
	Last bool
	// End is where the transaction ends.
	End position.FilePos
	// Pending is where the oldest XA transaction begins that is prepared here and not decided; zero
	// for none. A Reader that knows nothing of it has to begin there: see Reader.Since.
	Pending position.FilePos
	// GTID is the transaction's; none where the source has no GTIDs, or between two
	// transactions.
	GTID GTID
	// Committed is when it was committed, by the source's clock; seconds.
	Committed time.Time
}

// GTID is a transaction's global identifier. None is one without a Server.
type GTID struct {
	Server string // the server_uuid of where the transaction was first committed
	Number int64
	// Tag is the one of MySQL 8.3 and later, which sets of GTIDs here do not know.
	Tag string
}

// String is how MySQL writes it.
func (g GTID) String() string {
	if g.Tag != "" {
		return fmt.Sprintf("%s:%s:%d", g.Server, g.Tag, g.Number)
	}
	return fmt.Sprintf("%s:%d", g.Server, g.Number)
}

// Blocked is something in the binlog that cannot be carried over: a DDL on one of the
// tables, a change logged as a statement, an event that is not known.
type Blocked struct {
	// At is the last place between two transactions before it.
	At position.FilePos
	// Kind says what it is, such as ALTER TABLE; it holds no data and no password.
	Kind string
	// Why says what about it cannot be carried over, and what to do.
	Why string
}

func (e *Blocked) Error() string { return fmt.Sprintf("%s behind %s: %s", e.Kind, e.At, e.Why) }
