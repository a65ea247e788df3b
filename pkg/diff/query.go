package diff

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Side is one server's view of a database.
type Side struct {
	// Name is what errors and reports call it, such as "0123 side a".
	Name     string
	Database string
	// Conns are open connections, each in a REPEATABLE READ transaction with a consistent
	// snapshot, all of the same instant. Compare runs statements on them and sets session
	// variables; it neither commits nor closes them.
	Conns []*sql.Conn
}

// prepareSQL pins what the text of values depends on: TIMESTAMP by the zone, CHAR by sql_mode
// (PAD_CHAR_TO_FULL_LENGTH), and takes away limits that cut results short or keep a long key
// range from using its index. A stream of hashes may have to wait its turn for longer than the
// minute that a server waits for its client (net_write_timeout).
const prepareSQL = `SET NAMES utf8mb4, SESSION time_zone='+00:00', sql_mode='NO_AUTO_VALUE_ON_ZERO', sql_select_limit=18446744073709551615,
	sql_big_selects=1, range_optimizer_max_mem_size=0, max_execution_time=0, net_write_timeout=86400`

// reader is one connection of a side.
type reader struct {
	side, database string
	conn           *sql.Conn
}

// readers prepares the first n connections of a side.
func (s *Side) readers(ctx context.Context, n int) ([]*reader, error) {
	out := make([]*reader, n)
	for i := range out {
		if _, err := s.Conns[i].ExecContext(ctx, prepareSQL); err != nil {
			return nil, fmt.Errorf("%s: prepare a connection for comparing: %w", s.Name, err)
		}
		out[i] = &reader{side: s.Name, database: s.Database, conn: s.Conns[i]}
	}
	return out, nil
}

// errTooLarge: some row could not be hashed in this form.
var errTooLarge = errors.New("a row's hash could not be computed: a value is larger than max_allowed_packet there, or nested too deep: raise the setting")

// tooLarge tells the errors that the wide form of a row's hash may not have: operands of
// BIT_XOR that differ in length (a NULL hash), results too large for the packet, JSON that
// gets too deep or too big by the array put around it.
func tooLarge(err error) bool {
	switch mysqlconn.Number(err) {
	case 3513, 1301, 1153, 3157, 3150:
		return true
	}
	return errors.Is(err, errTooLarge)
}

// hash is a row's SHA-256, or the XOR of many.
type hash [32]byte

func (h *hash) xor(o hash) {
	for i := range h {
		h[i] ^= o[i]
	}
}

// sum is the checksum of a chunk.
type sum struct {
	rows uint64
	hash hash
}

func (s sum) String() string { return hex.EncodeToString(s.hash[:]) }

// row is one row of a listing.
type row struct {
	key  keyValue
	show []string
	hash hash
}

func (r *reader) fail(t *table, doing string, err error) error {
	if tooLarge(err) && !errors.Is(err, errTooLarge) {
		err = fmt.Errorf("%w (%w)", errTooLarge, err)
	}
	return fmt.Errorf("%s: table %q: %s: %w", r.side, t.Name, doing, err)
}

// each runs a query and hands over its rows; an error in mid-result is an error.
func (r *reader) each(ctx context.Context, query string, row func(values []sql.RawBytes) error) error {
	rows, err := r.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.RawBytes, len(cols))
	dest := make([]any, len(cols))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sum computes a chunk's checksum inside the server.
func (r *reader) sum(ctx context.Context, t *table, where string, wide bool) (sum, error) {
	var s sum
	got := 0
	err := r.each(ctx, t.sumSQL(r.database, where, wide), func(v []sql.RawBytes) error {
		got++
		var err error
		if s.rows, err = strconv.ParseUint(string(v[0]), 10, 64); err != nil || s.rows == 0 {
			return err
		}
		if len(v[1]) != len(s.hash) { // all of its rows have no hash
			return errTooLarge
		}
		copy(s.hash[:], v[1])
		return nil
	})
	if err == nil && got != 1 {
		err = fmt.Errorf("the server answered with %d rows instead of one", got)
	}
	if err != nil {
		return sum{}, r.fail(t, "checksum", err)
	}
	return s, nil
}

// scan makes a row of what listSQL and its like select.
func (t *table) scan(v []sql.RawBytes) (row, error) {
	n := len(t.key)
	out := row{key: make(keyValue, n)}
	for i := range out.key {
		out.key[i] = string(v[i])
	}
	out.show = make([]string, n)
	next := n
	for i := range t.key {
		display := ""
		if t.key[i].display != "" {
			display = string(v[next])
			next++
		}
		out.show[i] = t.key[i].show(out.key[i], display)
	}
	h := v[next]
	if len(h) != len(out.hash) {
		return out, errTooLarge
	}
	copy(out.hash[:], h)
	return out, nil
}

// list reads keys and hashes of a range.
func (r *reader) list(ctx context.Context, t *table, query string) ([]row, error) {
	var out []row
	err := r.each(ctx, query, func(v []sql.RawBytes) error {
		row, err := t.scan(v)
		out = append(out, row)
		return err
	})
	if err != nil {
		return nil, r.fail(t, "list rows", err)
	}
	return out, nil
}

// lookup reads the rows of keys; the answer has a nil where there is no such row.
func (r *reader) lookup(ctx context.Context, t *table, keys []keyValue, wide bool) ([]*row, error) {
	const batch = 50 // statements stay far below any packet limit
	out := make([]*row, len(keys))
	for from := 0; from < len(keys); from += batch {
		part := keys[from:min(from+batch, len(keys))]
		err := r.each(ctx, t.lookupSQL(r.database, part, wide), func(v []sql.RawBytes) error {
			i, err := strconv.Atoi(string(v[len(v)-1]))
			if err != nil {
				return err
			}
			row, err := t.scan(v[:len(v)-1])
			out[from+i] = &row
			return err
		})
		if err != nil {
			return nil, r.fail(t, "look rows up", err)
		}
	}
	return out, nil
}

// bound finds the n-th key of (lo, hi]; nil when the range has fewer rows.
func (r *reader) bound(ctx context.Context, t *table, lo, hi keyValue, n int) (keyValue, error) {
	var out keyValue
	err := r.each(ctx, t.boundSQL(r.database, between(t.key, lo, hi), n), func(v []sql.RawBytes) error {
		out = make(keyValue, len(t.key))
		for i := range out {
			out[i] = string(v[i])
		}
		return nil
	})
	if err == nil && out != nil && lo != nil && out.id() == lo.id() {
		// The literal of a key did not come back as that key: going on would never end.
		err = fmt.Errorf("the server takes the key %q for one behind itself", lo)
	}
	if err != nil {
		return nil, r.fail(t, "find the end of a chunk", err)
	}
	return out, nil
}
