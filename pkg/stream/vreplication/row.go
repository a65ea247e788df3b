package vreplication

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/inspect"
	"github.com/vifl/vifl/pkg/vitess"
)

// row is the stream's row of _vt.vreplication.
type row struct {
	id          int64
	state       string
	source      string
	database    string
	pos, start  position.FilePos
	stopPos     string
	message     string // as it is: may hold statements and password hashes
	updated     time.Time
	transaction time.Time
}

// rows are all rows of our workflow; more than one cannot be ours.
func (s *Stream) rows(ctx context.Context) ([]*row, error) {
	res, err := s.landing.VReplicationExec(ctx, "select id, state, source, db_name, pos, stop_pos, message, tags, time_updated, transaction_timestamp from _vt.vreplication where workflow="+quote(s.workflow))
	if err != nil {
		return nil, s.errorf("reading it: %w", err)
	}
	var rows []*row
	for _, r := range res.Rows {
		parsed, err := s.parse(r)
		if err != nil {
			return nil, s.errorf("reading it: %w", err)
		}
		rows = append(rows, parsed)
	}
	return rows, nil
}

func (s *Stream) parse(r vitess.Row) (*row, error) {
	number := func(column string) int64 {
		n, _ := strconv.ParseInt(r[column], 10, 64) // the columns are integers
		return n
	}
	seconds := func(column string) time.Time {
		if n := number(column); n > 0 {
			return time.Unix(n, 0).UTC()
		}
		return time.Time{}
	}
	out := &row{
		id: number("id"), state: r["state"], source: r["source"], database: r["db_name"], stopPos: r["stop_pos"],
		message: r["message"], updated: seconds("time_updated"), transaction: seconds("transaction_timestamp"),
	}
	var err error
	if out.pos, err = position.Parse(s.server, r["pos"]); err != nil {
		return nil, fmt.Errorf("id %d: %w", out.id, err)
	}
	out.start = parseTags(r["tags"])
	return out, nil
}

// row is the stream's row; nil when there is none.
func (s *Stream) row(ctx context.Context) (*row, error) {
	rows, err := s.rows(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, nil
	case len(rows) > 1:
		return nil, s.errorf("found %d rows of that workflow (ids %d and %d), expected one: %w: delete the one that is not vifl's", len(rows), rows[0].id, rows[1].id, stream.ErrOther)
	}
	return rows[0], nil
}

// present is the stream's row, an error when there is none.
func (s *Stream) present(ctx context.Context) (*row, error) {
	r, err := s.row(ctx)
	if err == nil && r == nil {
		return nil, s.errorf("%w: start it first", stream.ErrAbsent)
	}
	return r, err
}

// The row's tags keep what its position forgets: where the stream started, and of which
// server. A stream that somebody else made, or made anew elsewhere, shows by them.
func tags(from position.FilePos) string {
	return "vifl_start=" + from.String() + ",vifl_server=" + from.Server
}

func parseTags(text string) position.FilePos {
	var at, server string
	for _, tag := range strings.Split(text, ",") {
		switch key, value, _ := strings.Cut(tag, "="); key {
		case "vifl_start":
			at = value
		case "vifl_server":
			server = value
		}
	}
	p, err := position.Parse(server, at)
	if err != nil {
		return position.FilePos{} // not ours: equal to no start
	}
	return p
}

// atDDL is how VReplication's message begins when it stopped at what it takes for a DDL.
const atDDL = "Stopped at DDL "

// stoppedAt says what kind of statement a message says the stream stopped at, empty when
// it says no such thing, and whether the statement means nothing to the database's tables.
// A statement that was cut off in the message does not parse, and then counts as one that
// means something; accounts' statements are known by their first words.
//
// VReplication stops only at statements whose default database was ours or none; names
// without a database count as ours.
func stoppedAt(message, database string) (kind string, harmless bool) {
	statement, ok := strings.CutPrefix(message, atDDL)
	if !ok {
		return "", false
	}
	class, kind := inspect.Statement(statement, database, database)
	return kind, class == inspect.Nothing
}

// scrub makes a message fit for people's eyes: statements hold passwords' hashes and rows'
// data, so what looks like one is cut off, and only its kind is told.
func scrub(message string) string {
	if statement, ok := strings.CutPrefix(message, atDDL); ok {
		_, kind := inspect.Statement(statement, "", "")
		return atDDL + "(" + kind + ")"
	}
	for _, mark := range []string{" during query:", " in row-based replication:", ", query: ", "Query: ", " near "} {
		if i := strings.Index(message, mark); i >= 0 {
			message = message[:i] + " …"
		}
	}
	// Duplicate entry 'somebody@example.org' for key, Data too long …: values are quoted.
	for _, mark := range []string{"Duplicate entry '", "Incorrect ", "identified ", "IDENTIFIED "} {
		if i := strings.Index(message, mark); i >= 0 {
			message = message[:i] + strings.TrimRight(mark, " '") + " …"
		}
	}
	const longest = 400
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + " …"
	}
	return message
}
