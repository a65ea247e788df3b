package diff

import (
	"context"
	"slices"
)

// columnsFor is for how many changed rows of a target the differing columns are named.
const columnsFor = 100

// pairs matches the rows of a range by their exact keys.
func pairs(l leafRange) (changed, onlySource, onlyTarget []row) {
	byKey := make(map[string]*row, len(l.target))
	for i := range l.target {
		byKey[l.target[i].key.id()] = &l.target[i]
	}
	for _, s := range l.source {
		id := s.key.id()
		o := byKey[id]
		delete(byKey, id)
		switch {
		case o == nil:
			onlySource = append(onlySource, s)
		case o.hash != s.hash:
			changed = append(changed, s)
		}
	}
	for _, o := range l.target {
		if byKey[o.key.id()] != nil {
			onlyTarget = append(onlyTarget, o)
		}
	}
	return changed, onlySource, onlyTarget
}

func keysOf(rows []row) []keyValue {
	out := make([]keyValue, len(rows))
	for i := range rows {
		out[i] = rows[i].key
	}
	return out
}

// confirm records the differences of a small range, each once.
//
// Where a key can be spelled in more than one way (a collation, -0), a row that seems to be
// on one side only may be on the other under another spelling, or, should the two servers'
// collations put it elsewhere, in another range. So the other side is asked for it by the
// key itself. A pair found in this way is recorded from the source's end only: the target's
// end would find the same pair again, maybe in another range and by another worker.
func (e *engine) confirm(ctx context.Context, w *worker, t *table, target int, l leafRange) error {
	changed, onlySource, onlyTarget := pairs(l)
	if t.loose || l.window {
		there, err := w.targets[target].lookup(ctx, t, keysOf(onlySource), l.wide)
		if err != nil {
			return err
		}
		here, err := w.source.lookup(ctx, t, keysOf(onlyTarget), l.wide)
		if err != nil {
			return err
		}
		var missing, extra []row
		for i, s := range onlySource {
			switch o := there[i]; {
			case o == nil:
				missing = append(missing, s)
			case o.hash != s.hash: // the key's spelling is part of the hash
				changed = append(changed, s)
			}
		}
		known := map[string]bool{}
		for _, s := range l.source {
			known[s.key.id()] = true
		}
		for i, o := range onlyTarget {
			switch s := here[i]; {
			case s == nil:
				extra = append(extra, o)
			case l.window && s.hash != o.hash && !known[s.key.id()]:
				changed = append(changed, *s)
			}
		}
		onlySource, onlyTarget = missing, extra
	}
	for _, s := range changed {
		d := Difference{Table: t.Name, Key: s.show, Kind: Changed}
		if e.nameColumns(target) {
			var err error
			if d.Columns, err = changedColumns(ctx, w, t, target, s.key); err != nil {
				return err
			}
		}
		e.record(target, d)
	}
	for _, s := range onlySource {
		e.record(target, Difference{Table: t.Name, Key: s.show, Kind: Missing})
	}
	for _, o := range onlyTarget {
		e.record(target, Difference{Table: t.Name, Key: o.show, Kind: Extra})
	}
	return nil
}

// changedColumns names the columns that differ in a row.
func changedColumns(ctx context.Context, w *worker, t *table, target int, key keyValue) ([]string, error) {
	a, err := w.source.columns(ctx, t, key)
	if err != nil {
		return nil, ignoreTooLarge(err)
	}
	b, err := w.targets[target].columns(ctx, t, key)
	if err = ignoreTooLarge(err); err != nil || len(a) != len(t.Columns) || len(b) != len(a) || slices.Equal(a, b) {
		return nil, err
	}
	var out []string
	for i := range a {
		if a[i] != b[i] {
			out = append(out, t.Columns[i].Name)
		}
	}
	return out, nil
}

// ignoreTooLarge: names of columns are a help, not the finding.
func ignoreTooLarge(err error) error {
	if tooLarge(err) {
		return nil
	}
	return err
}
