package appschema

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

// statementBytes is where a multi-row INSERT is sent. Larger ones gain nothing, and four
// times as much in hexadecimal must stay below the smallest max_allowed_packet in use.
const statementBytes = 512 << 10

// columns are the tables in the order in which they are filled, with the columns that are
// given (the generated ones are not).
var columns = []struct{ table, list string }{
	{"teams", "team_id, name, domain, plan, features, seats, region, created_at, deleted_at"},
	{"channels", "team_id, channel_id, name, topic, is_private, creator_id, created_at, prefs"},
	{"channel_members", "channel_id, user_id, team_id, last_read, muted, joined_at"},
	{"messages", "id, team_id, channel_id, user_id, ts, thread_ts, version, body, attachments"},
	{"reactions", "message_id, user_id, emoji, team_id, added_at"},
	{"files", "id, team_id, user_id, client_ref, version, name, mime, size, sha256, preview"},
	{"team_settings", "team_id, name, value, note, updated_at"},
	{"audit_log", "id, team_id, client_ref, at, actor_id, action, ip, detail"},
	{"invites", "id, team_id, email, token, accepted_by, expires_on"},
	{"api_tokens", "token_id, team_id, name, scopes, quota, version, last_used"},
	{"presence", "user_id, team_id, status, latitude, longitude, load_avg, quiet_at"},
	{"emoji", "team_id, name, image"},
	{"bookmarks", "user_id, place, team_id, url, title"},
	{"counters", "team_id, name, value, highest, version"},
	{"handles", "handle, team_id, user_id"},
	{"billing", "team_id, period, quarter, amount, rate, tax, flags, paid_on, paid_at, contact, balance"},
}

// writer gathers rows of each table and sends them as multi-row statements.
type writer struct {
	db     *sql.DB
	tables map[string]*batch
}

// batch is one statement being written.
type batch struct {
	prefix string
	buf    []byte
}

func newWriter(db *sql.DB) *writer {
	w := &writer{db: db, tables: map[string]*batch{}}
	for _, c := range columns {
		w.tables[c.table] = &batch{prefix: "INSERT INTO " + c.table + " (" + c.list + ") VALUES "}
	}
	return w
}

// literal is a piece of SQL that is put in as it stands: NULL, a number, an expression.
type literal string

// row adds a row; values are string (text), []byte (binary), int, int64, uint64 or literal.
func (w *writer) row(ctx context.Context, table string, values ...any) error {
	b := w.tables[table]
	if len(b.buf) == 0 {
		b.buf = append(b.buf, b.prefix...)
	} else {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, '(')
	for i, v := range values {
		if i > 0 {
			b.buf = append(b.buf, ',')
		}
		var err error
		if b.buf, err = appendValue(b.buf, v); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	b.buf = append(b.buf, ')')
	if len(b.buf) < statementBytes {
		return nil
	}
	return w.flush(ctx, table)
}

func appendValue(buf []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case literal:
		return append(buf, v...), nil
	case int:
		return strconv.AppendInt(buf, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(buf, v, 10), nil
	case uint64:
		return strconv.AppendUint(buf, v, 10), nil
	case []byte:
		const digits = "0123456789abcdef"
		buf = append(buf, "x'"...)
		for _, c := range v {
			buf = append(buf, digits[c>>4], digits[c&15])
		}
		return append(buf, '\''), nil
	case string:
		buf = append(buf, '\'')
		for i := range len(v) {
			if v[i] == '\'' || v[i] == '\\' {
				buf = append(buf, v[i])
			}
			buf = append(buf, v[i])
		}
		return append(buf, '\''), nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be written", v)
}

func (w *writer) flush(ctx context.Context, table string) error {
	b := w.tables[table]
	if len(b.buf) == 0 {
		return nil
	}
	if _, err := w.db.ExecContext(ctx, string(b.buf)); err != nil {
		return fmt.Errorf("insert into %s: %w", table, err)
	}
	b.buf = b.buf[:0]
	return nil
}

func (w *writer) flushAll(ctx context.Context) error {
	for _, c := range columns {
		if err := w.flush(ctx, c.table); err != nil {
			return err
		}
	}
	return nil
}
