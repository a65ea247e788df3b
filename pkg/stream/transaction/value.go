package transaction

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Types of columns as the binlog has them. ENUM and SET are STRING with the real type in
// the metadata.
const (
	typeTiny       = 1
	typeShort      = 2
	typeLong       = 3
	typeFloat      = 4
	typeDouble     = 5
	typeLongLong   = 8
	typeInt24      = 9
	typeDate       = 10
	typeYear       = 13
	typeVarchar    = 15
	typeBit        = 16
	typeTimestamp2 = 17
	typeDatetime2  = 18
	typeTime2      = 19
	typeVector     = 242
	typeJSON       = 245
	typeDecimal    = 246
	typeEnum       = 247
	typeSet        = 248
	typeTinyBlob   = 249 // inside JSON only, like the next two
	typeMediumBlob = 250
	typeLongBlob   = 251
	typeBlob       = 252
	typeString     = 254
	typeGeometry   = 255
)

// cell is how the values of one column are read and written.
type cell struct {
	kind     byte // the real type: ENUM and SET are told apart from STRING
	meta     uint16
	unsigned bool
	// introducer names the character set of text, such as _latin1; _binary for bytes; empty
	// where text is what the session's character set says it is.
	introducer string
	// plain: text of ASCII alone needs no introducer.
	plain bool
	// pad is the length of a BINARY column: the binlog leaves out the zeros at its end.
	pad int
	// generated columns are read over, but for those of the primary key.
	generated bool
}

// size is how many bytes of b the value at its start takes, and how many of those are its
// length.
func (c *cell) size(b []byte) (head, size int, err error) {
	switch c.kind {
	case typeTiny, typeYear:
		size = 1
	case typeShort:
		size = 2
	case typeInt24, typeDate:
		size = 3
	case typeLong, typeFloat:
		size = 4
	case typeLongLong, typeDouble:
		size = 8
	case typeTimestamp2:
		size = 4 + fractionBytes(c.meta)
	case typeDatetime2:
		size = 5 + fractionBytes(c.meta)
	case typeTime2:
		size = 3 + fractionBytes(c.meta)
	case typeDecimal:
		size = decimalSize(int(c.meta>>8), int(c.meta&0xff))
	case typeEnum, typeSet:
		size = int(c.meta & 0xff)
	case typeBit:
		size = (int(c.meta>>8)*8 + int(c.meta&0xff) + 7) / 8
	case typeVarchar:
		head = 1
		if c.meta > 255 {
			head = 2
		}
	case typeString:
		head = 1
		if stringLength(c.meta) > 255 {
			head = 2
		}
	case typeBlob, typeJSON, typeGeometry, typeVector:
		if head = int(c.meta); head < 1 || head > 4 {
			return 0, 0, fmt.Errorf("a length of %d bytes", head)
		}
	default:
		return 0, 0, fmt.Errorf("column type %d is not known", c.kind)
	}
	if head > 0 {
		if len(b) < head {
			return 0, 0, errCut
		}
		for i := head - 1; i >= 0; i-- {
			size = size<<8 | int(b[i])
		}
	}
	size += head
	if len(b) < size {
		return 0, 0, errCut
	}
	return head, size, nil
}

var errCut = fmt.Errorf("the row is cut off")

// stringLength is the most bytes of a CHAR or BINARY column. Its two upper bits hide, turned
// over, in the byte of the type.
func stringLength(meta uint16) int { return int((meta>>4)&0x300^0x300) + int(meta&0xff) }

// literal appends the value v, without its length, as an SQL literal.
func (c *cell) literal(dst, v []byte) ([]byte, error) {
	var err error
	switch c.kind {
	case typeTiny, typeShort, typeInt24, typeLong, typeLongLong:
		return c.integer(dst, v), nil
	case typeFloat:
		// All digits of the DOUBLE that it is the same as: the shortest text of a FLOAT is
		// read as a DOUBLE first, and rounding twice may end elsewhere.
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
		return appendDouble(dst, f), nil
	case typeDouble:
		return appendDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(v))), nil
	case typeDecimal:
		return appendDecimal(dst, v, int(c.meta>>8), int(c.meta&0xff))
	case typeYear:
		// As text: the number 0 is 0000 when stored, but is no such year when compared.
		if v[0] == 0 {
			return append(dst, "'0000'"...), nil
		}
		return strconv.AppendInt(dst, int64(v[0])+1900, 10), nil
	case typeDate:
		n := uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16
		dst = appendDate(append(dst, '\''), int(n>>9), int(n>>5&15), int(n&31))
		return append(dst, '\''), nil
	case typeTimestamp2:
		dst, err = appendTimestamp(append(dst, '\''), v, int(c.meta))
		return append(dst, '\''), err
	case typeDatetime2:
		dst, err = appendDatetime(append(dst, '\''), v, int(c.meta))
		return append(dst, '\''), err
	case typeTime2:
		dst, err = appendTime(append(dst, '\''), v, int(c.meta))
		return append(dst, '\''), err
	case typeEnum, typeSet:
		var n uint64
		for i := len(v) - 1; i >= 0; i-- {
			n = n<<8 | uint64(v[i])
		}
		return strconv.AppendUint(dst, n, 10), nil
	case typeBit:
		var n uint64
		for _, x := range v {
			n = n<<8 | uint64(x)
		}
		return strconv.AppendUint(dst, n, 10), nil
	case typeJSON:
		return appendJSON(dst, v)
	case typeString:
		return c.text(dst, v, c.pad-len(v)), nil
	default: // VARCHAR, BLOB, GEOMETRY, VECTOR
		return c.text(dst, v, 0), nil
	}
}

func (c *cell) integer(dst, v []byte) []byte {
	var n uint64
	for i := len(v) - 1; i >= 0; i-- {
		n = n<<8 | uint64(v[i])
	}
	if c.unsigned {
		return strconv.AppendUint(dst, n, 10)
	}
	shift := 64 - 8*len(v)
	return strconv.AppendInt(dst, int64(n<<shift)>>shift, 10)
}

func appendDouble(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'E', -1, 64) }

// text appends bytes as a string in their own character set: no conversion can change them,
// and an index on the column is used. pad zeros follow.
func (c *cell) text(dst, v []byte, pad int) []byte {
	if !c.plain || !isASCII(v) {
		dst = append(dst, c.introducer...)
	}
	dst = append(dst, '\'')
	dst = appendEscaped(dst, v)
	for range max(pad, 0) {
		dst = append(dst, '\\', '0')
	}
	return append(dst, '\'')
}

func isASCII(v []byte) bool {
	for _, b := range v {
		if b >= 0x80 {
			return false
		}
	}
	return true
}

// appendEscaped escapes what ends a string or begins an escape. In a session whose character
// set is utf8mb4 no byte of a longer character is one of the two, and what is no character
// is taken byte by byte.
func appendEscaped(dst, v []byte) []byte {
	from := 0
	for i, b := range v {
		if b == '\'' || b == '\\' {
			dst = append(dst, v[from:i]...)
			dst = append(dst, '\\', b)
			from = i + 1
		}
	}
	return append(dst, v[from:]...)
}
