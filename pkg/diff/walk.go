package diff

import (
	"context"
	"sync"
	"time"
)

// tableWalk hands out a table's chunks and adds up their sums.
type tableWalk struct {
	*table
	o Options

	mu      sync.Mutex
	pos     keyValue // chunks up to here are handed out
	ended   bool     // the last chunk, the one without an upper bound, is handed out
	size    int      // rows of the next chunk
	working int      // workers on this table
	open    int      // chunks handed out and not yet added
	total   []sum    // of the source, then of each target
}

func newTableWalk(t *table, o Options, targets int) *tableWalk {
	w := &tableWalk{table: t, o: o, size: o.ChunkRows, total: make([]sum, 1+targets)}
	if t.Rows > 0 {
		if perRow := int(t.Bytes / t.Rows); perRow > 0 {
			w.size = min(w.size, max(firstChunkBytes/perRow, o.MinChunkRows))
		}
	}
	return w
}

// pick is the table with the fewest workers that still has chunks, nil when none has.
func pick(queue []*tableWalk) *tableWalk {
	var best *tableWalk
	least := 0
	for _, t := range queue {
		t.mu.Lock()
		ended, working := t.ended, t.working
		t.mu.Unlock()
		if !ended && (best == nil || working < least) {
			best, least = t, working
		}
	}
	if best != nil {
		best.mu.Lock()
		best.working++
		best.mu.Unlock()
	}
	return best
}

func (t *tableWalk) leave() {
	t.mu.Lock()
	t.working--
	t.mu.Unlock()
}

// next is the next chunk, (lo, hi]; ok is false when there is none. Its end is a key of the
// source; the search for it is serial per table, and much cheaper than the checksum.
func (t *tableWalk) next(ctx context.Context, r *reader) (lo, hi keyValue, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, nil, false, nil
	}
	hi, err = r.bound(ctx, t.table, t.pos, nil, t.size)
	if err != nil {
		return nil, nil, false, err
	}
	lo = t.pos
	t.pos, t.ended = hi, hi == nil
	t.open++
	return lo, hi, true, nil
}

// adapt moves the size of chunks towards the wanted time, at most fourfold at once.
func (t *tableWalk) adapt(rows uint64, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(rows) < t.size/2 {
		return // the last chunk, or one of before a change of size: it tells little
	}
	factor := min(max(float64(t.o.ChunkTime)/float64(max(took, time.Millisecond)), 0.25), 4)
	t.size = min(max(int(float64(rows)*factor), t.o.MinChunkRows), t.o.MaxChunkRows)
}

// add adds a chunk's sums to the table's; last reports that the table is done.
func (t *tableWalk) add(sums []sum) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range sums {
		t.total[i].rows += s.rows
		t.total[i].hash.xor(s.hash)
	}
	t.open--
	return t.ended && t.open == 0
}

func (t *tableWalk) finished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended && t.open == 0
}
