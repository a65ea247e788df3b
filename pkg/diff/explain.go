package diff

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

// ErrKey is returned, wrapped, for a table or a key that cannot be understood: a fault of
// whoever typed it, not of a server.
var ErrKey = errors.New("no such key")

// Explanation is one row as several servers have it now.
type Explanation struct {
	Table string `json:"table"`
	// Key is the key in the form that was asked for.
	Key string `json:"key"`
	// Equal: all servers hold the same row, or none holds one.
	Equal   bool           `json:"equal"`
	Servers []ExplainedRow `json:"servers"`
	// Columns are those in which not all servers that hold the row agree.
	Columns []ExplainedColumn `json:"columns"`
}

// ExplainedRow says whether a server holds the row.
type ExplainedRow struct {
	Server string `json:"server"`
	Found  bool   `json:"found"`
}

// ExplainedColumn is one column with the values of all servers.
type ExplainedColumn struct {
	Column string `json:"column"`
	// Values are in the order of the servers, whole; null where there is no such row.
	Values []*Value `json:"values"`
}

// Explain reads the row of a key on every pool as it is now, the source first, and compares
// it column by column; nothing is shortened. The servers are read at once but at no common
// instant. key is what Difference.KeyText prints. A row that one server lacks is a difference
// of its own: Columns lists those in which the servers that have it disagree.
func Explain(ctx context.Context, source Pool, others []Pool, s *schema.Schema, tableName, key string) (*Explanation, error) {
	st := s.Table(tableName)
	if st == nil {
		return nil, fmt.Errorf("%w: %s has no table %q in database %q", ErrKey, source.Name, tableName, source.Database)
	}
	sides, closeAll, err := openPools(ctx, append([]Pool{source}, others...), 1)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	readers := make([]*reader, len(sides))
	for i := range sides {
		r, err := sides[i].readers(ctx, 1)
		if err != nil {
			return nil, err
		}
		readers[i] = r[0]
	}
	if err := sameTables(ctx, sides[0], sides[1:], s); err != nil {
		return nil, err
	}
	t, err := newTable(st)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.Name, err)
	}
	exact, err := t.parseKey(ctx, readers[0], key)
	if err != nil {
		return nil, err
	}
	rows := make([][]cell, len(readers))
	g, gctx := errgroup.WithContext(ctx)
	for i, r := range readers {
		g.Go(func() error {
			found, err := r.cells(gctx, t, []keyValue{exact}, true)
			if err == nil {
				rows[i] = found[0]
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := &Explanation{Table: t.Name, Key: key, Equal: true}
	var first []cell
	for i, row := range rows {
		out.Servers = append(out.Servers, ExplainedRow{Server: sides[i].Name, Found: row != nil})
		out.Equal = out.Equal && (row != nil) == (rows[0] != nil)
		if first == nil {
			first = row
		}
	}
	for c := range t.Columns {
		same := true
		col := ExplainedColumn{Column: t.Columns[c].Name}
		for _, row := range rows {
			if row == nil {
				col.Values = append(col.Values, nil)
				continue
			}
			col.Values = append(col.Values, &row[c].Value)
			same = same && row[c].sum == first[c].sum
		}
		if !same {
			out.Equal = false
			out.Columns = append(out.Columns, col)
		}
	}
	return out, nil
}

// parseKey reads the exact values out of a key as a report prints it.
func (t *table) parseKey(ctx context.Context, r *reader, typed string) (keyValue, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: table %q, key %q: %s", ErrKey, t.Name, typed, fmt.Sprintf(format, args...))
	}
	if len(t.key) == 0 {
		return nil, fail("%v", errNoKey)
	}
	parts, err := splitKey(typed)
	if err != nil {
		return nil, fail("%v", err)
	}
	if len(parts) != len(t.key) {
		return nil, fail("found %d part(s), expected %d: give the key as the report prints it, %s", len(parts), len(t.key), t.order)
	}
	out := make(keyValue, len(parts))
	for i, p := range parts {
		k := &t.key[i]
		if out[i], err = k.parsePart(p); err != nil {
			return nil, fail("column %s: %v", k.name, err)
		}
		if k.class != text || !p.asText() {
			continue
		}
		// The column's bytes: the report printed the text in utf8mb4.
		err := r.each(ctx, "SELECT CAST(CONVERT(_utf8mb4 X'"+hex.EncodeToString([]byte(out[i]))+"' USING "+k.column.CharSet+") AS BINARY)", func(v []sql.RawBytes) error {
			out[i] = string(v[0])
			return nil
		})
		if err != nil {
			return nil, r.fail(t, "convert the key", err)
		}
	}
	return out, nil
}

// keyPart is one column of a key as it was typed.
type keyPart struct {
	value  string
	quoted bool
}

// asText reports that the part is text and not the hex digits of its bytes.
func (p keyPart) asText() bool { return p.quoted || !strings.HasPrefix(p.value, "0x") }

// splitKey splits a key at its commas; a part in double quotes is read with Go's escapes.
func splitKey(s string) ([]keyPart, error) {
	var out []keyPart
	for {
		s = strings.TrimLeft(s, " ")
		var p keyPart
		if strings.HasPrefix(s, `"`) {
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, errors.New("a double quote is not closed, or an escape is unknown")
			}
			if p.value, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			p.quoted = true
			s = strings.TrimLeft(s[len(quoted):], " ")
			if s != "" && s[0] != ',' {
				return nil, fmt.Errorf("found %q behind a closing quote, expected a comma", s)
			}
		} else {
			end := strings.IndexByte(s, ',')
			if end < 0 {
				end = len(s)
			}
			p.value = strings.TrimRight(s[:end], " ")
			s = s[end:]
		}
		out = append(out, p)
		if s == "" {
			return out, nil
		}
		s = s[1:]
	}
}

var (
	numberText  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	instantText = regexp.MustCompile(`^-?[0-9][-0-9: .]*$`)
)

// parsePart makes the exact value of what show printed; of text, the text in UTF-8.
func (k *keyColumn) parsePart(p keyPart) (string, error) {
	if (k.class == text || k.class == bytes) && !p.asText() {
		raw, err := hex.DecodeString(p.value[2:])
		return string(raw), err
	}
	switch k.class {
	case text:
		return p.value, nil
	case bytes:
		return "", fmt.Errorf("found %q, expected 0x and hex digits", p.value)
	case number:
		if k.column.Type != "bit" {
			return k.memberNumber(p)
		}
	}
	// The value goes into a statement as it is, so it must be nothing but a number or a date.
	expected, what := numberText, "a number"
	switch k.column.Type {
	case "date", "time", "datetime", "timestamp", "year":
		expected, what = instantText, "a date or time as MySQL prints it"
	}
	if p.quoted || !expected.MatchString(p.value) {
		return "", fmt.Errorf("found %q, expected %s", p.value, what)
	}
	return p.value, nil
}

// memberNumber is the stored number of an ENUM's or SET's members.
func (k *keyColumn) memberNumber(p keyPart) (string, error) {
	if n, ok := strings.CutPrefix(p.value, "#"); ok && !p.quoted {
		_, err := strconv.ParseUint(n, 10, 64)
		return n, err
	}
	members := memberNames(k.column.ColumnType)
	names := []string{p.value}
	if k.column.Type == "set" {
		names = strings.Split(p.value, ",")
	}
	var n uint64
	for _, name := range names {
		at := -1
		for i, m := range members {
			if m == name {
				at = i
				break
			}
		}
		if at < 0 {
			return "", fmt.Errorf("found %q, expected one of %q, or # and its number", name, members)
		}
		if k.column.Type == "set" {
			n |= 1 << at
		} else {
			n = uint64(at) + 1
		}
	}
	return strconv.FormatUint(n, 10), nil
}

// memberNames reads enum('a','it”s') or set(...).
func memberNames(columnType string) []string {
	var out []string
	_, rest, _ := strings.Cut(columnType, "(")
	for {
		_, after, ok := strings.Cut(rest, "'")
		if !ok {
			return out
		}
		var name strings.Builder
		for {
			part, behind, _ := strings.Cut(after, "'")
			name.WriteString(part)
			if !strings.HasPrefix(behind, "'") {
				rest = behind
				break
			}
			name.WriteByte('\'')
			after = behind[1:]
		}
		out = append(out, name.String())
	}
}
