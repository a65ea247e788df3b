package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// charsets are the target's collations by number: which character set, and how many bytes
// a character takes at most. Numbers are the same on all MySQL servers.
type charsets map[uint64]charset

type charset struct {
	name  string
	bytes int
}

func readCharsets(ctx context.Context, db *sql.DB) (charsets, error) {
	rows, err := db.QueryContext(ctx, "SELECT c.id, c.character_set_name, s.maxlen FROM information_schema.collations c JOIN information_schema.character_sets s USING (character_set_name)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := charsets{}
	for rows.Next() {
		var id uint64
		var c charset
		if err := rows.Scan(&id, &c.name, &c.bytes); err != nil {
			return nil, err
		}
		out[id] = c
	}
	return out, rows.Err()
}

func (cs charsets) bytesOf(name string) int {
	for _, c := range cs {
		if c.name == name {
			return c.bytes
		}
	}
	return 1
}

// table is how the rows of one table are read from the binlog and written to the target.
type table struct {
	*schema.Table
	qualified string // database and name, quoted
	cells     []cell
	// written tells the columns that are written: all but the generated ones.
	written []bool
	columns string // their names, quoted
	// assign is behind ON DUPLICATE KEY UPDATE: every written column.
	assign string
	key    []int // the primary key's columns
	// unique: it has another unique key, so that rows can stand in each other's way.
	unique bool
	// anew: a row that was there is deleted before it is written. With other unique keys,
	// because rows can stand in each other's way; with JSON, because the server takes an
	// update from 1 to 1.0 for none and leaves the column as it is.
	anew bool
	// exact: two keys are the same for the server only if their bytes are. Keys of a text
	// are not: 'A' may be the row 'a' under another spelling.
	exact bool
	// counter is the AUTO_INCREMENT column; -1 for none.
	counter int
}

// layout makes a table of what the target says about it.
func layout(database string, t *schema.Table, cs charsets) (*table, error) {
	if len(t.PrimaryKey) == 0 {
		return nil, fmt.Errorf("table %q has no primary key: rows of it cannot be told apart: add one on the legacy, and seed again", t.Name)
	}
	out := &table{Table: t, qualified: schema.Quote(database) + "." + schema.Quote(t.Name), exact: true, counter: -1}
	var names, assign []string
	for i := range t.Columns {
		c := &t.Columns[i]
		kind, err := cellOf(c, cs)
		if err != nil {
			return nil, fmt.Errorf("table %q: column %q: %w", t.Name, c.Name, err)
		}
		out.cells = append(out.cells, kind)
		out.written = append(out.written, c.Generated == "")
		out.anew = out.anew || c.Type == "json"
		if c.AutoIncrement {
			out.counter = i
		}
		if c.Generated == "" {
			q := schema.Quote(c.Name)
			names = append(names, q)
			assign = append(assign, q+"=n."+q)
		}
	}
	out.columns, out.assign = strings.Join(names, ","), strings.Join(assign, ",")
	for _, p := range t.PrimaryKey {
		at := -1
		for i := range t.Columns {
			if t.Columns[i].Name == p.Column {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("table %q: the primary key has no column %q", t.Name, p.Column)
		}
		out.key = append(out.key, at)
		switch t.Columns[at].Type {
		case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "time", "datetime", "timestamp", "year", "enum", "set", "bit", "binary", "varbinary":
			out.exact = out.exact && p.Prefix == 0
		default:
			out.exact = false
		}
	}
	for _, ix := range t.Indexes {
		out.unique = out.unique || ix.Unique
	}
	out.anew = out.anew || out.unique
	return out, nil
}

// cellOf is what the binlog must have for a column.
func cellOf(c *schema.Column, cs charsets) (cell, error) {
	kinds := map[string]byte{
		"tinyint": typeTiny, "smallint": typeShort, "mediumint": typeInt24, "int": typeLong, "bigint": typeLongLong,
		"float": typeFloat, "double": typeDouble, "decimal": typeDecimal, "date": typeDate, "time": typeTime2, "datetime": typeDatetime2,
		"timestamp": typeTimestamp2, "year": typeYear, "char": typeString, "binary": typeString, "varchar": typeVarchar, "varbinary": typeVarchar,
		"tinyblob": typeBlob, "blob": typeBlob, "mediumblob": typeBlob, "longblob": typeBlob,
		"tinytext": typeBlob, "text": typeBlob, "mediumtext": typeBlob, "longtext": typeBlob,
		"json": typeJSON, "bit": typeBit, "enum": typeEnum, "set": typeSet, "vector": typeVector,
		"geometry": typeGeometry, "point": typeGeometry, "linestring": typeGeometry, "polygon": typeGeometry, "multipoint": typeGeometry,
		"multilinestring": typeGeometry, "multipolygon": typeGeometry, "geomcollection": typeGeometry, "geometrycollection": typeGeometry,
	}
	kind, ok := kinds[c.Type]
	if !ok {
		return cell{}, fmt.Errorf("type %s is not known to the binlog stream", c.Type)
	}
	out := cell{kind: kind, unsigned: strings.Contains(c.ColumnType, "unsigned"), introducer: "_binary"}
	if c.CharSet != "" && kind != typeEnum && kind != typeSet && kind != typeJSON {
		out.introducer = "_" + c.CharSet
	}
	a, b := arguments(c.ColumnType)
	switch c.Type {
	case "decimal":
		out.meta = uint16(a)<<8 | uint16(b)
	case "time", "datetime", "timestamp":
		out.meta = uint16(a)
	case "float":
		out.meta = 4
	case "double":
		out.meta = 8
	case "bit":
		out.meta = uint16(a/8)<<8 | uint16(a%8)
	case "binary":
		out.pad = a
		out.meta = uint16(a) // lengths of more than 255 bytes hide in the type's byte
	case "varbinary":
		out.meta = uint16(a)
	case "varchar":
		out.meta = uint16(a * cs.bytesOf(c.CharSet))
	case "char":
		out.meta = uint16(a * cs.bytesOf(c.CharSet))
	case "tinyblob", "tinytext":
		out.meta = 1
	case "blob", "text":
		out.meta = 2
	case "mediumblob", "mediumtext":
		out.meta = 3
	case "longblob", "longtext", "json", "vector":
		out.meta = 4
	default:
		if kind == typeGeometry {
			out.meta = 4
		}
	}
	return out, nil
}

// arguments are the numbers in the brackets behind a type, 0 for those that are not there.
func arguments(columnType string) (a, b int) {
	_, rest, ok := strings.Cut(columnType, "(")
	if !ok {
		return 0, 0
	}
	rest, _, _ = strings.Cut(rest, ")")
	first, second, _ := strings.Cut(rest, ",")
	a, _ = strconv.Atoi(first)
	b, _ = strconv.Atoi(second)
	return a, b
}

// match checks a table map against the target's table and takes from it what only the
// server that wrote it knows. A difference is an error: which of the two is right would be a
// guess.
func (t *table) match(m *dump.TableMap, cs charsets) (*table, error) {
	differs := func(format string, args ...any) error {
		return fmt.Errorf("table %q: "+format+": the tables differ between the legacy and the landing, or were changed during the move: seed again", append([]any{t.Name}, args...)...)
	}
	if len(m.Types) != len(t.Columns) {
		return nil, differs("the binlog has %d columns, the landing's table %d", len(m.Types), len(t.Columns))
	}
	if m.Unsigned != nil && len(m.Unsigned) != countOf(m, m.IsNumeric) || m.Collations != nil && len(m.Collations) != countOf(m, m.IsCharacter) {
		return nil, differs("the binlog describes other columns than it has")
	}
	out := *t
	out.cells = append([]cell(nil), t.cells...)
	numeric, character := 0, 0
	for i := range m.Types {
		c, col := &out.cells[i], &t.Columns[i]
		kind, meta := m.Types[i], m.Meta[i]
		if kind == typeString {
			if real := byte(meta >> 8); real == typeEnum || real == typeSet {
				kind = real
			}
		}
		if kind != c.kind {
			return nil, differs("column %q: the binlog has type %d, expected %d for %s", col.Name, kind, c.kind, col.ColumnType)
		}
		length := int(meta)
		switch kind {
		case typeString:
			length = stringLength(meta)
			fallthrough
		case typeDecimal, typeTime2, typeDatetime2, typeTimestamp2, typeBit, typeBlob, typeVarchar:
			if length != int(c.meta) {
				return nil, differs("column %q: the binlog has a length of %d, expected %d for %s", col.Name, length, c.meta, col.ColumnType)
			}
		}
		c.meta = meta
		if m.IsNumeric(i) && m.Unsigned != nil {
			if m.Unsigned[numeric] != c.unsigned {
				return nil, differs("column %q: unsigned is %t in the binlog, expected %t for %s", col.Name, m.Unsigned[numeric], c.unsigned, col.ColumnType)
			}
			numeric++
		}
		if m.IsCharacter(i) && m.Collations != nil {
			want := col.CharSet
			if want == "" {
				want = "binary"
			}
			if got, ok := cs[m.Collations[character]]; ok && got.name != want {
				return nil, differs("column %q: the binlog has character set %s, the landing %s", col.Name, got.name, want)
			}
			character++
		}
	}
	return &out, nil
}

func countOf(m *dump.TableMap, is func(int) bool) int {
	n := 0
	for i := range m.Types {
		if is(i) {
			n++
		}
	}
	return n
}
