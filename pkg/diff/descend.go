package diff

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxDepth bounds the cutting of a range. With 16 parts each it is never reached on sides
// at rest; on sides that are written meanwhile a range may grow while it is cut.
const maxDepth = 40

func allTargets(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// sums computes the checksum of one range on the source and on some targets, all at once.
// When some side cannot hash some row in the usual form, all use the wide one: sums of
// different forms never meet. The caller has waited for its turn (pace).
func (e *engine) sums(ctx context.Context, w *worker, t *table, where string, targets []int) ([]sum, bool, error) {
	start := time.Now()
	wide := false
	out, err := sumsOf(ctx, w, t, where, targets, false)
	if err != nil && tooLarge(err) {
		wide = true
		out, err = sumsOf(ctx, w, t, where, targets, true)
	}
	if err == nil {
		e.pace.after(start, out[0].rows)
	}
	return out, wide, err
}

func sumsOf(ctx context.Context, w *worker, t *table, where string, targets []int, wide bool) ([]sum, error) {
	out := make([]sum, 1+len(targets))
	// No shared cancel: to cancel a statement the driver closes its connection, and with it
	// the snapshot, which the wide form still needs.
	var g errgroup.Group
	g.Go(func() (err error) {
		out[0], err = w.source.sum(ctx, t, where, wide)
		return err
	})
	for i, target := range targets {
		g.Go(func() (err error) {
			out[1+i], err = w.targets[target].sum(ctx, t, where, wide)
			return err
		})
	}
	return out, g.Wait()
}

// descend cuts a range that differs between the source and one target until it is small
// enough to be listed. Its parts end at keys of the side that has more rows there: parts by
// the source's keys would never get smaller where the target has a million rows in a hole.
func (e *engine) descend(ctx context.Context, w *worker, t *table, target int, lo, hi keyValue, source, other uint64, wide bool, depth int) error {
	n := max(source, other)
	leaf := max(min(leafRows, e.o.MaxChunkRows/4), 1)
	if n <= uint64(leaf) || depth >= maxDepth {
		return e.list(ctx, w, t, target, lo, hi, wide)
	}
	step := max(leaf, int((n+fanOut-1)/fanOut))
	by := w.source
	if other > source {
		by = w.targets[target]
	}
	for pos := lo; ; {
		end, err := by.bound(ctx, t, pos, hi, step)
		if err != nil {
			return err
		}
		if end == nil {
			end = hi
		}
		if err := e.pace.before(ctx, e.say); err != nil {
			return err
		}
		sums, wide, err := e.sums(ctx, w, t, between(t.key, pos, end), []int{target})
		if err != nil {
			return err
		}
		if sums[0] != sums[1] {
			if err := e.descend(ctx, w, t, target, pos, end, sums[0].rows, sums[1].rows, wide, depth+1); err != nil {
				return err
			}
		}
		if end == nil || (hi != nil && end.id() == hi.id()) {
			return nil
		}
		pos = end
	}
}

// list reads the rows of a small range on both sides and hands them to the leaf. The leaf
// records nothing before it has read all that it needs, so it may be called once more when
// some row turns out to need the wide form.
func (e *engine) list(ctx context.Context, w *worker, t *table, target int, lo, hi keyValue, wide bool) error {
	if err := e.pace.before(ctx, e.say); err != nil {
		return err
	}
	start := time.Now()
	l, err := listBoth(ctx, w, t, target, between(t.key, lo, hi), wide)
	if err == nil {
		e.pace.after(start, uint64(len(l.source)))
		err = e.leaf(ctx, w, t, target, l)
	}
	if err != nil && !wide && tooLarge(err) {
		return e.list(ctx, w, t, target, lo, hi, true)
	}
	return err
}

func listBoth(ctx context.Context, w *worker, t *table, target int, where string, wide bool) (leafRange, error) {
	l := leafRange{wide: wide}
	r := w.targets[target]
	var g errgroup.Group
	g.Go(func() (err error) {
		l.source, err = w.source.list(ctx, t, t.listSQL(w.source.database, where, wide))
		return err
	})
	g.Go(func() (err error) {
		l.target, err = r.list(ctx, t, t.listSQL(r.database, where, wide))
		return err
	})
	return l, g.Wait()
}
