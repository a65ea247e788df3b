package diff

import (
	"context"
	"fmt"

	"github.com/vifl/vifl/pkg/schema"
)

// Recheck reads the rows of differences again, by their keys, on the source and on one target,
// and reports those that still differ, with the values they have now. Both sides must be at
// one instant, as for Compare.
func Recheck(ctx context.Context, source, target Side, s *schema.Schema, list []Difference) (*TargetReport, error) {
	e, err := newEngine(ctx, source, []Side{target}, s, Options{MaxListed: max(len(list), 1)}, nil)
	if err != nil {
		return nil, err
	}
	if err := sameTables(ctx, source, e.targets, s); err != nil {
		return nil, err
	}
	for _, t := range e.tables {
		var keys []keyValue
		for _, d := range list {
			if d.Table == t.Name && len(t.key) == 0 {
				return nil, fmt.Errorf("read rows of table %q again: %w", t.Name, errNoKey)
			}
			if d.Table == t.Name && d.key != nil {
				keys = append(keys, d.key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		err := e.recheckRows(ctx, t.table, keys, false)
		if err != nil && tooLarge(err) {
			err = e.recheckRows(ctx, t.table, keys, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return &e.report().Targets[0], nil
}

func (e *engine) recheckRows(ctx context.Context, t *table, keys []keyValue, wide bool) error {
	w := e.workers[0]
	// Some rows are not all of a range: what one side lacks here may have its key there in
	// another spelling.
	l := leafRange{wide: wide, window: true}
	for _, side := range []struct {
		r    *reader
		into *[]row
	}{{w.source, &l.source}, {w.targets[0], &l.target}} {
		found, err := side.r.lookup(ctx, t, keys, wide)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, r := range found {
			if r != nil && !seen[r.key.id()] {
				seen[r.key.id()] = true
				*side.into = append(*side.into, *r)
			}
		}
	}
	return e.confirm(ctx, w, t, 0, l)
}
