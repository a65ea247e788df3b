package querylog

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Queryer is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ReadDigests reads performance_schema.events_statements_summary_by_digest of a running server,
// of one database or, when it is empty, of all. It needs MySQL 8.0.3 or newer, SELECT on
// performance_schema, and changes nothing. The counts are those since the server began, or the
// table was truncated.
//
// The statement of an entry is MySQL's own sample of it, with its values; where the sample is
// missing or cut off, the digest's text, when that can be read as a statement.
func ReadDigests(ctx context.Context, q Queryer, database string, emit func(Event) error) error {
	query := `SELECT DIGEST_TEXT, QUERY_SAMPLE_TEXT, COUNT_STAR, SUM_TIMER_WAIT/1e12, SUM_ROWS_SENT FROM performance_schema.events_statements_summary_by_digest`
	var args []any
	if database != "" {
		query += " WHERE SCHEMA_NAME = ? OR DIGEST IS NULL"
		args = append(args, database)
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read the statement digests: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var digest, sample sql.NullString
		e := Event{Timed: true}
		if err := rows.Scan(&digest, &sample, &e.Calls, &e.Seconds, &e.Rows); err != nil {
			return fmt.Errorf("read a statement digest: %w", err)
		}
		if e.Calls == 0 {
			continue
		}
		e.Text, e.Cut = digestStatement(digest.String, sample.String)
		if err := emit(e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the statement digests: %w", err)
	}
	return nil
}

// digestStatement is a statement that a parser can read, cut when there is none: the digest of
// all that found no room in the table (NULL), or one whose texts are cut off (… at their ends).
func digestStatement(digest, sample string) (text string, cut bool) {
	if sample != "" && !strings.HasSuffix(sample, "...") {
		return trimStatement(sample), false
	}
	text = trimStatement(digest)
	if text == "" || strings.HasSuffix(text, "...") {
		return text, true
	}
	// MySQL folds lists: IN (...) has one value or more, VALUES (...) any number of columns,
	// which nobody can tell.
	text = strings.ReplaceAll(text, "IN (...)", "IN (?, ?)")
	text = strings.ReplaceAll(text, " /* , ... */", "")
	return text, strings.Contains(text, "...")
}
