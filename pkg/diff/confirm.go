package diff

import "context"

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
	found := make([]Difference, 0, len(changed)+len(onlySource)+len(onlyTarget))
	for _, part := range []struct {
		kind Kind
		rows []row
	}{{Changed, changed}, {Missing, onlySource}, {Extra, onlyTarget}} {
		for _, r := range part.rows {
			found = append(found, Difference{Table: t.Name, Key: r.show, Kind: part.kind, key: r.key})
		}
	}
	if err := e.readValues(ctx, w, t, target, found); err != nil {
		return err
	}
	for _, d := range found {
		e.record(target, d)
	}
	return nil
}

// readValues fills in the columns of those differences that will still be listed.
func (e *engine) readValues(ctx context.Context, w *worker, t *table, target int, found []Difference) error {
	listed := found[:min(len(found), e.room(target))]
	var onSource, onTarget []keyValue
	for _, d := range listed {
		if d.Kind != Extra {
			onSource = append(onSource, d.key)
		}
		if d.Kind != Missing {
			onTarget = append(onTarget, d.key)
		}
	}
	source, err := w.source.cells(ctx, t, onSource, false)
	if err != nil {
		return err
	}
	other, err := w.targets[target].cells(ctx, t, onTarget, false)
	if err != nil {
		return err
	}
	for i := range listed {
		var a, b []cell
		if listed[i].Kind != Extra {
			a, source = source[0], source[1:]
		}
		if listed[i].Kind != Missing {
			b, other = other[0], other[1:]
		}
		listed[i].Columns = t.columnDifferences(a, b)
	}
	return nil
}
