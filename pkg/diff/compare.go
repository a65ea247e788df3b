package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

// Options bound a comparison. The zero value is good for production.
type Options struct {
	// ChunkRows is the size of a table's first chunk; later ones follow ChunkTime. Default
	// 1,000, less for tables of long rows.
	ChunkRows int
	// MinChunkRows and MaxChunkRows bound the size of chunks. Defaults 100 and 500,000.
	MinChunkRows, MaxChunkRows int
	// ChunkTime is how long one chunk's checksum should take: short enough for progress and
	// for a cancel to be felt, long enough that the statements' own cost vanishes. Default
	// half a second.
	ChunkTime time.Duration
	// MaxListed bounds the listed differences of each target; more are counted only. It
	// bounds memory too: a listed row holds its shortened values. Default 10,000.
	MaxListed int
	// Accepted are pairs of rows that Drift reports apart from those that differ, as long as
	// both rows are exactly these. Nothing else looks at them.
	Accepted []Pair
	// MaxRowsPerSecond bounds how many rows of the source are read in a second, all connections
	// together, over a few seconds; of each target as many are. 0 is no bound.
	MaxRowsPerSecond int
	// Watch is asked about once a second, by one goroutine at a time, whether the servers can
	// bear the comparison: while it gives a reason, nothing is read, and the reason is in the
	// progress. An error ends the comparison. It must not use the sides' connections. May be nil.
	Watch func(context.Context) (pause string, err error)

	matched int // see defaultMatched
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.MinChunkRows, 100)
	def(&o.MaxChunkRows, 500_000)
	def(&o.ChunkRows, 1000)
	def(&o.MaxListed, 10_000)
	def(&o.matched, defaultMatched)
	if o.MaxRowsPerSecond > 0 {
		o.MaxChunkRows = min(o.MaxChunkRows, o.MaxRowsPerSecond) // a chunk is read at once
	}
	o.MinChunkRows = min(o.MinChunkRows, o.MaxChunkRows)
	o.ChunkRows = min(max(o.ChunkRows, o.MinChunkRows), o.MaxChunkRows)
	if o.ChunkTime <= 0 {
		o.ChunkTime = 500 * time.Millisecond
	}
	return o
}

const (
	// leafRows: ranges of so many rows are listed rather than halved once more; listing
	// costs about as much as a checksum, and so few rows fit into memory many times over.
	leafRows = 1000
	// fanOut: a differing chunk is cut into so many parts. Two would read a chunk that
	// differs everywhere ten times over, sixteen read it three times.
	fanOut = 16
	// firstChunkBytes bounds the first chunk of a table of long rows, by the server's own
	// estimate.
	firstChunkBytes = 32 << 20
)

// ErrSchema is returned, wrapped, when the sides' tables do not have the same columns: there
// is nothing to compare row by row.
var ErrSchema = errors.New("the tables are not the same")

// Compare compares every table of s between the source and each target. The source's rows
// are hashed once, however many targets there are. It uses as many connections of each side
// at once as all of them have.
//
// It returns a report only when every row of every table has been compared on all sides;
// any error, a broken connection among them, ends the comparison without one. progress may
// be nil; it is called from several goroutines, one at a time.
func Compare(ctx context.Context, source Side, targets []Side, s *schema.Schema, o Options, progress func(Progress)) (*Report, error) {
	e, err := newEngine(ctx, source, targets, s, o, progress)
	if err != nil {
		return nil, err
	}
	if err := sameTables(ctx, source, targets, s); err != nil {
		return nil, err
	}
	e.leaf = e.confirm
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return e.report(), nil
}

// engine is one comparison.
type engine struct {
	o        Options
	source   Side
	targets  []Side
	workers  []*worker
	tables   []*tableWalk
	progress func(Progress)
	started  time.Time
	pace     pace
	// leaf is given the rows of a small range that differs, of the source and of one target.
	leaf func(ctx context.Context, w *worker, t *table, target int, l leafRange) error

	mu    sync.Mutex // found, done, rows, and calls of progress
	found []*collector
	// accepted are differences that were let through; Drift alone writes it, from one goroutine.
	accepted []Difference
	done     int
	rows     uint64
	paused   string
}

// leafRange is a small range with its rows on both sides.
type leafRange struct {
	source, target []row
	wide           bool
	// window: these are not all rows of a range, so that a row on one side only may well be
	// on the other.
	window bool
}

// worker owns one connection of every side.
type worker struct {
	source  *reader
	targets []*reader
}

// collector gathers the differences of one target. Its engine's mu guards it.
type collector struct {
	differing   uint64
	differences []Difference
	byTable     map[string]uint64
	atLeast     bool // differing and byTable are lower bounds
}

func newEngine(ctx context.Context, source Side, targets []Side, s *schema.Schema, o Options, progress func(Progress)) (*engine, error) {
	e := &engine{o: o.withDefaults(), source: source, targets: targets, progress: progress, started: time.Now()}
	e.pace = pace{rate: float64(o.MaxRowsPerSecond), watch: o.Watch, every: lookEvery}
	n := len(source.Conns)
	for i := range targets {
		n = min(n, len(targets[i].Conns))
		e.found = append(e.found, &collector{byTable: map[string]uint64{}})
	}
	if n == 0 || len(targets) == 0 {
		return nil, errors.New("compare: expected a source and at least one target, each with at least one connection")
	}
	if err := e.prepare(ctx, n); err != nil {
		return nil, err
	}
	for _, st := range s.Tables {
		t, err := newTable(st)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source.Name, err)
		}
		e.tables = append(e.tables, newTableWalk(t, e.o, len(targets)))
	}
	return e, nil
}

// prepare makes n workers.
func (e *engine) prepare(ctx context.Context, n int) error {
	sides := append([]Side{e.source}, e.targets...)
	readers := make([][]*reader, len(sides))
	g, ctx := errgroup.WithContext(ctx)
	for i := range sides {
		g.Go(func() (err error) {
			readers[i], err = sides[i].readers(ctx, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range n {
		w := &worker{source: readers[0][i]}
		for _, r := range readers[1:] {
			w.targets = append(w.targets, r[i])
		}
		e.workers = append(e.workers, w)
	}
	return nil
}

// run compares all tables, each worker walking chunk by chunk.
func (e *engine) run(ctx context.Context) error {
	// The largest first, so that no long one is left to the end with most workers idle.
	queue := slices.Clone(e.tables)
	slices.SortStableFunc(queue, func(a, b *tableWalk) int { return cmp.Compare(b.Bytes, a.Bytes) })
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range e.workers {
		g.Go(func() error {
			for {
				t := pick(queue)
				if t == nil {
					return nil
				}
				err := e.walk(ctx, w, t)
				t.leave()
				if err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, t := range e.tables {
		if !t.finished() { // a guard against a mistake here: what was not walked is not equal
			return fmt.Errorf("table %q was not compared to its end", t.Name)
		}
	}
	return nil
}

// walk compares chunks of a table until none is left.
func (e *engine) walk(ctx context.Context, w *worker, t *tableWalk) error {
	if len(t.key) == 0 {
		return e.walkUnkeyed(ctx, w, t)
	}
	for {
		lo, hi, ok, err := t.next(ctx, w.source)
		if err != nil || !ok {
			return err
		}
		if err := e.pace.before(ctx, e.say); err != nil {
			return err
		}
		start := time.Now() // behind the wait, which says nothing of the chunk's size
		sums, wide, err := e.sums(ctx, w, t.table, between(t.key, lo, hi), allTargets(len(w.targets)))
		if err != nil {
			return err
		}
		t.adapt(sums[0].rows, time.Since(start))
		for i := range w.targets {
			if sums[1+i] != sums[0] {
				if err := e.descend(ctx, w, t.table, i, lo, hi, sums[0].rows, sums[1+i].rows, wide, 0); err != nil {
					return err
				}
			}
		}
		last := t.add(sums)
		e.mu.Lock()
		e.rows += sums[0].rows
		if last {
			e.done++
		}
		e.tell()
		e.mu.Unlock()
	}
}

// tell calls progress; mu is held.
func (e *engine) tell() {
	if e.progress == nil {
		return
	}
	p := Progress{TablesDone: e.done, Tables: len(e.tables), Rows: e.rows, Paused: e.paused}
	if s := time.Since(e.started).Seconds(); s > 0 {
		p.RowsPerSecond = float64(e.rows) / s
	}
	for _, f := range e.found {
		p.Differing += f.differing
	}
	e.progress(p)
}

// say shows why nothing is read, "" when that is over.
func (e *engine) say(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = why
	e.tell()
}

// record notes one differing row of a target; beyond the bound it is counted only.
func (e *engine) record(target int, d Difference) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.found[target]
	f.differing += d.rows()
	f.byTable[d.Table] += d.rows()
	if len(f.differences) < e.o.MaxListed {
		f.differences = append(f.differences, d)
	}
}

// room is how many more differences of a target will be listed.
func (e *engine) room(target int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.o.MaxListed-len(e.found[target].differences))
}

func (e *engine) report() *Report {
	r := &Report{Source: e.source.Name, Elapsed: time.Since(e.started), Rows: e.rows}
	for _, t := range e.tables {
		r.Tables = append(r.Tables, TableReport{Name: t.Name, Rows: t.total[0].rows, Sum: t.total[0].String()})
	}
	for i := range e.targets {
		f := e.found[i]
		slices.SortStableFunc(f.differences, func(a, b Difference) int { return cmp.Compare(a.Table, b.Table) })
		tr := TargetReport{Name: e.targets[i].Name, Differing: f.differing, AtLeast: f.atLeast, Differences: f.differences, ByTable: f.byTable}
		for _, t := range e.tables {
			tr.Tables = append(tr.Tables, TableReport{Name: t.Name, Rows: t.total[1+i].rows, Sum: t.total[1+i].String()})
		}
		r.Targets = append(r.Targets, tr)
	}
	r.Accepted = e.accepted
	return r
}
