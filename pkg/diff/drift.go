package diff

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

const (
	// driftRounds is how often keys that differ are read again after both sides have applied
	// each other's writes. One would do, were no row written while it is read.
	driftRounds = 6
	// driftReads and driftPause: a row that is written all the time is never read at one
	// instant on both sides. Read a few times, it shows on one side a value that the other
	// had as well; a row that drifted does not.
	driftReads = 5
	driftPause = 20 * time.Millisecond
	// driftChase is how long rows that moved while they were read are read on without a
	// pause: one that is written every millisecond, and lags by more than that, is else never
	// seen with the same value on both sides.
	driftChase = 2 * time.Second
	// maxSuspects bounds the keys held in memory.
	maxSuspects = 100_000
)

// Drift compares b with a while both take writes and replicate from each other. No single
// instant exists, so keys that differ are read again after settle, which returns when each
// side has applied what the other had written when it was called. What still differs after
// a few rounds is drift: Missing is on a only, Extra on b only.
//
// It uses `parallel` connections of each pool. Rows and sums of the report are of moving
// tables and only tell the size. When so many keys differ at first that not all can be
// held and read again, and none of those held turns out to be drift, it is an error. Tables
// without a key are not compared; the report names them.
func Drift(ctx context.Context, a, b Pool, s *schema.Schema, parallel int, o Options, settle func(context.Context) error, progress func(Progress)) (*Report, error) {
	sides, closeAll, err := openPools(ctx, []Pool{a, b}, parallel)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	e, err := newEngine(ctx, sides[0], sides[1:], s, o, progress)
	if err != nil {
		return nil, err
	}
	if err := sameTables(ctx, sides[0], sides[1:], s); err != nil {
		return nil, err
	}
	// A row without a key cannot be read again while it is written, only counted, and what is
	// counted at two instants proves nothing.
	var keyed []*tableWalk
	var skipped []string
	for _, t := range e.tables {
		if len(t.key) > 0 {
			keyed = append(keyed, t)
		} else {
			skipped = append(skipped, t.Name)
		}
	}
	e.tables = keyed
	var found suspects
	e.leaf = found.collect
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	rechecked := uint64(len(found.list)) + found.beyond
	left, err := e.settled(ctx, found.list, settle)
	if err != nil {
		return nil, err
	}
	if err := e.recordDrift(ctx, left); err != nil {
		return nil, err
	}
	if found.beyond > 0 {
		if len(left) == 0 {
			return nil, fmt.Errorf("compare %s with %s: %d keys differed at first, more than the %d that can be read again, and none of these is drift: try again when there is less traffic", b.Name, a.Name, rechecked, maxSuspects)
		}
		e.found[0].differing += found.beyond
	}
	r := e.report()
	r.Rechecked, r.NotCompared = rechecked, skipped
	return r, nil
}

// settled reads suspects again after each side has applied the other's writes, and keeps
// those that drifted.
func (e *engine) settled(ctx context.Context, left []*suspect, settle func(context.Context) error) (_ []*suspect, err error) {
	for round := 0; round < driftRounds && len(left) > 0; round++ {
		if err := settle(ctx); err != nil {
			return nil, fmt.Errorf("compare %s with %s: wait until each has applied the other's writes: %w", e.targets[0].Name, e.source.Name, err)
		}
		if left, err = e.recheck(ctx, left); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// suspect is a key that differed when its chunk was read.
type suspect struct {
	t   *table
	key keyValue
	// a and b are the values seen on each side so far; the zero hash is "no row". They are
	// kept over the rounds: a row written every few hundred milliseconds, with a replica
	// that lags a little, shows value n on the one side and n-1 on the other in every single
	// round, but what b showed before a settling is what a shows behind it.
	a, b map[hash]bool
	// lastA and lastB are what was read last.
	lastA, lastB *row
}

func newSuspect(t *table, key keyValue) *suspect {
	return &suspect{t: t, key: key, a: map[hash]bool{}, b: map[hash]bool{}}
}

// suspects gathers keys that differ.
type suspects struct {
	mu     sync.Mutex
	list   []*suspect
	beyond uint64
}

// collect is the leaf of Drift.
func (s *suspects) collect(_ context.Context, _ *worker, t *table, _ int, l leafRange) error {
	changed, onlyA, onlyB := pairs(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rows := range [][]row{changed, onlyA, onlyB} {
		for _, r := range rows {
			if len(s.list) >= maxSuspects {
				s.beyond++
				continue
			}
			s.list = append(s.list, newSuspect(t, r.key))
		}
	}
	return nil
}

// recheck reads suspects on both sides and keeps those that no reading explains.
func (e *engine) recheck(ctx context.Context, list []*suspect) ([]*suspect, error) {
	var err error
	for read := 0; read < driftReads && len(list) > 0; read++ {
		if read > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(driftPause):
			}
		}
		if list, err = e.reread(ctx, list); err != nil {
			return nil, err
		}
	}
	var still, moving []*suspect
	for _, s := range list {
		if len(s.a) > 1 || len(s.b) > 1 {
			moving = append(moving, s)
		} else {
			still = append(still, s)
		}
	}
	for until := time.Now().Add(driftChase); len(moving) > 0 && time.Now().Before(until); {
		if moving, err = e.reread(ctx, moving); err != nil {
			return nil, err
		}
	}
	return append(still, moving...), nil
}

// reread reads suspects once more and keeps those whose sides have not met.
func (e *engine) reread(ctx context.Context, list []*suspect) ([]*suspect, error) {
	if err := e.readSuspects(ctx, list); err != nil {
		return nil, err
	}
	var left []*suspect
	for _, s := range list {
		if !s.met() {
			left = append(left, s)
		}
	}
	return left, nil
}

// met reports that both sides have shown one value.
func (s *suspect) met() bool {
	for h := range s.a {
		if s.b[h] {
			return true
		}
	}
	return false
}

// readSuspects reads all of the list once on both sides, the workers sharing it.
func (e *engine) readSuspects(ctx context.Context, list []*suspect) error {
	const batch = 200
	var parts [][]*suspect
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && to-from < batch && list[to].t == list[from].t {
			to++
		}
		parts = append(parts, list[from:to])
		from = to
	}
	queue := make(chan []*suspect, len(parts))
	for _, p := range parts {
		queue <- p
	}
	close(queue)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range e.workers {
		g.Go(func() error {
			for part := range queue {
				err := readPart(ctx, w, part, false)
				if err != nil && tooLarge(err) {
					err = readPart(ctx, w, part, true)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func readPart(ctx context.Context, w *worker, part []*suspect, wide bool) error {
	keys := make([]keyValue, len(part))
	for i, s := range part {
		keys[i] = s.key
	}
	var a, b []*row
	var g errgroup.Group
	g.Go(func() (err error) { a, err = w.source.lookup(ctx, part[0].t, keys, wide); return err })
	g.Go(func() (err error) { b, err = w.targets[0].lookup(ctx, part[0].t, keys, wide); return err })
	if err := g.Wait(); err != nil {
		return err
	}
	value := func(r *row) hash {
		if r == nil {
			return hash{}
		}
		return r.hash
	}
	for i, s := range part {
		s.lastA, s.lastB = a[i], b[i]
		s.a[value(a[i])], s.b[value(b[i])] = true, true
	}
	return nil
}

// recordDrift records what is left. A row whose key is spelled differently on the sides was
// suspected under both spellings, and is recorded under a's. The values shown are those of a
// later reading; of a row that is written meanwhile they may be newer than what differed.
// What was accepted is told by one more reading: a pair is let through only if both rows are
// those of the acceptance then.
func (e *engine) recordDrift(ctx context.Context, left []*suspect) error {
	seen := map[string]bool{}
	found, tables := map[*table][]Difference{}, []*table{}
	for _, s := range left {
		d := Difference{Table: s.t.Name}
		var r *row
		switch {
		case s.lastA == nil && s.lastB == nil:
			continue // gone from both since
		case s.lastA == nil:
			r, d.Kind = s.lastB, Extra
		case s.lastB == nil:
			r, d.Kind = s.lastA, Missing
		default:
			r, d.Kind = s.lastA, Changed
		}
		id := s.t.Name + "\x00" + r.key.id()
		if seen[id] {
			continue
		}
		seen[id] = true
		d.Key, d.key = r.show, r.key
		if found[s.t] == nil {
			tables = append(tables, s.t)
		}
		found[s.t] = append(found[s.t], d)
	}
	for _, t := range tables {
		if err := e.readValues(ctx, e.workers[0], t, 0, found[t]); err != nil {
			return err
		}
		now, err := e.pairsNow(ctx, t, found[t])
		if err != nil {
			return err
		}
		for i, d := range found[t] {
			d.Pair = now[i]
			d.NewerBy, d.Newer = newer(t.Table, d.Columns)
			if slices.Contains(e.o.Accepted, d.Pair) {
				e.accepted = append(e.accepted, d)
				continue
			}
			e.record(0, d)
		}
	}
	return nil
}
