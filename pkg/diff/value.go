package diff

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vifl/vifl/pkg/schema"
)

// Values of a report are shortened to so many characters of text or bytes of a binary value:
// enough to recognise a row by, few enough that ten thousand rows fit into memory.
const (
	shownChars = 64
	shownBytes = 32
)

// Value is one column's value on one side, for people.
type Value struct {
	// Text is the value: numbers and dates as MySQL prints them (TIMESTAMP in UTC, all digits
	// of FLOAT), ENUM and SET as NUMBER:NAME, binary values as 0x and hex digits, text and
	// JSON as text. It is empty for NULL.
	Text string `json:"text"`
	// Null tells NULL from ''.
	Null bool `json:"null,omitempty"`
	// Bytes is the length of the stored text or binary value; 0 for other types.
	Bytes uint64 `json:"bytes,omitempty"`
	// Cut says that Text is only the beginning.
	Cut bool `json:"cut,omitempty"`
	// Digest stands for the value where Text may not tell it from another one (cut values,
	// JSON): 16 hex digits, the same on both sides when the values are.
	Digest string `json:"digest,omitempty"`

	// Quoted: Text is text and not a number, a date or hex digits. It is in JSON so that a report
	// that was kept reads as it did.
	Quoted bool `json:"quoted,omitempty"`
}

// String is the value as a text report shows it: NULL bare, text in double quotes (as in Go),
// what was cut with its length and digest.
func (v *Value) String() string {
	if v == nil {
		return "no row"
	}
	if v.Null {
		return "NULL"
	}
	s := v.Text
	if v.Quoted {
		s = strconv.Quote(s)
	}
	if v.Cut {
		s += fmt.Sprintf("… (%d bytes, digest %s)", v.Bytes, v.Digest)
	}
	return s
}

// ColumnDifference is one column of a differing row. Of a changed row only the columns that
// differ are listed; of a missing or extra row all, with the value of the side that has it.
type ColumnDifference struct {
	Column string `json:"column"`
	// Source and Target are nil (absent in JSON) where the side has no such row.
	Source *Value `json:"source,omitempty"`
	Target *Value `json:"target,omitempty"`
}

// String is the column with both values.
func (c ColumnDifference) String() string {
	switch {
	case c.Target == nil:
		return c.Column + " " + c.Source.String()
	case c.Source == nil:
		return c.Column + " " + c.Target.String()
	}
	a, b := c.Source.String(), c.Target.String()
	if a == b {
		b += " (the same text, stored as another type or value)"
	}
	return c.Column + " " + a + " -> " + b
}

// cell is one column's value with what decides whether it is the same.
type cell struct {
	Value
	sum string // of the stored value; "" when it could not be computed
}

// cellSQL selects a column's sum, its (shortened) value, its length in bytes, and whether it
// is shortened. deep adds to a document's sum what costs depth, see canonical.
func cellSQL(c *schema.Column, whole, deep bool) []string {
	k, _ := classOf(c) // known since newTable
	head, _ := canonical(c, k, true)
	if k == document && deep {
		more, _ := canonical(c, k, false)
		head = append(head, more[0])
	}
	name := schema.Quote(c.Name)
	value, length, cut := "CONCAT("+exactText(c, k)+")", "0", "0"
	shorten := func(count string, n int) {
		if !whole {
			cut = fmt.Sprintf("%s(%s)>%d", count, value, n)
			value = fmt.Sprintf("LEFT(%s,%d)", value, n)
		}
	}
	switch k {
	case number:
		if c.Type != "bit" {
			value = "CONCAT(" + value + ",':'," + name + ")"
			shorten("CHAR_LENGTH", shownChars)
			length = "LENGTH(" + name + ")"
		}
	case text, document:
		value = name
		shorten("CHAR_LENGTH", shownChars)
		length = "LENGTH(" + name + ")"
	case bytes:
		value = "CAST(" + name + " AS BINARY)"
		shorten("LENGTH", shownBytes)
		length = "LENGTH(" + name + ")"
	}
	return []string{"SHA2(" + concat(head, nil) + ",256)", value, length, cut}
}

const cellParts = 4

// scanCell makes a cell of what cellSQL selects.
func scanCell(c *schema.Column, v []sql.RawBytes) (cell, error) {
	out := cell{sum: string(v[0])}
	if v[1] == nil {
		out.Null = true
		return out, nil
	}
	k, _ := classOf(c)
	out.Text = string(v[1])
	out.Bytes, _ = strconv.ParseUint(string(v[2]), 10, 64)
	out.Cut = string(v[3]) == "1"
	switch k {
	case real:
		out.Text = strings.TrimSuffix(out.Text, ".0") // JSON's mark of a DOUBLE
	case bytes:
		out.Text = "0x" + strings.ToUpper(hex.EncodeToString(v[1]))
	case text, document:
		out.Quoted = true
		if k == document && out.Text == "" { // what MySQL gives for a document larger than the packet
			return out, fmt.Errorf("column %q: %w", c.Name, errTooLarge)
		}
	default:
		out.Quoted = !utf8.ValidString(out.Text) || strings.ContainsFunc(out.Text, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	if out.Cut || k == document {
		out.Digest = out.sum[:min(16, len(out.sum))]
	}
	return out, nil
}

// cellsSQL reads the cells of some keys, each row marked with the key's place in the list.
func (t *table) cellsSQL(database string, keys []keyValue, whole, deep bool) string {
	var columns []string
	for i := range t.Columns {
		columns = append(columns, cellSQL(&t.Columns[i], whole, deep)...)
	}
	list := strings.Join(columns, ",")
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("(SELECT %s,%d%s%s)", list, i, t.from(database), t.where(k))
	}
	return strings.Join(parts, " UNION ALL ")
}

// maxCellsSQL bounds a statement that reads cells, in bytes: tables have up to 4,096 columns,
// and the smallest packets in use are 4 MB.
const maxCellsSQL = 1 << 19

// cells reads the rows of keys column by column; the answer has a nil where there is no such
// row. whole does not shorten values.
func (r *reader) cells(ctx context.Context, t *table, keys []keyValue, whole bool) ([][]cell, error) {
	out := make([][]cell, len(keys))
	for from := 0; from < len(keys); {
		n := 1
		if !whole {
			n = min(50, len(keys)-from, max(1, maxCellsSQL/len(t.cellsSQL(r.database, keys[from:from+1], false, true))))
		}
		part, into := keys[from:from+n], out[from:from+n]
		err := r.readCells(ctx, t, part, into, whole, true)
		if tooLarge(err) {
			err = r.readCells(ctx, t, part, into, whole, false)
		}
		if err != nil {
			return nil, r.fail(t, "read the values of rows", err)
		}
		from += n
	}
	return out, nil
}

func (r *reader) readCells(ctx context.Context, t *table, keys []keyValue, into [][]cell, whole, deep bool) error {
	return r.each(ctx, t.cellsSQL(r.database, keys, whole, deep), func(v []sql.RawBytes) error {
		i, err := strconv.Atoi(string(v[len(v)-1]))
		if err != nil {
			return err
		}
		cells := make([]cell, len(t.Columns))
		for c := range cells {
			if cells[c], err = scanCell(&t.Columns[c], v[c*cellParts:(c+1)*cellParts]); err != nil {
				return err
			}
		}
		into[i] = cells
		return nil
	})
}

// columnDifferences lists the columns that differ; a and b are nil where there is no row.
func (t *table) columnDifferences(a, b []cell) []ColumnDifference {
	var out []ColumnDifference
	for i := range t.Columns {
		d := ColumnDifference{Column: t.Columns[i].Name}
		if a != nil {
			d.Source = &a[i].Value
		}
		if b != nil {
			d.Target = &b[i].Value
		}
		if a == nil || b == nil || a[i].sum != b[i].sum {
			out = append(out, d)
		}
	}
	return out
}
