package vindexes

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vterrors"

	querypb "vitess.io/vitess/go/vt/proto/query"
	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"
)

// hashSize is the length of Vitess' xxhash, in bytes.
const hashSize = 8

// putHash writes what Vitess' vindex xxhash maps the text to. It is little-endian there
// (vindexes/xxhash.go of vitess.io/vitess), whatever one would expect of a keyspace id.
func putHash(into, text []byte) {
	binary.LittleEndian.PutUint64(into, xxhash.Sum64(text))
}

// results is room for n destinations and for their keyspace ids, size bytes each. Both belong
// to the caller of Map. One allocation does for one id, which is what most queries have.
func results(n, size int) ([]key.ShardDestination, []byte) {
	if n == 1 {
		one := new(struct {
			out  [1]key.ShardDestination
			ksid [prefixSize + hashSize]byte
		})
		return one.out[:], one.ksid[:size]
	}
	return make([]key.ShardDestination, n), make([]byte, n*size)
}

// ksidAt is the i-th keyspace id's place; appending to it does not reach the next one's.
func ksidAt(ksids []byte, i, size int) []byte { return ksids[i*size : (i+1)*size : (i+1)*size] }

// kind is what a value's type lets it be.
type kind uint8

const (
	refused kind = iota
	number
	text
)

// kindOf sorts the types. Types whose text is not what a client would call the value's (hex
// and bit literals, dates, enums, JSON) are refused, not guessed at. Decimals and floats are
// numbers because some drivers send every number of theirs as one; their text must still be
// digits only.
func kindOf(t querypb.Type) kind {
	switch t {
	case sqltypes.Int64, sqltypes.Uint64, sqltypes.Int32, sqltypes.Uint32, sqltypes.Int24, sqltypes.Uint24,
		sqltypes.Int16, sqltypes.Uint16, sqltypes.Int8, sqltypes.Uint8,
		sqltypes.Decimal, sqltypes.Float64, sqltypes.Float32:
		return number
	case sqltypes.VarChar, sqltypes.VarBinary, sqltypes.Char, sqltypes.Binary, sqltypes.Text, sqltypes.Blob:
		return text
	}
	return refused
}

// decimalDigits is how many digits any uint64 has at most; one less never overflows.
const decimalDigits = 20

// parseDecimal reads a number from 0 to 2^64-1, written in decimal digits only. Leading
// zeros are padding.
func parseDecimal(raw []byte) (n uint64, ok bool) {
	if len(raw) == 0 || len(raw) >= decimalDigits {
		return parseLong(raw)
	}
	for _, c := range raw {
		digit := uint64(c - '0')
		if digit > 9 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// parseLong is parseDecimal of a text that could be above 2^64-1.
func parseLong(raw []byte) (n uint64, ok bool) {
	for len(raw) > 1 && raw[0] == '0' {
		raw = raw[1:]
	}
	if !isCanonical(raw) {
		return 0, false
	}
	for _, c := range raw {
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// isCanonical reports whether the text is a number from 0 to 2^64-1 as it would be printed:
// no sign, no leading zero.
func isCanonical(raw []byte) bool {
	if len(raw) == 0 || len(raw) > decimalDigits || (raw[0] == '0' && len(raw) > 1) {
		return false
	}
	for _, c := range raw {
		if c-'0' > 9 {
			return false
		}
	}
	return len(raw) < decimalDigits || string(raw) <= "18446744073709551615"
}

// shownBytes bounds how much of a value is put into an error.
const shownBytes = 40

// refuse is the error for a value that a vindex does not take.
func refuse(vindex string, id sqltypes.Value, expected string) error {
	refusedValues.Add([]string{vindex}, 1)
	shown := id.RawStr()
	if len(shown) > shownBytes {
		shown = shown[:shownBytes] + "…"
	}
	return vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "vindex %s: found %s %q, expected %s", vindex, strings.ToLower(id.Type().String()), shown, expected)
}

// checkKsids is the error of a Verify that is given fewer or more keyspace ids than values.
func checkKsids(vindex string, ids []sqltypes.Value, ksids [][]byte) error {
	if len(ids) == len(ksids) {
		return nil
	}
	return vterrors.Errorf(vtrpcpb.Code_INTERNAL, "vindex %s: found %d keyspace ids for %d values, expected one for each", vindex, len(ksids), len(ids))
}
