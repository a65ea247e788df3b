package diff

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// table is a table with the SQL that its comparison is made of. The SQL of both sides is
// the same but for the database's name.
type table struct {
	*schema.Table
	index string      // of the key
	key   []keyColumn // empty: its rows cannot be told apart
	loose bool        // different exact keys may be one key
	// spelled: keys that are one key to the server are several here, as on several servers each
	// may have its own.
	spelled bool
	// row and wideRow are the 32-byte hash of a row, NULL when it could not be computed.
	row, wideRow string
	// keys selects the key's exact values, then the values for people that differ from them.
	keys  string
	shows int // how many values for people
	order string
}

// errNoKey is returned, wrapped, where single rows are asked for of a table without a key.
var errNoKey = errors.New("it has no primary key and no unique key of whole columns that are NOT NULL: its rows cannot be told apart: give it one")

// Unkeyed names the tables of a schema whose rows no key tells apart. Compare counts how
// often each row is on both sides; nothing that reads or repairs single rows takes them.
func Unkeyed(s *schema.Schema) (names []string) {
	for _, t := range s.Tables {
		if _, key := t.RowKey(); len(key) == 0 {
			names = append(names, t.Name)
		}
	}
	return names
}

func newTable(t *schema.Table) (*table, error) {
	key, err := keyColumns(t)
	if err != nil {
		return nil, err // of a key that cannot be compared; no key at all is none
	}
	index, _ := t.RowKey()
	return tableOf(t, index, key)
}

// tableOf is a table told by a key; without an index the server is left to find its own.
func tableOf(t *schema.Table, index string, key []keyColumn) (*table, error) {
	out := &table{Table: t, index: index, key: key}
	for _, wide := range []bool{false, true} {
		var heads, tails []string
		for i := range t.Columns {
			c := &t.Columns[i]
			k, err := classOf(c)
			if err != nil {
				return nil, fmt.Errorf("table %q: %w", t.Name, err)
			}
			head, tail := canonical(c, k, wide)
			heads = append(heads, head...)
			if tail != "" {
				tails = append(tails, tail)
			}
		}
		hash := "UNHEX(SHA2(" + concat(heads, tails) + ",256))"
		if wide {
			out.wideRow = hash
		} else {
			out.row = hash
		}
	}
	var exact, show, order []string
	for i := range key {
		exact = append(exact, key[i].exact)
		if key[i].display != "" {
			show = append(show, key[i].display)
		}
		o := key[i].name
		if key[i].desc {
			o += " DESC"
		}
		order = append(order, o)
		out.loose = out.loose || key[i].loose()
	}
	out.keys = strings.Join(append(exact, show...), ",")
	out.shows = len(show)
	out.order = strings.Join(order, ",")
	return out, nil
}

func (t *table) hash(wide bool) string {
	if wide {
		return t.wideRow
	}
	return t.row
}

func (t *table) in(database string) string {
	return schema.Quote(database) + "." + schema.Quote(t.Name)
}

func (t *table) from(database string) string {
	hint := ""
	if t.index != "" {
		hint = " FORCE INDEX (" + schema.Quote(t.index) + ")"
	}
	return " FROM " + t.in(database) + hint + " WHERE "
}

// sumSQL: a row whose hash is NULL makes the statement fail with error 3513, because
// BIT_XOR refuses operands of different lengths. Without the IFNULL it would leave the row
// out, and two sides that both cannot hash it would look equal.
func (t *table) sumSQL(database, where string, wide bool) string {
	return "SELECT COUNT(*),BIT_XOR(IFNULL(" + t.hash(wide) + ",X'00'))" + t.from(database) + where
}

func (t *table) listSQL(database, where string, wide bool) string {
	return "SELECT " + t.keys + "," + t.hash(wide) + t.from(database) + where
}

// boundSQL finds the n-th key of a range in the key's order.
func (t *table) boundSQL(database, where string, n int) string {
	return fmt.Sprintf("SELECT %s%s%s ORDER BY %s LIMIT 1 OFFSET %d", t.keys, t.from(database), where, t.order, n-1)
}

// newestSQL lists the last n rows in the order of a column or of the key.
func (t *table) newestSQL(database, orderBy, index string, n int, wide bool) string {
	return fmt.Sprintf("SELECT %s,%s FROM %s.%s FORCE INDEX (%s) ORDER BY %s LIMIT %d", t.keys, t.hash(wide), schema.Quote(database), schema.Quote(t.Name), schema.Quote(index), orderBy, n)
}

// where is a condition for one key.
func (t *table) where(k keyValue) string {
	cond := is(t.key, k)
	if !t.spelled {
		return cond
	}
	for i := range t.key {
		if t.key[i].loose() {
			// Beside the other one, which an index can answer.
			cond += " AND CAST(" + t.key[i].exact + " AS BINARY) = X'" + hex.EncodeToString([]byte(k[i])) + "'"
		}
	}
	return cond
}

// lookupSQL reads the rows of some keys, each marked with the key's place in the list. A key
// each in its own SELECT: which of many rows belongs to which key only the server can tell,
// by its collation.
func (t *table) lookupSQL(database string, keys []keyValue, wide bool) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("(SELECT %s,%s,%d%s%s)", t.keys, t.hash(wide), i, t.from(database), is(t.key, k))
	}
	return strings.Join(parts, " UNION ALL ")
}
