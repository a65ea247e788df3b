package dump

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/go-mysql-org/go-mysql/replication"
)

func short(what string, n int) error { return fmt.Errorf("%s of %d bytes is cut off", what, n) }

// Query is a statement.
type Query struct {
	// Database is the session's default database; empty for none.
	Database string
	SQL      string
	// Databases are those that the statement changed, as the server itself says. Known is
	// false when it did not say, or when there were more than it lists.
	Databases []string
	Known     bool
}

// ParseQuery reads the body of a QUERY event, or with loadData that of an EXECUTE_LOAD
// QUERY event.
func ParseQuery(data []byte, loadData bool) (Query, error) {
	// Thread id 4, execution time 4, length of the database's name 1, error 2, length of
	// the status variables 2; LOAD DATA: file id 4, where its name is 4 and 4, kind 1.
	head := 13
	if loadData {
		head += 13
	}
	if len(data) < head {
		return Query{}, short("a query event", len(data))
	}
	n, vars := int(data[8]), int(binary.LittleEndian.Uint16(data[11:]))
	if len(data) < head+vars+n+1 {
		return Query{}, short("a query event", len(data))
	}
	q := Query{Database: string(data[head+vars : head+vars+n]), SQL: string(data[head+vars+n+1:])}
	q.Databases, q.Known = changedDatabases(data[head : head+vars])
	return q, nil
}

// QueryText is only the text of a QUERY event's statement, inside data.
func QueryText(data []byte) ([]byte, error) {
	const head = 13
	if len(data) < head {
		return nil, short("a query event", len(data))
	}
	skip := head + int(binary.LittleEndian.Uint16(data[11:])) + int(data[8]) + 1
	if len(data) < skip {
		return nil, short("a query event", len(data))
	}
	return data[skip:], nil
}

// changedDatabases looks for the list of changed databases in a statement's variables,
// which have no lengths of their own: behind one that is not known here nothing is found.
func changedDatabases(vars []byte) ([]string, bool) {
	const (
		list    = 12
		tooMany = 254
	)
	fixed := map[byte]int{0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1}
	for len(vars) > 0 {
		code := vars[0]
		vars = vars[1:]
		texts, extra := 0, 0
		switch code {
		case list:
			if len(vars) == 0 || vars[0] == tooMany {
				return nil, false
			}
			count := int(vars[0])
			vars = vars[1:]
			var out []string
			for range count {
				end := 0
				for end < len(vars) && vars[end] != 0 {
					end++
				}
				if end == len(vars) {
					return nil, false
				}
				out = append(out, string(vars[:end]))
				vars = vars[end+1:]
			}
			return out, true
		case 2:
			texts, extra = 1, 1 // catalog with a zero behind
		case 5, 6:
			texts = 1 // time zone, catalog
		case 11:
			texts = 2 // user and host
		default:
			size, ok := fixed[code]
			if !ok {
				return nil, false
			}
			extra = size
		}
		for range texts {
			if len(vars) == 0 || len(vars) < 1+int(vars[0]) {
				return nil, false
			}
			vars = vars[1+int(vars[0]):]
		}
		if len(vars) < extra {
			return nil, false
		}
		vars = vars[extra:]
	}
	return nil, false
}

// TableMap says which table a number stands for in the row events behind it.
type TableMap struct {
	ID              uint64
	Database, Table string
	// Types are the columns' types and Meta what they need to be read, in the server's
	// own order of columns.
	Types []byte
	Meta  []uint16
	// Unsigned tells for the numeric columns, in order, whether they are; nil when the
	// server did not say.
	Unsigned []bool
	// Collations are the numbers of the character columns' collations, in order; nil when
	// the server did not say. ENUM and SET are not among them.
	Collations []uint64
}

// ParseTableName reads only the head of a TABLE_MAP event: which table it is. rest is for
// ParseTableMap.
func ParseTableName(data []byte) (m TableMap, rest []byte, err error) {
	// Table id 6, flags 2, then the names, each with its length before and a zero behind.
	if len(data) < 9 {
		return m, nil, short("a table map", len(data))
	}
	m.ID = TableID(data)
	n := int(data[8])
	if len(data) < 9+n+2 {
		return m, nil, short("a table map", len(data))
	}
	m.Database, rest = string(data[9:9+n]), data[9+n+1:]
	t := int(rest[0])
	if len(rest) < 1+t+1 {
		return m, nil, short("a table map", len(data))
	}
	m.Table = string(rest[1 : 1+t])
	return m, rest[1+t+1:], nil
}

// ParseTableMap reads a TABLE_MAP event.
func ParseTableMap(data []byte) (TableMap, error) {
	m, rest, err := ParseTableName(data)
	if err != nil {
		return m, err
	}
	cut := short("the table map of "+m.Table, len(data))
	columns, n := PackedInt(rest)
	if n == 0 || len(rest) < n+columns {
		return m, cut
	}
	m.Types, rest = append([]byte(nil), rest[n:n+columns]...), rest[n+columns:]
	size, n := PackedInt(rest)
	if n == 0 || len(rest) < n+size {
		return m, cut
	}
	meta := rest[n : n+size]
	rest = rest[n+size:]
	if m.Meta, err = columnMeta(m.Types, meta); err != nil {
		return m, fmt.Errorf("table map of %s: %w", m.Table, err)
	}
	nulls := (columns + 7) / 8
	if len(rest) < nulls {
		return m, cut
	}
	m.optional(rest[nulls:])
	return m, nil
}

// columnMeta cuts the columns' metadata apart. Text types have it in the order of the bytes,
// numbers the low byte first.
func columnMeta(types, meta []byte) ([]uint16, error) {
	out := make([]uint16, len(types))
	for i, t := range types {
		var n int
		switch t {
		case 15, 16: // VARCHAR, BIT
			n = 2
		case 246, 247, 248, 254: // NEWDECIMAL, ENUM, SET, STRING
			n = -2
		case 4, 5, 17, 18, 19, 242, 245, 249, 250, 251, 252, 255:
			n = 1
		}
		switch size := max(n, -n); {
		case len(meta) < size:
			return nil, fmt.Errorf("the metadata of column %d is cut off", i+1)
		case n == 1:
			out[i] = uint16(meta[0])
			meta = meta[1:]
		case n == 2:
			out[i] = binary.LittleEndian.Uint16(meta)
			meta = meta[2:]
		case n == -2:
			out[i] = binary.BigEndian.Uint16(meta)
			meta = meta[2:]
		}
	}
	return out, nil
}

// optional reads what MySQL 8.0 says about the columns beyond what replicas need.
func (m *TableMap) optional(data []byte) {
	const (
		signedness     = 1
		defaultCharset = 2
		columnCharset  = 3
	)
	for len(data) >= 2 {
		kind := data[0]
		size, n := PackedInt(data[1:])
		if n == 0 || len(data) < 1+n+size {
			return
		}
		field := data[1+n : 1+n+size]
		data = data[1+n+size:]
		switch kind {
		case signedness:
			for i := range m.countNumeric() {
				if i/8 >= len(field) {
					return
				}
				m.Unsigned = append(m.Unsigned, field[i/8]&(0x80>>(i%8)) != 0)
			}
		case defaultCharset:
			m.Collations = m.defaultCollations(field)
		case columnCharset:
			for len(field) > 0 {
				id, n := PackedInt(field)
				if n == 0 {
					return
				}
				m.Collations = append(m.Collations, uint64(id))
				field = field[n:]
			}
		}
	}
}

// defaultCollations reads: the collation of most columns, then pairs of a character column's
// number and another collation.
func (m *TableMap) defaultCollations(field []byte) []uint64 {
	most, n := PackedInt(field)
	if n == 0 {
		return nil
	}
	field = field[n:]
	var out []uint64
	for i := range m.Types {
		if m.IsCharacter(i) {
			out = append(out, uint64(most))
		}
	}
	for len(field) > 0 {
		at, n := PackedInt(field)
		if n == 0 {
			return nil
		}
		id, k := PackedInt(field[n:])
		if k == 0 || at >= len(out) {
			return nil
		}
		out[at] = uint64(id)
		field = field[n+k:]
	}
	return out
}

// IsNumeric reports a column that Unsigned has an entry for.
func (m *TableMap) IsNumeric(i int) bool {
	switch m.Types[i] {
	case 1, 2, 3, 4, 5, 8, 9, 13, 246: // 13 is YEAR, which go-mysql leaves out
		return true
	}
	return false
}

func (m *TableMap) countNumeric() int {
	n := 0
	for i := range m.Types {
		if m.IsNumeric(i) {
			n++
		}
	}
	return n
}

// IsCharacter reports a column that Collations has an entry for; binary strings are among
// them, with the collation binary, and VECTOR (242) as MySQL 9.7 writes it: left out, each text
// column behind a VECTOR has the collation of the one before it.
func (m *TableMap) IsCharacter(i int) bool {
	switch m.Types[i] {
	case 15, 242, 249, 250, 251, 252, 253:
		return true
	case 254:
		real := byte(m.Meta[i] >> 8)
		return real != 247 && real != 248
	}
	return false
}

// TableID is the number of the table that a TABLE_MAP or row event is about. The event must
// have at least 8 bytes.
func TableID(data []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(data)) | uint64(binary.LittleEndian.Uint16(data[4:]))<<32
}

// Rows is a row event.
type Rows struct {
	TableID uint64
	// StatementEnds says that table ids are given anew behind this event.
	StatementEnds bool
	// Dummy events say only that.
	Dummy   bool
	Columns int
	// Missing is how many of Columns the images lack at least in one place; 0 for full ones.
	Missing int
	// Images are the rows, of an update the one before and the one behind by turns: each a
	// bit map of the columns that are NULL, then the others' values.
	Images []byte
}

// ParseRows reads a row event of any kind but the partial updates.
func ParseRows(t replication.EventType, data []byte) (Rows, error) {
	v2 := t == replication.WRITE_ROWS_EVENTv2 || t == replication.DELETE_ROWS_EVENTv2 || t == replication.UPDATE_ROWS_EVENTv2
	images := 1
	if t == replication.UPDATE_ROWS_EVENTv2 || t == replication.UPDATE_ROWS_EVENTv1 || t == replication.UPDATE_ROWS_EVENTv0 {
		images = 2
	}
	// Table id 6, flags 2, in version 2 extra data with its length (itself included)
	// before, the number of columns, one bit map of the columns there for each image.
	cut := short("a row event", len(data))
	if len(data) < 10 {
		return Rows{}, cut
	}
	const (
		statementEnds = 1
		dummy         = 0x00ffffff
	)
	r := Rows{TableID: TableID(data), StatementEnds: binary.LittleEndian.Uint16(data[6:])&statementEnds != 0}
	if r.TableID == dummy {
		r.Dummy = true
		return r, nil
	}
	rest := data[8:]
	if v2 {
		extra := int(binary.LittleEndian.Uint16(rest))
		if extra < 2 || len(rest) < extra+1 {
			return r, cut
		}
		rest = rest[extra:]
	}
	columns, n := PackedInt(rest)
	if n == 0 {
		return r, cut
	}
	rest = rest[n:]
	r.Columns = columns
	width := (columns + 7) / 8
	if len(rest) < images*width {
		return r, cut
	}
	for i := range images {
		have := 0
		for _, b := range rest[i*width : (i+1)*width] {
			have += bits.OnesCount8(b)
		}
		r.Missing = max(r.Missing, columns-have)
	}
	r.Images = rest[images*width:]
	return r, nil
}

// PackedInt is MySQL's length-encoded number and how many bytes it took; 0 bytes when it is
// cut off. Nothing here takes the form of eight bytes.
func PackedInt(b []byte) (v, n int) {
	switch {
	case len(b) >= 1 && b[0] < 0xfb:
		return int(b[0]), 1
	case len(b) >= 3 && b[0] == 0xfc:
		return int(binary.LittleEndian.Uint16(b[1:])), 3
	case len(b) >= 4 && b[0] == 0xfd:
		return int(b[1]) | int(b[2])<<8 | int(b[3])<<16, 4
	}
	return 0, 0
}
