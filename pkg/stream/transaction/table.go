package transaction

import (
	"fmt"
	"strconv"
	"strings"

	"vitess.io/vitess/go/mysql/collations"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// table is how the rows of one table are read.
type table struct {
	definition *schema.Table
	columns    []cell
}

// kinds are the types that the binlog has for those of columns.
var kinds = map[string]byte{
	"tinyint": typeTiny, "smallint": typeShort, "mediumint": typeInt24, "int": typeLong, "bigint": typeLongLong,
	"float": typeFloat, "double": typeDouble, "decimal": typeDecimal, "date": typeDate, "time": typeTime2, "datetime": typeDatetime2,
	"timestamp": typeTimestamp2, "year": typeYear, "char": typeString, "binary": typeString, "varchar": typeVarchar, "varbinary": typeVarchar,
	"tinyblob": typeBlob, "blob": typeBlob, "mediumblob": typeBlob, "longblob": typeBlob,
	"tinytext": typeBlob, "text": typeBlob, "mediumtext": typeBlob, "longtext": typeBlob,
	"json": typeJSON, "bit": typeBit, "enum": typeEnum, "set": typeSet, "vector": typeVector,
	"geometry": typeGeometry, "point": typeGeometry, "linestring": typeGeometry, "polygon": typeGeometry, "multipoint": typeGeometry,
	"multilinestring": typeGeometry, "multipolygon": typeGeometry, "geomcollection": typeGeometry, "geometrycollection": typeGeometry,
}

// widths are how many bytes a character takes at most, where that is not one.
var widths = map[string]int{
	"utf8mb4": 4, "utf8mb3": 3, "utf8": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "gb18030": 4, "gbk": 2, "gb2312": 2,
	"big5": 2, "sjis": 2, "cp932": 2, "euckr": 2, "ujis": 3, "eucjpms": 3,
}

// newTable lays a table map beside the table's definition. They must agree on all that
// decides what a value's bytes mean, and on every length: where the definition's is shorter,
// the server would cut values off without an error.
func newTable(definition *schema.Table, m dump.TableMap) (*table, error) {
	if len(m.Types) != len(definition.Columns) {
		return nil, fmt.Errorf("the binlog has %d columns, expected %d", len(m.Types), len(definition.Columns))
	}
	t := &table{definition: definition}
	numeric, character := 0, 0
	_, key := definition.RowKey()
	for i := range definition.Columns {
		column := &definition.Columns[i]
		c, err := newCell(column, m.Types[i], m.Meta[i])
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", column.Name, err)
		}
		if m.IsNumeric(i) {
			if numeric < len(m.Unsigned) && m.Unsigned[numeric] != c.unsigned {
				return nil, fmt.Errorf("column %q: in the binlog unsigned is %t, expected %s", column.Name, m.Unsigned[numeric], column.ColumnType)
			}
			numeric++
		}
		if m.IsCharacter(i) {
			if character < len(m.Collations) {
				if got, want := charsetOf(m.Collations[character]), charset(column.CharSet); got != "" && got != want {
					return nil, fmt.Errorf("column %q: in the binlog the character set is %s, expected %s", column.Name, got, want)
				}
			}
			character++
		}
		for _, k := range key {
			c.generated = c.generated && k.Column != column.Name
		}
		t.columns = append(t.columns, c)
	}
	return t, nil
}

// charset is a character set by the name it has in MySQL 8.0 and later.
func charset(name string) string {
	switch name {
	case "":
		return "binary"
	case "utf8":
		return "utf8mb3"
	}
	return name
}

// charsetOf is the character set of a collation by its number; empty for one not known here.
func charsetOf(collation uint64) string {
	if collation > 1<<16-1 {
		return ""
	}
	name := collations.MySQL8().LookupName(collations.ID(collation))
	if name == "" {
		return ""
	}
	// Vitess answers binary when asked for the character set of one that it only knows by
	// name, such as gbk_chinese_ci.
	name, _, _ = strings.Cut(name, "_")
	return charset(name)
}

func newCell(column *schema.Column, kind byte, meta uint16) (cell, error) {
	want, ok := kinds[column.Type]
	if !ok {
		return cell{}, fmt.Errorf("type %s is not known to the stream", column.ColumnType)
	}
	if kind == typeString {
		if hidden := byte(meta >> 8); hidden == typeEnum || hidden == typeSet {
			kind = hidden
		}
	}
	if kind != want {
		return cell{}, fmt.Errorf("in the binlog it has type %d, expected %d for %s", kind, want, column.ColumnType)
	}
	c := cell{kind: kind, meta: meta, unsigned: column.Type == "year" || strings.Contains(column.ColumnType, "unsigned"), generated: column.Generated != ""}
	a, b := arguments(column.ColumnType)
	width := max(widths[column.CharSet], 1)
	found, expected := int(meta), -1
	switch column.Type {
	case "decimal":
		expected = a<<8 | b
	case "time", "datetime", "timestamp":
		expected = a
	case "bit":
		expected = a/8<<8 | a%8
	case "char", "binary":
		found, expected = stringLength(meta), a*width
	case "varchar", "varbinary":
		expected = a * width
	case "tinyblob", "tinytext":
		expected = 1
	case "blob", "text":
		expected = 2
	case "mediumblob", "mediumtext":
		expected = 3
	case "longblob", "longtext", "json", "vector":
		expected = 4
	case "enum", "set":
		found, expected = int(meta&0xff), listBytes(column)
	}
	if expected >= 0 && found != expected {
		return cell{}, fmt.Errorf("in the binlog it has length %d, expected %d for %s", found, expected, column.ColumnType)
	}
	if column.Type == "binary" {
		c.pad = a
	}
	switch column.CharSet {
	case "":
		c.introducer = "_binary"
	case "utf8mb4":
	default:
		c.introducer = "_" + column.CharSet
		// The others have ASCII's bytes for other characters, or characters of two bytes.
		switch column.CharSet {
		case "utf8", "utf8mb3", "latin1", "ascii":
			c.plain = true
		}
	}
	return c, nil
}

// listBytes is how many bytes a value of an ENUM or SET takes.
func listBytes(c *schema.Column) int {
	// The members are quoted, a quote in them is doubled: outside of quotes are commas only.
	members, quoted := 1, false
	for i := 0; i < len(c.ColumnType); i++ {
		switch c.ColumnType[i] {
		case '\'':
			quoted = !quoted
		case ',':
			if !quoted {
				members++
			}
		}
	}
	if c.Type == "enum" {
		if members < 256 {
			return 1
		}
		return 2
	}
	if n := (members + 7) / 8; n <= 4 {
		return n
	}
	return 8
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

// arena is where literals are written: many into one piece of memory, so that a value costs
// no allocation of its own.
type arena struct {
	text  []byte
	cells [][]byte
}

const (
	// textPiece is how large a piece is; a value that may be larger than largeValue gets
	// memory of its own.
	textPiece  = 32 << 10
	largeValue = 2 << 10
	cellPiece  = 1 << 10
	// cellBytes is what a value takes beside its text.
	cellBytes = 24
)

var null = []byte("NULL")

// image reads the row at the start of data and returns what is behind it. size grows by
// what the image takes in memory.
func (t *table) image(a *arena, data []byte, size *int) (Image, []byte, error) {
	n := len(t.columns)
	width := (n + 7) / 8
	if len(data) < width {
		return nil, nil, errCut
	}
	nulls, data := data[:width], data[width:]
	if cap(a.cells)-len(a.cells) < n {
		a.cells = make([][]byte, 0, max(n, cellPiece))
	}
	at := len(a.cells)
	a.cells = a.cells[:at+n]
	image := a.cells[at : at+n : at+n]
	*size += n * cellBytes
	for i := range t.columns {
		c := &t.columns[i]
		if nulls[i/8]&(1<<(i%8)) != 0 {
			if !c.generated {
				image[i] = null
			}
			continue
		}
		head, end, err := c.size(data)
		if err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", t.definition.Columns[i].Name, err)
		}
		v := data[head:end]
		data = data[end:]
		if c.generated {
			continue
		}
		out, err := c.write(a, v)
		if err != nil {
			if u, ok := err.(unwritable); ok {
				return nil, nil, unwritable(fmt.Sprintf("column %q: %s", t.definition.Columns[i].Name, u))
			}
			return nil, nil, fmt.Errorf("column %q: %w", t.definition.Columns[i].Name, err)
		}
		image[i] = out
		*size += len(out)
	}
	return image, data, nil
}

// write writes a value's literal into the arena.
func (c *cell) write(a *arena, v []byte) ([]byte, error) {
	if len(v) > largeValue || c.pad > largeValue {
		return c.literal(make([]byte, 0, max(len(v), c.pad)+len(v)/16+16), v)
	}
	// Twice the value when all of it is escaped; JSON may take more and then moves on.
	if room := 2*len(v) + 2*c.pad + 64; cap(a.text)-len(a.text) < room {
		a.text = make([]byte, 0, max(textPiece, room))
	}
	from := len(a.text)
	out, err := c.literal(a.text, v)
	if err != nil {
		return nil, err
	}
	a.text = out
	return out[from:len(out):len(out)], nil
}
