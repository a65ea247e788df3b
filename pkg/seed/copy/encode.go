package copy

import (
	"database/sql/driver"
	"fmt"
	"strconv"
)

// encode appends one row in LOAD DATA's format. The values are as the driver reads them
// from a text result: numbers of the integer and floating types as such, the rest as bytes.
func encode(buf []byte, row []driver.Value, years []bool) ([]byte, error) {
	for i, v := range row {
		if i > 0 {
			buf = append(buf, '\t')
		}
		switch v := v.(type) {
		case nil:
			buf = append(buf, '\\', 'N')
		case []byte:
			buf = escape(buf, v)
		case int64:
			if years[i] {
				if v < 1000 {
					buf = append(buf, "0000"[:4-len(strconv.FormatInt(v, 10))]...)
				}
			}
			buf = strconv.AppendInt(buf, v, 10)
		case uint64:
			buf = strconv.AppendUint(buf, v, 10)
		case float64:
			// The shortest text that reads as the same number, here and on the server.
			buf = strconv.AppendFloat(buf, v, 'g', -1, 64)
		default:
			return buf, fmt.Errorf("column %d: the driver gave a %T", i+1, v)
		}
	}
	return append(buf, '\n'), nil
}

// special are the bytes that LOAD DATA would take for something else.
var special = [256]byte{'\\': '\\', '\t': 't', '\n': 'n', 0: '0'}

func escape(buf, v []byte) []byte {
	start := 0
	for i, c := range v {
		if e := special[c]; e != 0 {
			buf = append(buf, v[start:i]...)
			buf = append(buf, '\\', e)
			start = i + 1
		}
	}
	return append(buf, v[start:]...)
}
