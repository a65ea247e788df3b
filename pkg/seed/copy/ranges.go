package copy

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"

	"github.com/vifl/vifl/pkg/schema"
)

// maxRanges bounds the pieces of one table; more of them only add statements.
const maxRanges = 64

var integerTypes = map[string]bool{"tinyint": true, "smallint": true, "mediumint": true, "int": true, "bigint": true}

// keyRanges cuts a big table into WHERE clauses that cover every row once. Only a primary
// key that begins with an integer is cut: for other types a bound written as a literal is
// not always compared in the order of the key (an ENUM's text, a number in a VARCHAR). Such
// a table is read by one connection, and still loaded by all.
//
// The ranges are equally wide, not equally full; as there are several for each connection,
// the work evens out.
func (f *fill) keyRanges(ctx context.Context, t *table) ([]string, error) {
	whole := []string{""}
	n := t.Rows / f.o.RangeRows
	if n < 2 || len(t.PrimaryKey) == 0 {
		return whole, nil
	}
	c := t.Column(t.PrimaryKey[0].Column)
	if c == nil || !integerTypes[c.Type] || c.Generated != "" {
		return whole, nil
	}
	name := schema.Quote(c.Name)
	var lo, hi sql.NullString
	q := "SELECT CAST(MIN(" + name + ") AS CHAR), CAST(MAX(" + name + ") AS CHAR) FROM " + schema.Quote(f.src.Database) + "." + schema.Quote(t.Name)
	if err := f.src.Snapshots[0].QueryRowContext(ctx, q).Scan(&lo, &hi); err != nil {
		return nil, err
	}
	first, ok1 := new(big.Int).SetString(lo.String, 10)
	last, ok2 := new(big.Int).SetString(hi.String, 10)
	if !ok1 || !ok2 {
		return whole, nil // no rows
	}
	span := new(big.Int).Sub(last, first)
	if n > maxRanges {
		n = maxRanges
	}
	step := span.Div(span, new(big.Int).SetUint64(n))
	if step.Sign() == 0 {
		return whole, nil
	}
	// The first range has no lower and the last no upper bound: what MIN and MAX say is not
	// needed to be right for every row to be read once.
	var ranges []string
	at := new(big.Int).Set(first)
	for i := uint64(0); i < n; i++ {
		next := new(big.Int).Add(at, step)
		switch {
		case i == 0:
			ranges = append(ranges, fmt.Sprintf("%s < %s", name, next))
		case i == n-1:
			ranges = append(ranges, fmt.Sprintf("%s >= %s", name, at))
		default:
			ranges = append(ranges, fmt.Sprintf("%s >= %s AND %s < %s", name, at, name, next))
		}
		at = next
	}
	return ranges, nil
}
