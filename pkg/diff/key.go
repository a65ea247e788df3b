package diff

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vifl/vifl/pkg/schema"
)

// keyColumn is one column of the key that tells a table's rows apart.
type keyColumn struct {
	name    string // quoted
	column  *schema.Column
	class   class
	desc    bool
	exact   string // an expression whose bytes are the stored value
	display string // an expression for people, "" when exact will do
}

// keyValue is the exact values of such a key's columns.
type keyValue []string

// id is the key as one string that no other key has.
func (k keyValue) id() string {
	var b strings.Builder
	for _, v := range k {
		fmt.Fprintf(&b, "%d:%s", len(v), v)
	}
	return b.String()
}

// keyColumns are none for a table whose rows no key tells apart.
func keyColumns(t *schema.Table) ([]keyColumn, error) {
	index, parts := t.RowKey()
	var out []keyColumn
	for _, part := range parts {
		c := t.Column(part.Column)
		if c == nil {
			return nil, fmt.Errorf("table %q: the column %q of the key %s is not among its columns", t.Name, part.Column, index)
		}
		kc, err := newKeyColumn(t.Name, index, c)
		if err != nil {
			return nil, err
		}
		kc.desc = part.Descending
		out = append(out, kc)
	}
	return out, nil
}

// newKeyColumn is a column of a key, in ascending order. index is the key's name for errors.
func newKeyColumn(tableName, index string, c *schema.Column) (keyColumn, error) {
	k, err := classOf(c)
	if err != nil {
		return keyColumn{}, fmt.Errorf("table %q: %w", tableName, err)
	}
	kc := keyColumn{name: schema.Quote(c.Name), column: c, class: k}
	switch k {
	case text:
		kc.exact, kc.display = "CAST("+kc.name+" AS BINARY)", kc.name
	case bytes:
		kc.exact = "CAST(" + kc.name + " AS BINARY)"
	case document:
		return keyColumn{}, fmt.Errorf("table %q: the column %q of the key %s is JSON", tableName, c.Name, index)
	default:
		kc.exact = "CONCAT(" + exactText(c, k) + ")"
		if c.Type == "enum" || c.Type == "set" {
			kc.display = kc.name
		}
	}
	return kc, nil
}

// loose reports that two different exact values can be one key to the server: equal under
// a collation, or 0 and -0.
func (k *keyColumn) loose() bool { return k.class == text || k.class == real }

// literal is the exact value as SQL that compares with the column by the column's own rules
// and lets the server use the index: a literal of a weaker collation, of the same type.
func (k *keyColumn) literal(v string) string {
	switch k.class {
	case text:
		return "_" + k.column.CharSet + " X'" + hex.EncodeToString([]byte(v)) + "'"
	case bytes:
		return "X'" + hex.EncodeToString([]byte(v)) + "'"
	case real:
		if strings.ContainsAny(v, "eE") {
			return v
		}
		return v + "e0" // without an exponent it were a DECIMAL
	}
	switch k.column.Type {
	case "date", "time", "datetime", "timestamp", "year":
		return "'" + v + "'" // the year 0 as a number is the year 2000 in places
	}
	return v
}

// show makes a value fit for people, in a form that tells all values apart and that
// parsePart reads back: display is the value's text, of those columns that have one.
func (k *keyColumn) show(exact, display string) string {
	switch {
	case k.class == bytes:
		return "0x" + strings.ToUpper(hex.EncodeToString([]byte(exact)))
	case k.class == number && k.column.Type != "bit":
		if display == "" { // the mark of a refused value, the empty set, or a member ''
			return "#" + exact
		}
	case k.class == real:
		return strings.TrimSuffix(exact, ".0") // JSON's mark of a DOUBLE
	case k.class != text:
		return exact
	}
	if ambiguous(display) {
		return strconv.Quote(display)
	}
	return display
}

// ambiguous reports text that does not read back as itself among the parts of a key.
func ambiguous(s string) bool {
	return s == "" || s != strings.TrimSpace(s) || strings.ContainsAny(s, "\"',\\`") || strings.HasPrefix(s, "0x") || s[0] == '#' ||
		!utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ops are the comparisons "later than" and "not later than" in the key's order.
func (k *keyColumn) ops() (after, before string) {
	if k.desc {
		return " < ", " > "
	}
	return " > ", " < "
}

// between is a condition for the keys in (lo, hi] in the key's order; nil is no bound.
//
// The bounds are spelled out column by column, a > 1 OR (a = 1 AND b > 2): MySQL uses no
// index for (a, b) > (1, 2). Whatever the order of a collation on the other side, the ranges
// of one series of bounds cover each key exactly once there too, since for each bound every
// key is either in "after it" or in "up to it".
func between(key []keyColumn, lo, hi keyValue) string {
	if lo == nil && hi == nil {
		return "TRUE"
	}
	var conds []string
	rest := key
	if lo != nil && hi != nil {
		n := 0
		for n < len(key)-1 && lo[n] == hi[n] {
			conds = append(conds, key[n].name+" = "+key[n].literal(lo[n]))
			n++
		}
		rest, lo, hi = key[n:], lo[n:], hi[n:]
	}
	k := &rest[0]
	after, before := k.ops()
	if lo != nil {
		if len(rest) > 1 {
			conds = append(conds, k.name+strings.TrimRight(after, " ")+"= "+k.literal(lo[0]))
		}
		conds = append(conds, lexical(rest, lo, false))
	}
	if hi != nil {
		if len(rest) > 1 {
			conds = append(conds, k.name+strings.TrimRight(before, " ")+"= "+k.literal(hi[0]))
		}
		conds = append(conds, lexical(rest, hi, true))
	}
	return strings.Join(conds, " AND ")
}

// lexical is "after v", or "v or before".
func lexical(key []keyColumn, v keyValue, upTo bool) string {
	var ors []string
	same := ""
	for i := range key {
		after, before := key[i].ops()
		op := after
		if upTo {
			op = before
			if i == len(key)-1 {
				op = strings.TrimRight(before, " ") + "= "
			}
		}
		lit := key[i].literal(v[i])
		ors = append(ors, same+key[i].name+op+lit)
		same += key[i].name + " = " + lit + " AND "
	}
	return "(" + strings.Join(ors, " OR ") + ")"
}

// is is a condition for one key.
func is(key []keyColumn, v keyValue) string {
	conds := make([]string, len(key))
	for i := range key {
		conds[i] = key[i].name + " = " + key[i].literal(v[i])
	}
	return strings.Join(conds, " AND ")
}
