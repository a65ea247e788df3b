package load

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// rows are what one key has on one server: none, one, or, when something is very wrong,
// several.
type rows []foundRow

type foundRow struct {
	state
	id uint64
}

// readAll reads a batch on all servers of its shard: for each entry, the rows by server.
func (v *verifier) readAll(ctx context.Context, b batch) ([][]rows, error) {
	s := v.shards[b.shard]
	query := selectKeys(b)
	out := make([][]rows, len(b.entries))
	for i := range out {
		out[i] = make([]rows, len(s.servers))
	}
	index := make(map[string]int, len(b.entries))
	for i, e := range b.entries {
		index[foldKey(b.table, e.key)] = i
	}
	for n, srv := range s.servers {
		err := readRows(ctx, srv, b.table, query, func(key string, r foundRow) {
			if i, ok := index[foldKey(b.table, key)]; ok {
				out[i][n] = append(out[i][n], r)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("shard %s, %s: read %s: %w", b.shard, srv.name, b.table.name, err)
		}
	}
	return out, nil
}

// foldKey makes keys comparable: hexadecimal in upper case.
func foldKey(t *table, key string) string {
	if t.key[0].kind == binaryText {
		return strings.ToUpper(key)
	}
	return key
}

// selectKeys asks for a batch's rows: the key columns, the id where there is one, then the
// values.
func selectKeys(b batch) string {
	t := b.table
	var names, list []string
	for _, c := range t.key {
		names = append(names, c.name)
		list = append(list, c.sql())
	}
	if t.auto {
		list = append(list, "id")
	}
	for _, c := range t.values {
		list = append(list, c.sql())
	}
	var q strings.Builder
	q.WriteString("SELECT " + strings.Join(list, ", ") + " FROM " + t.name + " WHERE (" + strings.Join(names, ", ") + ") IN (")
	for i, e := range b.entries {
		q.WriteString(comma(i) + "(")
		for n, part := range strings.SplitN(e.key, keySeparator, len(t.key)) {
			q.WriteString(comma(n) + t.key[n].literal(part))
		}
		q.WriteString(")")
	}
	q.WriteString(")")
	return q.String()
}

func readRows(ctx context.Context, srv *server, t *table, query string, f func(key string, r foundRow)) error {
	res, err := srv.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = res.Close() }()
	columns, err := res.Columns()
	if err != nil {
		return err
	}
	texts := make([]string, len(columns))
	into := make([]any, len(columns))
	for i := range texts {
		into[i] = &texts[i]
	}
	for res.Next() {
		if err := res.Scan(into...); err != nil {
			return err
		}
		rest := texts[len(t.key):]
		r := foundRow{state: state{present: true, version: 1}}
		if t.auto {
			if r.id, err = strconv.ParseUint(rest[0], 10, 64); err != nil {
				return fmt.Errorf("id: %w", err)
			}
			rest = rest[1:]
		}
		r.digest = Digest(rest...)
		if t.version >= 0 {
			n, err := strconv.ParseUint(rest[t.version], 10, 32)
			if err != nil {
				return fmt.Errorf("version: %w", err)
			}
			r.version = uint32(n)
		}
		f(strings.Join(texts[:len(t.key)], keySeparator), r)
	}
	return res.Err()
}
