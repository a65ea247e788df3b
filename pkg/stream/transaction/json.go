package transaction

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// A JSON document in the binlog is MySQL's binary form, which knows more types than JSON's
// text: whole numbers with and without a sign, DECIMAL, DATE, TIME, DATETIME, TIMESTAMP, BIT
// and byte strings. A document without those is written as text, which the server reads
// faster; text keeps integers and, as MySQL prints and reads them, every digit of a DOUBLE.
// With one of those it is written as an expression of JSON_ARRAY and JSON_OBJECT that makes
// the same types.
//
// Vitess' own decoder (go/mysql/binlog) loses the sign of times, that an integer is
// unsigned, a DECIMAL's scale of 0, and the difference of TIMESTAMP and DATETIME;
// go-mysql's loses all types but JSON's own.

// Kinds of values in MySQL's binary JSON.
const (
	jsonSmallObject = 0
	jsonLargeObject = 1
	jsonSmallArray  = 2
	jsonLargeArray  = 3
	jsonLiteral     = 4
	jsonInt16       = 5
	jsonUint16      = 6
	jsonInt32       = 7
	jsonUint32      = 8
	jsonInt64       = 9
	jsonUint64      = 10
	jsonDouble      = 11
	jsonString      = 12
	jsonOpaque      = 15
)

// jsonDepth is more than MySQL allows.
const jsonDepth = 128

var errJSON = fmt.Errorf("a JSON document is cut off")

// unwritable is a value that no SQL expression makes again.
type unwritable string

func (e unwritable) Error() string { return string(e) }

// appendJSON appends a document as a literal for a JSON column.
func appendJSON(dst, doc []byte) ([]byte, error) {
	if len(doc) == 0 { // what INSERT IGNORE leaves for NULL; the server reads it as null
		return append(dst, "_utf8mb4'null'"...), nil
	}
	w := jsonWriter{text: true, out: make([]byte, 0, len(doc)+len(doc)/4+16)}
	if err := w.value(doc[0], doc[1:], 0); err != nil {
		return dst, err
	}
	if !w.typed {
		dst = append(dst, "_utf8mb4'"...)
		return append(appendEscaped(dst, w.out), '\''), nil
	}
	w = jsonWriter{out: w.out[:0]}
	if err := w.value(doc[0], doc[1:], 0); err != nil {
		return dst, err
	}
	if k := doc[0]; k <= jsonLargeArray {
		return append(dst, w.out...), nil
	}
	// A value of its own is no document until it was in one.
	dst = append(dst, "JSON_EXTRACT(JSON_ARRAY("...)
	return append(append(dst, w.out...), "),'$[0]')"...), nil
}

// jsonWriter writes a document as text, until it meets what text does not tell, or as an
// expression.
type jsonWriter struct {
	text  bool
	typed bool
	out   []byte
}

func (w *jsonWriter) put(s string) { w.out = append(w.out, s...) }

func (w *jsonWriter) value(kind byte, b []byte, depth int) error {
	if depth > jsonDepth {
		return fmt.Errorf("a JSON document is deeper than %d", jsonDepth)
	}
	if w.typed && w.text {
		return nil
	}
	switch kind {
	case jsonSmallObject, jsonLargeObject:
		return w.container(b, kind == jsonLargeObject, true, depth)
	case jsonSmallArray, jsonLargeArray:
		return w.container(b, kind == jsonLargeArray, false, depth)
	case jsonLiteral:
		if len(b) < 1 || b[0] > 2 {
			return errJSON
		}
		w.put([...]string{"null", "true", "false"}[b[0]])
		return nil
	case jsonInt16, jsonUint16, jsonInt32, jsonUint32, jsonInt64, jsonUint64, jsonDouble:
		return w.number(kind, b)
	case jsonString:
		n, size, err := jsonLength(b)
		if err != nil {
			return err
		}
		w.string(b[size : size+n])
		return nil
	case jsonOpaque:
		return w.opaque(b)
	}
	return fmt.Errorf("a JSON document has a value of kind %d, which is not known", kind)
}

func (w *jsonWriter) number(kind byte, b []byte) error {
	size := [...]int{jsonInt16: 2, jsonUint16: 2, jsonInt32: 4, jsonUint32: 4, jsonInt64: 8, jsonUint64: 8, jsonDouble: 8}[kind]
	if len(b) < size {
		return errJSON
	}
	var n uint64
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	switch kind {
	case jsonInt16:
		return w.signed(int64(int16(n)))
	case jsonInt32:
		return w.signed(int64(int32(n)))
	case jsonInt64:
		return w.signed(int64(n))
	case jsonDouble:
		f := math.Float64frombits(n)
		if !w.text {
			w.out = appendDouble(w.out, f)
			return nil
		}
		from := len(w.out)
		w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
		for _, c := range w.out[from:] {
			if c == '.' || c == 'e' {
				return nil
			}
		}
		w.put(".0")
		return nil
	}
	if w.text {
		// Text makes an unsigned integer only of what no signed one can hold.
		w.typed = w.typed || n <= math.MaxInt64
		w.out = strconv.AppendUint(w.out, n, 10)
		return nil
	}
	w.put("CAST(")
	w.out = strconv.AppendUint(w.out, n, 10)
	w.put(" AS UNSIGNED)")
	return nil
}

func (w *jsonWriter) signed(n int64) error {
	if !w.text && n == math.MinInt64 { // a minus before a number that has no signed type
		w.put("CAST('-9223372036854775808' AS SIGNED)")
		return nil
	}
	w.out = strconv.AppendInt(w.out, n, 10)
	return nil
}

func (w *jsonWriter) string(s []byte) {
	if !w.text {
		w.put("_utf8mb4'")
		w.out = append(appendEscaped(w.out, s), '\'')
		return
	}
	const hex = "0123456789abcdef"
	w.out = append(w.out, '"')
	from := 0
	for i, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		w.out = append(w.out, s[from:i]...)
		if c < ' ' {
			w.put(`\u00`)
			w.out = append(w.out, hex[c>>4], hex[c&15])
		} else {
			w.out = append(w.out, '\\', c)
		}
		from = i + 1
	}
	w.out = append(append(w.out, s[from:]...), '"')
}

// container writes an object or array: the number of members, the size of all, the places
// and lengths of the keys, the kinds and places of the values, which are themselves there
// when they are small.
func (w *jsonWriter) container(b []byte, large, object bool, depth int) error {
	word := 2
	if large {
		word = 4
	}
	read := func(at int) int {
		if large {
			return int(binary.LittleEndian.Uint32(b[at:]))
		}
		return int(binary.LittleEndian.Uint16(b[at:]))
	}
	if len(b) < 2*word {
		return errJSON
	}
	count, keys := read(0), 2*word
	values := keys
	if object {
		values += count * (word + 2)
	}
	if size := values + count*(1+word); count < 0 || size > len(b) || read(word) > len(b) {
		return errJSON
	}
	open, end := "[", "]"
	switch {
	case object && w.text:
		open, end = "{", "}"
	case object:
		open, end = "JSON_OBJECT(", ")"
	case !w.text:
		open, end = "JSON_ARRAY(", ")"
	}
	w.put(open)
	for i := range count {
		if i > 0 {
			w.put(",")
		}
		if object {
			at := read(keys + i*(word+2))
			n := int(binary.LittleEndian.Uint16(b[keys+i*(word+2)+word:]))
			if at+n > len(b) {
				return errJSON
			}
			w.string(b[at : at+n])
			if w.text {
				w.put(":")
			} else {
				w.put(",")
			}
		}
		entry := values + i*(1+word)
		kind := b[entry]
		inline := kind == jsonLiteral || kind == jsonInt16 || kind == jsonUint16 || large && (kind == jsonInt32 || kind == jsonUint32)
		at := entry + 1
		if !inline {
			at = read(at)
		}
		if at > len(b) {
			return errJSON
		}
		if err := w.value(kind, b[at:], depth+1); err != nil {
			return err
		}
		if w.text && w.typed {
			return nil
		}
	}
	w.put(end)
	return nil
}

// jsonLength is a length in seven bits a byte, and how many bytes it took. The bytes it
// counts are there.
func jsonLength(b []byte) (n, size int, err error) {
	for size < 5 && size < len(b) {
		c := b[size]
		n |= int(c&0x7f) << (7 * size)
		size++
		if c&0x80 == 0 {
			if size+n > len(b) {
				return 0, 0, errJSON
			}
			return n, size, nil
		}
	}
	return 0, 0, errJSON
}

// opaque writes a value of a type that JSON does not have: the type, a length, the value.
func (w *jsonWriter) opaque(b []byte) error {
	if w.text {
		w.typed = true
		return nil
	}
	if len(b) < 1 {
		return errJSON
	}
	kind := b[0]
	n, size, err := jsonLength(b[1:])
	if err != nil {
		return err
	}
	v := b[1+size : 1+size+n]
	switch kind {
	case 7, 10, 11, 12, typeTimestamp2, typeDatetime2, typeTime2:
		return w.temporal(kind, v)
	case 0, typeDecimal:
		if len(v) < 2 {
			return errJSON
		}
		precision, scale := int(v[0]), int(v[1])
		text, err := appendDecimal(nil, v[2:], precision, scale)
		if err != nil {
			return err
		}
		digits := len(text)
		for _, c := range text {
			if c == '-' || c == '.' {
				digits--
			}
		}
		if digits == precision {
			// As a literal it keeps its precision. The point tells 12. from an integer.
			w.out = append(w.out, text...)
			if scale == 0 {
				w.put(".")
			}
			return nil
		}
		if precision == scale || (precision-scale)%9 != 0 { // it came from a column
			w.put("(SELECT c FROM JSON_TABLE('[\"")
			w.out = append(w.out, text...)
			w.put(fmt.Sprintf("\"]','$[*]' COLUMNS (c DECIMAL(%d,%d) PATH '$')) q)", precision, scale))
			return nil
		}
		// CAST makes room for whole groups of nine digits, as it did on the source.
		w.put("CAST(")
		w.out = append(w.out, text...)
		w.put(fmt.Sprintf(" AS DECIMAL(%d,%d))", precision, scale))
		return nil
	case typeVarchar:
		w.bytes(v)
		return nil
	case typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlob, typeString:
		name, ok := map[byte]string{typeTinyBlob: "TINYBLOB", typeMediumBlob: "MEDIUMBLOB", typeLongBlob: "LONGBLOB", typeBlob: "BLOB"}[kind]
		if !ok {
			name = "BINARY(" + strconv.Itoa(len(v)) + ")"
		}
		// Only a table's column has such a type, and JSON_TABLE fills it from text alone. The
		// column of a recursive query has the type of the first row, and takes any bytes in
		// the second. It must become JSON inside: a subquery's result is a BLOB, whatever
		// its column is.
		w.put("(WITH RECURSIVE u(c,n) AS (SELECT c,0 FROM JSON_TABLE('[\"\"]','$[*]' COLUMNS (c " + name + " PATH '$')) q UNION ALL SELECT ")
		w.bytes(v)
		w.put(",1 FROM u WHERE n=0) SELECT JSON_EXTRACT(JSON_ARRAY(c),'$[0]') FROM u WHERE n=1)")
		return nil
	case typeBit:
		if len(v) == 0 || len(v) > 8 {
			return errJSON
		}
		var bits uint64
		for _, x := range v {
			bits = bits<<8 | uint64(x)
		}
		w.put(fmt.Sprintf("(SELECT c FROM JSON_TABLE('[%d]','$[*]' COLUMNS (c BIT(%d) PATH '$')) q)", bits, 8*len(v)))
		return nil
	}
	return unwritable(fmt.Sprintf("a JSON document holds a value of MySQL type %d, which no SQL expression makes again: seed the landing again by clone when it is gone", kind))
}

func (w *jsonWriter) bytes(v []byte) {
	w.put("_binary'")
	w.out = append(appendEscaped(w.out, v), '\'')
}

// temporal writes a date or time: eight bytes as in memory, the last 24 bits microseconds.
func (w *jsonWriter) temporal(kind byte, v []byte) error {
	if len(v) != 8 {
		return errJSON
	}
	p := int64(binary.LittleEndian.Uint64(v))
	switch kind {
	case 11, typeTime2:
		w.put("CAST('")
		w.out = appendPackedTime(w.out, p, 6)
		w.put("' AS TIME(6))")
	case 10:
		ymd := int(p >> 41)
		w.put("CAST('")
		w.out = appendDate(w.out, (ymd>>5)/13, (ymd>>5)%13, ymd&31)
		w.put("' AS DATE)")
	case 7, typeTimestamp2:
		w.put(`(SELECT c FROM JSON_TABLE('["`)
		w.out = appendPackedDatetime(w.out, p, 6)
		w.put(`"]','$[*]' COLUMNS (c TIMESTAMP(6) PATH '$')) q)`)
	default:
		w.put("CAST('")
		w.out = appendPackedDatetime(w.out, p, 6)
		w.put("' AS DATETIME(6))")
	}
	return nil
}
