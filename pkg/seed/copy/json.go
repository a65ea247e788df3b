package copy

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// A JSON document may hold SQL values that its text does not show: JSON_OBJECT('price',
// 1.50) holds a DECIMAL, SUM() gives DECIMALs without a fraction, dates and binary strings
// look like strings. Read back from its text it would hold a DOUBLE, an INTEGER, a STRING,
// and compare and sort otherwise. Most tables have no such document, so all of them are
// loaded from text, and the documents that then take another number of bytes than on the
// source are found by that, and mended one by one.
//
// Two kinds are not told by their size. A DECIMAL of 5 to 8 digits may take the eight bytes
// of a DOUBLE: numbers with that many digits are looked at wherever they occur. An UNSIGNED
// INTEGER inside a document takes what an INTEGER takes, prints, compares and sorts as one:
// it is left one.

// jsonColumn is a JSON column and where a row has it and its size.
type jsonColumn struct {
	name        string
	place, size int
}

// storageSize is a document's bytes, without the gaps that updates in place left in it.
func storageSize(column string) string {
	return "JSON_STORAGE_SIZE(" + column + ")-JSON_STORAGE_FREE(" + column + ")"
}

// suspect is a row with a document that may hold more than its text says.
type suspect struct{ where string }

// note adds a row's documents to the sums of the table, and keeps the row if one of them
// has a number that its size would not tell.
func (t *table) note(row []driver.Value) error {
	for i, c := range t.jsons {
		text, ok := row[c.place].([]byte)
		if !ok {
			continue
		}
		size, ok := number(row[c.size])
		if !ok {
			return fmt.Errorf("column %q: size of a document is a %T", c.name, row[c.size])
		}
		t.jsonBytes[i].Add(size)
		if !mayBeEightByteDecimal(text) {
			continue
		}
		where, err := t.key(row)
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.suspects = append(t.suspects, suspect{where})
		t.mu.Unlock()
		return nil
	}
	return nil
}

// mayBeEightByteDecimal looks for a number that takes eight bytes as a DOUBLE and as a
// DECIMAL (four of them its head): an integer part and a fraction of four bytes together.
func mayBeEightByteDecimal(text []byte) bool {
	for i := 1; i+1 < len(text); i++ {
		if text[i] != '.' {
			continue
		}
		whole, fraction := 0, 0
		for j := i - 1; j >= 0 && isDigit(text[j]); j-- {
			whole++
		}
		for j := i + 1; j < len(text) && isDigit(text[j]); j++ {
			fraction++
		}
		// A leading 0 is no digit of a DECIMAL.
		if whole == 1 && text[i-1] == '0' {
			whole = 0
		}
		if fraction > 0 && decimalBytes(whole)+decimalBytes(fraction) == 4 {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimalBytes is how MySQL packs digits: nine in four bytes, fewer in fewer.
func decimalBytes(digits int) int {
	return digits/9*4 + [...]int{0, 1, 1, 2, 2, 3, 3, 4, 4}[digits%9]
}

// mendJSON makes the documents hold what those of the source hold.
func (f *fill) mendJSON(ctx context.Context) error {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return f.failed("connect", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "USE "+schema.Quote(f.src.Database)); err != nil {
		return f.failed("use the database", err)
	}
	for _, t := range f.tables {
		if len(t.jsons) == 0 {
			continue
		}
		same, err := f.sameSizes(ctx, conn, t)
		if err != nil {
			return err
		}
		if !same {
			if err := f.findBySize(ctx, conn, t); err != nil {
				return fmt.Errorf("table %q: compare the size of JSON documents: %w", t.Name, err)
			}
		}
		for _, s := range t.suspects {
			if err := f.mendRow(ctx, conn, t, s); err != nil {
				return fmt.Errorf("table %q: JSON document with SQL types inside, where %s: %w", t.Name, s.where, err)
			}
		}
	}
	return nil
}

func (f *fill) sameSizes(ctx context.Context, conn *sql.Conn, t *table) (bool, error) {
	for i, c := range t.jsons {
		var sum uint64
		q := "SELECT IFNULL(SUM(" + storageSize(schema.Quote(c.name)) + "),0) FROM " + schema.Quote(t.Name)
		if err := conn.QueryRowContext(ctx, q).Scan(&sum); err != nil {
			return false, f.failed(fmt.Sprintf("table %q: size of JSON documents", t.Name), err)
		}
		if sum != t.jsonBytes[i].Load() {
			return false, nil
		}
	}
	return true, nil
}

// findBySize goes through both sides in the order of the key, which is the same on both, and
// keeps the rows whose documents differ in size.
func (f *fill) findBySize(ctx context.Context, conn *sql.Conn, t *table) error {
	index, key := t.RowKey()
	if len(key) == 0 {
		return fmt.Errorf("some hold SQL types that text does not show, and the table has no primary key, nor a unique one of columns that are NOT NULL, to mend them by: add one, or seed by clone")
	}
	var sizes []string
	for _, c := range t.jsons {
		sizes = append(sizes, "IFNULL("+storageSize(schema.Quote(c.name))+",0)")
	}
	from := " FROM " + schema.Quote(f.src.Database) + "." + schema.Quote(t.Name) + " FORCE INDEX (" + schema.Quote(index) + ") ORDER BY " + keyOrder(key)
	src := f.src.Snapshots[0]
	if _, err := src.ExecContext(ctx, "SET character_set_results = NULL"); err != nil {
		return err
	}
	theirs, err := conn.QueryContext(ctx, "SELECT CONCAT_WS(',',"+strings.Join(sizes, ",")+")"+from)
	if err != nil {
		return err
	}
	defer theirs.Close()
	seen := map[string]bool{}
	for _, s := range t.suspects {
		seen[s.where] = true
	}
	err = src.Raw(func(dc any) error {
		rows, err := dc.(driver.QueryerContext).QueryContext(ctx, "SELECT CONCAT_WS(',',"+strings.Join(sizes, ",")+"),"+t.selectList+from, nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		row := make([]driver.Value, len(rows.Columns()))
		for rows.Next(row) == nil {
			var size []byte
			if !theirs.Next() {
				return fmt.Errorf("the target has fewer rows")
			}
			if err := theirs.Scan(&size); err != nil {
				return err
			}
			if fmt.Sprintf("%s", row[0]) == string(size) {
				continue
			}
			where, err := t.key(row[1:])
			if err != nil {
				return err
			}
			if !seen[where] {
				t.suspects = append(t.suspects, suspect{where})
			}
		}
		return nil
	})
	if err == nil {
		err = theirs.Err()
	}
	if err == nil {
		_, err = src.ExecContext(ctx, "SET character_set_results = utf8mb4")
	}
	return err
}

// keyOrder is the order of a key.
func keyOrder(key []schema.KeyPart) string {
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = schema.Quote(k.Column)
		if k.Descending {
			parts[i] += " DESC"
		}
	}
	return strings.Join(parts, ",")
}

// key is the condition that finds a row by its key, on either side. Texts are given
// by their bytes in the column's own character set, so that no conversion can change them.
func (t *table) key(row []driver.Value) (string, error) {
	var parts []string
	for _, k := range t.keys {
		name := schema.Quote(k.column.Name)
		var literal string
		switch v := row[k.place].(type) {
		case int64:
			literal = strconv.FormatInt(v, 10)
		case uint64:
			literal = strconv.FormatUint(v, 10)
		case float64:
			literal = strconv.FormatFloat(v, 'e', -1, 64)
			name = "CAST(" + name + " AS DOUBLE)"
		case []byte:
			switch {
			case k.column.Type == "bit":
				literal = fmt.Sprintf("CAST(0x%X AS UNSIGNED)", v)
			case k.column.CharSet != "":
				literal = fmt.Sprintf("_%s X'%X'", k.column.CharSet, v)
			case strings.Contains(k.column.Type, "binary") || strings.Contains(k.column.Type, "blob"):
				literal = fmt.Sprintf("X'%X'", v)
			default: // dates, times and decimals are plain characters
				literal = "'" + string(v) + "'"
			}
		default:
			return "", fmt.Errorf("key column %q is a %T", k.column.Name, v)
		}
		parts = append(parts, name+" = "+literal)
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("a JSON document may hold SQL types that its text does not show, and the table has no key to find it by: add a primary key, or seed by clone")
	}
	return strings.Join(parts, " AND "), nil
}
