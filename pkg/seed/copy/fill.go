package copy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
)

// Source is what is read: one database, through snapshots of one instant.
type Source struct {
	Name     string // of the server, for messages
	Database string
	// Snapshots are connections of their own with an open REPEATABLE READ transaction each.
	// One table or key range is read over each at a time. They stay open.
	Snapshots []*sql.Conn
}

// Options bound the work. The zero value is the fast one.
type Options struct {
	// Loaders is the number of connections that write. Default: as many as there are
	// processors here, where the target usually is, but at least two and at most one more
	// than snapshots: beyond that they only wait for each other.
	Loaders int
	// ChunkRows and ChunkBytes end a LOAD DATA statement, whichever comes first. Default:
	// no bound on rows, 4 MiB.
	ChunkRows, ChunkBytes int
	// RangeRows is how many rows, by the server's estimate, make a key range of its own;
	// default 250,000.
	RangeRows uint64
	// IndexBytes: from this size on (data and indexes, the server's estimate) a table gets
	// its secondary indexes after its rows. Default 8 MiB; below it the rebuild costs more
	// than it saves.
	IndexBytes uint64
	// Scratch says that the target is ours alone and can be made again: its redo log is off
	// during the load (a crash then leaves a server that does not start).
	Scratch bool
	// Progress is told how far the work is, at most a few times a second, from one
	// goroutine at a time.
	Progress func(Progress)
}

// Progress is how far a fill is. RowsTotal is the server's estimate.
type Progress struct {
	Tables, TablesDone         int
	Rows, RowsTotal, BytesDone uint64
	Elapsed                    time.Duration
}

// Result is what was filled.
type Result struct {
	Rows, Bytes uint64
	Tables      map[string]uint64 // rows by table
	Views       []string          // copied after the tables
	LeftOut     []string          // triggers, routines, events: by name
	Schema      *schema.Schema    // of the source
	Duration    time.Duration
}

const (
	defaultChunkBytes = 4 << 20
	defaultRangeRows  = 250_000
	defaultIndexBytes = 8 << 20
)

func (o Options) withDefaults(snapshots int) Options {
	if o.Loaders <= 0 {
		o.Loaders = max(2, min(runtime.NumCPU(), snapshots+1))
	}
	if o.ChunkBytes <= 0 {
		o.ChunkBytes = defaultChunkBytes
	}
	if o.RangeRows == 0 {
		o.RangeRows = defaultRangeRows
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = defaultIndexBytes
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// fill is one run.
type fill struct {
	src     Source
	target  mysqlconn.Target
	db      *sql.DB // on the target
	o       Options
	began   time.Time
	tables  []*table
	chunks  chan *chunk
	buffers buffers

	rows, bytes, done atomic.Uint64
	rowsTotal         uint64
}

// table is one table's way through a fill.
type table struct {
	*schema.Table
	*transfer
	create, addIndexes string
	ranges             []string // WHERE clauses, "" for the whole table
	// open counts the ranges not read and the chunks not loaded; who brings it to zero
	// finishes the table.
	open         atomic.Int64
	read, loaded atomic.Uint64

	jsonBytes []atomic.Uint64 // by JSON column, on the source
	mu        sync.Mutex      // covers suspects
	suspects  []suspect
}

// Fill makes the source's database on the target and fills it. The target's account must
// have all privileges there; the database must not exist on it. On an error, or when ctx
// ends, everything is stopped and the target is of no use.
func Fill(ctx context.Context, src Source, target mysqlconn.Target, o Options) (*Result, error) {
	if len(src.Snapshots) == 0 {
		return nil, errors.New("fill: no snapshot to read from")
	}
	f := &fill{src: src, target: target, o: o.withDefaults(len(src.Snapshots)), began: time.Now(), chunks: make(chan *chunk)}
	if err := f.openTarget(ctx); err != nil {
		return nil, err
	}
	defer f.db.Close()
	for _, c := range src.Snapshots {
		if err := prepareSnapshot(ctx, c); err != nil {
			return nil, fmt.Errorf("%s: prepare a snapshot: %w", src.Name, err)
		}
	}
	s, err := schema.Read(ctx, src.Snapshots[0], src.Database)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	if err := f.plan(ctx, s); err != nil {
		return nil, err
	}
	if err := f.createAll(ctx); err != nil {
		return nil, err
	}
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	if err := f.mendJSON(ctx); err != nil {
		return nil, err
	}
	if f.o.Scratch {
		if err := f.redoLog(ctx, "ENABLE"); err != nil {
			return nil, err
		}
	}
	if err := f.createViews(ctx, s); err != nil {
		return nil, err
	}
	return f.verify(ctx, s)
}

// plan decides how each table is read and in which order: the biggest first, so that none
// of them is left for one connection at the end.
func (f *fill) plan(ctx context.Context, s *schema.Schema) error {
	for _, st := range s.Tables {
		t := &table{Table: st, transfer: newTransfer(st), create: st.Create}
		t.jsonBytes = make([]atomic.Uint64, len(t.jsons))
		if t.width == 0 {
			return fmt.Errorf("%s: table %q has no column that can be written", f.src.Name, st.Name)
		}
		if st.Bytes >= f.o.IndexBytes {
			var err error
			if t.create, t.addIndexes, err = split(st); err != nil {
				return fmt.Errorf("%s: %w", f.src.Name, err)
			}
		}
		ranges, err := f.keyRanges(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: table %q: key ranges: %w", f.src.Name, st.Name, err)
		}
		t.ranges = ranges
		t.open.Store(int64(len(ranges)))
		f.rowsTotal += st.Rows
		f.tables = append(f.tables, t)
	}
	sort.SliceStable(f.tables, func(i, j int) bool { return f.tables[i].Bytes > f.tables[j].Bytes })
	return nil
}

// run reads and loads until all tables are done.
func (f *fill) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	type work struct {
		t     *table
		where string
	}
	todo := make(chan work)
	g.Go(func() error {
		defer close(todo)
		for _, t := range f.tables {
			for _, r := range t.ranges {
				select {
				case todo <- work{t, r}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	readers, rctx := errgroup.WithContext(ctx)
	for _, c := range f.src.Snapshots {
		readers.Go(func() error {
			for w := range todo {
				if err := f.readRange(rctx, c, w.t, w.where); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(f.chunks)
		return readers.Wait()
	})
	loaders, lctx := errgroup.WithContext(ctx)
	for range f.o.Loaders {
		loaders.Go(func() error { return f.loadAll(lctx) })
	}
	stop := make(chan struct{})
	g.Go(func() error {
		defer close(stop)
		return loaders.Wait()
	})
	g.Go(func() error {
		f.report(stop)
		return nil
	})
	return g.Wait()
}

// report tells the progress until the loaders have ended, and once more then.
func (f *fill) report(stop <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	tell := func() {
		f.o.Progress(Progress{Tables: len(f.tables), TablesDone: int(f.done.Load()), Rows: f.rows.Load(), RowsTotal: f.rowsTotal, BytesDone: f.bytes.Load(), Elapsed: time.Since(f.began)})
	}
	for {
		select {
		case <-tick.C:
			tell()
		case <-stop:
			tell()
			return
		}
	}
}

// finish is called when the last chunk of a table is in.
func (f *fill) finish(ctx context.Context, conn *sql.Conn, t *table) error {
	if read, loaded := t.read.Load(), t.loaded.Load(); read != loaded {
		return fmt.Errorf("table %q: %d rows were read on %s, %d stored on %s: duplicate keys, or a unique index that compares otherwise there", t.Name, read, f.src.Name, loaded, f.target.Name)
	}
	if t.addIndexes != "" {
		if _, err := conn.ExecContext(ctx, t.addIndexes); err != nil {
			return f.failed(fmt.Sprintf("table %q: build its indexes", t.Name), err)
		}
	}
	// The server that restores this plans by what it finds here, and a scratch server does
	// not keep its statistics up to date.
	if _, err := conn.ExecContext(ctx, "ANALYZE NO_WRITE_TO_BINLOG TABLE "+schema.Quote(t.Name)); err != nil {
		return f.failed(fmt.Sprintf("table %q: statistics", t.Name), err)
	}
	f.done.Add(1)
	return nil
}

func (f *fill) verify(ctx context.Context, s *schema.Schema) (*Result, error) {
	got, err := schema.Read(ctx, f.db, f.src.Database)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.target.Name, err)
	}
	if diff := schema.Differences(s, got); len(diff) > 0 {
		return nil, fmt.Errorf("the tables on %s are not those of %s: %s", f.target.Name, f.src.Name, strings.Join(diff, "; "))
	}
	r := &Result{Rows: f.rows.Load(), Bytes: f.bytes.Load(), Tables: map[string]uint64{}, Views: s.Views, Schema: s, Duration: time.Since(f.began)}
	for _, t := range f.tables {
		r.Tables[t.Name] = t.loaded.Load()
	}
	for kind, names := range map[string][]string{"trigger": s.Triggers, "": s.Routines, "event": s.Events} {
		for _, n := range names {
			r.LeftOut = append(r.LeftOut, strings.TrimSpace(kind+" "+n))
		}
	}
	sort.Strings(r.LeftOut)
	return r, nil
}

// failed names the target, and says a full disk plainly.
func (f *fill) failed(doing string, err error) error {
	if n := mysqlconn.Number(err); n == 1114 || n == 1021 || n == 3 || n == 1041 || strings.Contains(err.Error(), "No space left") {
		return fmt.Errorf("%s on %s: its disk is full (or its quota used up): %w: make room in the seed's work folder and seed again", doing, f.target.Name, err)
	}
	return fmt.Errorf("%s on %s: %w", doing, f.target.Name, err)
}
