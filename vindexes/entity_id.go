package vindexes

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"strings"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"
)

func init() { vtvindexes.Register("entity_id", newEntityID) }

var (
	_ vtvindexes.SingleColumn    = (*entityID)(nil)
	_ vtvindexes.Hashing         = (*entityID)(nil)
	_ vtvindexes.ParamValidating = (*entityID)(nil)
)

const paramPrefixes = "prefixes"

// entityExpected says what entity_id takes, in errors.
const entityExpected = "an id from 0 to 18446744073709551615 in decimal digits without leading zeros, or its public form such as C024BE91L (a letter, then base 36 in capitals)"

// entityID maps an entity's number, or its public form, to the 8 bytes that Vitess' vindex
// xxhash gives the number in decimal.
//
// The public form is a capital letter, which says what the entity is, and the number in base
// 36, in capitals and often padded with zeros: C024BE91L is number 4614570057.
//
// A number written with leading zeros is refused. It could be taken as the number, and
// mostly should; but a text column that holds '007' and was sharded by xxhash has its row
// where the hash of '007' is. Under entity_id that row would be looked for where 7 is, and
// not be found; a refusal is seen.
//
// Lower case is refused too: if it were taken, any word would be an id.
type entityID struct {
	name     string
	prefixes [26]bool // by letter
	unknown  []string
}

// newEntityID makes an entity_id. The parameter prefixes (default: all of A to Z) lists the
// letters that public forms begin with.
func newEntityID(name string, params map[string]string) (vtvindexes.Vindex, error) {
	v := &entityID{name: name, unknown: vtvindexes.FindUnknownParams(params, []string{paramPrefixes})}
	prefixes, given := params[paramPrefixes]
	if !given {
		prefixes = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	}
	for _, r := range prefixes {
		if r < 'A' || r > 'Z' {
			return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "vindex %s: %s: found %q in %q, expected letters from A to Z, such as CDGTUW", name, paramPrefixes, r, prefixes)
		}
		v.prefixes[r-'A'] = true
	}
	if prefixes == "" {
		return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "vindex %s: %s is empty: expected letters from A to Z, such as CDGTUW, or no such parameter", name, paramPrefixes)
	}
	return v, nil
}

// String is the name that the vschema gives the vindex.
func (v *entityID) String() string { return v.name }

// Cost is that of a hash.
func (v *entityID) Cost() int { return 1 }

// IsUnique: an id has one keyspace id.
func (v *entityID) IsUnique() bool { return true }

// NeedsVCursor: nothing is looked up, so tablets can use it.
func (v *entityID) NeedsVCursor() bool { return false }

// UnknownParams are the parameters that were given and mean nothing.
func (v *entityID) UnknownParams() []string { return v.unknown }

// Map is the keyspace id of each id; NULL has none.
func (v *entityID) Map(_ context.Context, _ vtvindexes.VCursor, ids []sqltypes.Value) ([]key.ShardDestination, error) {
	out, ksids := results(len(ids), hashSize)
	for i, id := range ids {
		if id.IsNull() {
			out[i] = key.DestinationNone{}
			continue
		}
		ksid := ksidAt(ksids, i, hashSize)
		if err := v.hash(ksid, id); err != nil {
			return nil, err
		}
		out[i] = key.DestinationKeyspaceID(ksid)
	}
	return out, nil
}

// Verify reports of each id whether the keyspace id is its own.
func (v *entityID) Verify(_ context.Context, _ vtvindexes.VCursor, ids []sqltypes.Value, ksids [][]byte) ([]bool, error) {
	if err := checkKsids(v.name, ids, ksids); err != nil {
		return nil, err
	}
	out := make([]bool, len(ids))
	for i, id := range ids {
		if id.IsNull() {
			continue
		}
		var own [hashSize]byte
		if err := v.hash(own[:], id); err != nil {
			return nil, err
		}
		out[i] = bytes.Equal(own[:], ksids[i])
	}
	return out, nil
}

// Hash is the keyspace id of one id, for Vitess' multicol. NULL is an error there.
func (v *entityID) Hash(id sqltypes.Value) ([]byte, error) {
	if id.IsNull() {
		return nil, refuse(v.name, id, entityExpected)
	}
	ksid := make([]byte, hashSize)
	return ksid, v.hash(ksid, id)
}

// hash writes the keyspace id of an id that is not NULL.
func (v *entityID) hash(into []byte, id sqltypes.Value) error {
	raw := id.Raw()
	switch kindOf(id.Type()) {
	case number:
		if isCanonical(raw) {
			putHash(into, raw)
			return nil
		}
	case text:
		if isCanonical(raw) {
			putHash(into, raw)
			return nil
		}
		if n, ok := v.parsePublic(raw); ok {
			var buf [decimalDigits]byte
			putHash(into, strconv.AppendUint(buf[:0], n, 10))
			return nil
		}
	}
	return refuse(v.name, id, v.expected())
}

func (v *entityID) expected() string {
	var letters strings.Builder
	for i, allowed := range v.prefixes {
		if allowed {
			letters.WriteByte(byte('A' + i))
		}
	}
	if letters.Len() == len(v.prefixes) {
		return entityExpected
	}
	return entityExpected + "; the letter one of " + letters.String()
}

// base36Safe is how many digits of base 36 never overflow a uint64.
const base36Safe = 12

// parsePublic reads a public form: an allowed letter, then base 36 in capitals.
func (v *entityID) parsePublic(raw []byte) (n uint64, ok bool) {
	if len(raw) < 2 || raw[0]-'A' > 'Z'-'A' || !v.prefixes[raw[0]-'A'] {
		return 0, false
	}
	for i, c := range raw[1:] {
		var digit uint64
		switch {
		case c-'0' <= 9:
			digit = uint64(c - '0')
		case c-'A' <= 'Z'-'A':
			digit = uint64(c-'A') + 10
		default:
			return 0, false
		}
		if i >= base36Safe && n > (math.MaxUint64-digit)/36 {
			return 0, false
		}
		n = n*36 + digit
	}
	return n, true
}
