package diff

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

// sameTables makes sure that every side has the tables of s, no others, and each with the
// same columns and key. A table that only the target has would otherwise not be
// looked at, and a column more would be a difference in every row, or none.
//
// It asks only what comparing rests on; whether indexes or defaults agree is for others.
func sameTables(ctx context.Context, source Side, targets []Side, s *schema.Schema) error {
	sides := append([]Side{source}, targets...)
	found := make([][]string, len(sides))
	g, ctx := errgroup.WithContext(ctx)
	for i, side := range sides {
		g.Go(func() error {
			have, err := schema.Read(ctx, side.Conns[0], side.Database)
			if err != nil {
				return fmt.Errorf("%s: %w", side.Name, err)
			}
			found[i] = unlike(s, have)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, lines := range found {
		if len(lines) == 0 {
			continue
		}
		more := ""
		if n := len(lines); n > 5 {
			more, lines = fmt.Sprintf(" (and %d more)", n-5), lines[:5]
		}
		return fmt.Errorf("%s, database %q: %w as the schema that was read before: %s%s: has there been DDL? bring both sides to one schema first",
			sides[i].Name, sides[i].Database, ErrSchema, strings.Join(lines, "; "), more)
	}
	return nil
}

func unlike(want, have *schema.Schema) []string {
	var out []string
	for _, t := range want.Tables {
		o := have.Table(t.Name)
		if o == nil {
			out = append(out, fmt.Sprintf("table %q is not there", t.Name))
			continue
		}
		index, _ := t.RowKey()
		a, b := shape(t, index), shape(o, index)
		for i := range max(len(a), len(b)) {
			x, y := "nothing", "nothing"
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			if x != y {
				out = append(out, fmt.Sprintf("table %q: found %s, expected %s", t.Name, y, x))
				break
			}
		}
	}
	for _, t := range have.Tables {
		if want.Table(t.Name) == nil {
			out = append(out, fmt.Sprintf("table %q is there and not expected", t.Name))
		}
	}
	return out
}

// shape is what the comparison of a table by an index rests on.
func shape(t *schema.Table, index string) []string {
	out := make([]string, 0, len(t.Columns)+1)
	for _, c := range t.Columns {
		out = append(out, fmt.Sprintf("column %q %s %s", c.Name, c.ColumnType, c.Collation))
	}
	parts, unique := t.PrimaryKey, true
	if index != "PRIMARY" {
		parts = nil
		for _, ix := range t.Indexes {
			if ix.Name == index {
				parts, unique = ix.Parts, ix.Unique
			}
		}
	}
	key := make([]string, len(parts))
	for i, p := range parts {
		// A row with NULL in the key is in no range of keys.
		c := t.Column(p.Column)
		key[i] = fmt.Sprintf("%s nullable=%t prefix=%d", p.Column, c == nil || c.Nullable, p.Prefix)
	}
	return append(out, fmt.Sprintf("key %q unique=%t %q", index, unique, key))
}
