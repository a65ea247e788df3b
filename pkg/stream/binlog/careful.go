package binlog

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/stream/transaction"
)

var atRow = regexp.MustCompile(`^Data truncated for column '(.*)' at row (\d+)$`)

// warningsAtMost is how many a statement may have: each must be seen, and a server keeps
// max_error_count of them, 1,024 when nobody changed it.
const warningsAtMost = 1000

// lenient judges the warnings of a statement that was run in lenient mode. Two kinds of
// values that a source may have are refused by a strict server, though it can store them
// exactly: the error value of an ENUM (number 0), and rows for which a generated column's
// expression warns, as CAST('x' AS SIGNED) does; a replica stores both. Everything else
// that is warned of is a value that did not fit.
func (s *session) lenient(ctx context.Context, p *plan, images []transaction.Image) error {
	var count int
	// A SELECT of the number would clear what it counts.
	if err := s.conn.QueryRowContext(ctx, "SHOW COUNT(*) WARNINGS").Scan(&count); err != nil || count == 0 {
		return err
	}
	rows, err := s.conn.QueryContext(ctx, "SHOW WARNINGS LIMIT 65535")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	seen := 0
	for rows.Next() {
		var level, message string
		var code int
		if err := rows.Scan(&level, &code, &message); err != nil {
			return err
		}
		seen++
		if level == "Note" || harmless(p, code, message, images) {
			continue
		}
		where := ""
		if m := columnName.FindStringSubmatch(message); m != nil {
			where = " in column " + m[1]
		}
		return final("table %s: the target could not store a value exactly%s (warning %d): see that both sides' tables are the same, and resume", p.table.Name, where, code)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if seen < count {
		return final("table %s: the target has %d warnings and shows %d of them: set its max_error_count to 1024 or more, and resume", p.table.Name, count, seen)
	}
	return nil
}

func harmless(p *plan, code int, message string, images []transaction.Image) bool {
	switch code {
	case 1265:
		m := atRow.FindStringSubmatch(message)
		if m == nil {
			return false
		}
		row, err := strconv.Atoi(m[2])
		if err != nil || row < 1 || row > len(images) {
			return false
		}
		for i, c := range p.table.Columns {
			if c.Name == m[1] {
				return c.Generated != "" || c.Type == "enum" && isZero(images[row-1][i])
			}
		}
	case 1292:
		return p.computes() && !strings.Contains(message, "for column")
	}
	return false
}

// isZero tells the literal of an ENUM's error value.
func isZero(literal []byte) bool {
	switch string(literal) {
	case "0", "''", "x''", "X''":
		return true
	}
	return false
}

// computes says that the table has something that the server works out itself.
func (p *plan) computes() bool {
	for _, c := range p.table.Columns {
		if c.Generated != "" {
			return true
		}
	}
	for _, ix := range p.table.Indexes {
		for _, part := range ix.Parts {
			if part.Expression != "" {
				return true
			}
		}
	}
	return len(p.table.Checks) > 0
}
