package diff

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// bucketBits: rows are put into 2^16 buckets by a hash. A table of 100 million rows has
	// 1,500 rows in each, which is what a differing row costs to find; the sums of a side take
	// 2.6 MB whatever the table's size.
	bucketBits  = 16
	bucketCount = 1 << bucketBits
	// defaultMatched bounds the rows of differing buckets that are held in memory at once, of
	// both sides together: about 100 bytes each.
	defaultMatched = 500_000
	// maxNamed is how many buckets a statement names; of more, all rows are read and chosen
	// from here.
	maxNamed = 2000
	// pacedRows is how many rows of a stream are read between two looks at the pace.
	pacedRows = 1000
)

// add is the sum modulo 2^256, in which equal rows add up: a XOR would lose each second one.
func (h *hash) add(o hash) {
	var carry uint64
	for i := len(h) - 8; i >= 0; i -= 8 {
		var v uint64
		v, carry = bits.Add64(binary.BigEndian.Uint64(h[i:]), binary.BigEndian.Uint64(o[i:]), carry)
		binary.BigEndian.PutUint64(h[i:], v)
	}
}

// bucketSums are a side's rows in hash buckets; those of several servers add up.
type bucketSums []sum

func newBucketSums() bucketSums { return make(bucketSums, bucketCount) }

func (b bucketSums) add(bucket int, h hash) {
	b[bucket].rows++
	b[bucket].hash.add(h)
}

// total is the sum of all buckets.
func (b bucketSums) total() (out sum) {
	for i := range b {
		out.rows += b[i].rows
		out.hash.add(b[i].hash)
	}
	return out
}

// unlike lists the buckets that differ, in groups of at most so many rows (one bucket at the
// least).
func (b bucketSums) unlike(o bucketSums, most uint64) (groups [][]int) {
	var group []int
	var rows uint64
	for i := range b {
		if b[i] == o[i] {
			continue
		}
		n := b[i].rows + o[i].rows
		if len(group) > 0 && rows+n > most {
			groups, group, rows = append(groups, group), nil, 0
		}
		group, rows = append(group, i), rows+n
	}
	if len(group) > 0 {
		groups = append(groups, group)
	}
	return groups
}

// rowBucket is the bucket of a row that has no key.
func rowBucket(h hash) int { return int(binary.BigEndian.Uint16(h[:2])) }

// unkeyedFrom reads the rows themselves: an index that holds all columns would do for the
// server as well, and would not see a row that disagrees with it.
func (t *table) unkeyedFrom(database string) string {
	return " FROM " + t.in(database) + " USE INDEX ()"
}

// hashes streams the hashes of a table's rows, of some buckets or (nil) of all. A table
// without a key has no ranges, so this is one statement however many rows there are; turn is
// called every thousand rows and may wait.
func (r *reader) hashes(ctx context.Context, t *table, wide bool, buckets []int, turn func(rows uint64) error, row func(h hash)) error {
	query := "SELECT " + t.hash(wide) + t.unkeyedFrom(r.database)
	named := len(buckets) > 0 && len(buckets) <= maxNamed
	wanted := map[int]bool{}
	if named {
		list := make([]string, len(buckets))
		for i, b := range buckets {
			list[i] = fmt.Sprintf("X'%04X'", b)
		}
		// A row whose hash is NULL must not be left out: it is an error.
		query = "SELECT h FROM (SELECT " + t.hash(wide) + " AS h" + t.unkeyedFrom(r.database) + ") d WHERE h IS NULL OR LEFT(h,2) IN (" + strings.Join(list, ",") + ")"
	}
	for _, b := range buckets {
		wanted[b] = true
	}
	n := uint64(0)
	err := r.each(ctx, query, func(v []sql.RawBytes) error {
		var h hash
		if len(v[0]) != len(h) {
			return errTooLarge
		}
		copy(h[:], v[0])
		if len(buckets) == 0 || wanted[rowBucket(h)] {
			row(h)
		}
		if n++; n%pacedRows == 0 {
			return turn(pacedRows)
		}
		return nil
	})
	if err != nil {
		return r.fail(t, "read the hashes of all rows", err)
	}
	return turn(n % pacedRows)
}

// walkUnkeyed compares a table without a key: whether both sides hold the same rows, each the
// same number of times. One worker does, the others find nothing left.
func (e *engine) walkUnkeyed(ctx context.Context, w *worker, t *tableWalk) error {
	t.mu.Lock()
	mine := !t.ended
	t.ended = true
	if mine {
		t.open++
	}
	t.mu.Unlock()
	if !mine {
		return nil
	}
	sums, wide, err := e.unkeyedSums(ctx, w, t.table)
	if err != nil {
		return err
	}
	for i := range w.targets {
		if err := e.matchUnkeyed(ctx, w, t.table, i, sums[0], sums[1+i], wide); err != nil {
			return err
		}
	}
	totals := make([]sum, len(sums))
	for i := range sums {
		totals[i] = sums[i].total()
	}
	t.mu.Lock()
	t.total, t.open = totals, 0
	t.mu.Unlock()
	e.mu.Lock()
	e.done++
	e.tell()
	e.mu.Unlock()
	return nil
}

// readers are the worker's connections, the source's first.
func (w *worker) readers() []*reader { return append([]*reader{w.source}, w.targets...) }

// turns makes the function that a side's stream waits in. Each side has a rate of its own, as
// the sides are read at once. counted is nil, or counts the rows that are in the progress.
func (e *engine) turns(ctx context.Context, counted *uint64) func(uint64) error {
	own := &pace{rate: e.pace.rate}
	start := time.Now()
	return func(rows uint64) error {
		own.after(start, rows)
		if counted != nil {
			e.mu.Lock()
			*counted += rows
			e.rows += rows
			e.tell()
			e.mu.Unlock()
		}
		if err := e.pace.look(ctx, e.say); err != nil {
			return err
		}
		return own.before(ctx, e.say)
	}
}

// unkeyedSums reads all sides at once. When some side cannot hash some row in the usual
// form, all are read again in the wide one: sums of different forms never meet.
func (e *engine) unkeyedSums(ctx context.Context, w *worker, t *table) ([]bucketSums, bool, error) {
	var counted uint64
	read := func(wide bool) ([]bucketSums, error) {
		sides := w.readers()
		out := make([]bucketSums, len(sides))
		var g errgroup.Group // no shared cancel, see sumsOf
		for i, r := range sides {
			out[i] = newBucketSums()
			turn := e.turns(ctx, nil)
			if i == 0 {
				turn = e.turns(ctx, &counted)
			}
			g.Go(func() error {
				return r.hashes(ctx, t, wide, nil, turn, func(h hash) { out[i].add(rowBucket(h), h) })
			})
		}
		return out, g.Wait()
	}
	out, err := read(false)
	if err == nil || !tooLarge(err) {
		return out, false, err
	}
	e.mu.Lock()
	e.rows -= counted
	e.mu.Unlock()
	out, err = read(true)
	return out, true, err
}

// matchUnkeyed names the rows of those buckets that differ, as often as they are on one side
// more than on the other.
//
// Each group of buckets costs one more reading of both tables. Behind the bound of listed
// rows that is not worth it: a table of 100 million rows that differs everywhere would be
// read two hundred times to be counted. So what is left there is counted by the sums: of
// each bucket that differs at least one row does, and at least as many as it has more or less.
func (e *engine) matchUnkeyed(ctx context.Context, w *worker, t *table, target int, source, other bucketSums, wide bool) error {
	groups := source.unlike(other, uint64(e.o.matched))
	for n, group := range groups {
		if e.room(target) == 0 {
			var least uint64
			for _, left := range groups[n:] {
				for _, b := range left {
					least += max(1, source[b].rows-min(source[b].rows, other[b].rows), other[b].rows-min(source[b].rows, other[b].rows))
				}
			}
			e.atLeast(target, t.Name, least)
			return nil
		}
		counts := [2]map[hash]uint64{{}, {}}
		var g errgroup.Group
		for i, r := range []*reader{w.source, w.targets[target]} {
			turn := e.turns(ctx, nil)
			g.Go(func() error {
				return r.hashes(ctx, t, wide, group, turn, func(h hash) { counts[i][h]++ })
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		var found []Difference
		for i, kind := range []Kind{Missing, Extra} {
			for h, n := range counts[i] {
				if more := n - min(n, counts[1-i][h]); more > 0 {
					found = append(found, Difference{Table: t.Name, Key: []string{"row:" + hex.EncodeToString(h[:16])}, Kind: kind, Copies: more, row: h})
				}
			}
		}
		if len(found) == 0 {
			return fmt.Errorf("table %q: its rows in %d hash bucket(s) differed between %s and %s and do not when they are read again: is the snapshot still open?", t.Name, len(group), w.source.side, w.targets[target].side)
		}
		slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(a.Key[0]+string(a.Kind), b.Key[0]+string(b.Kind)) })
		if err := e.unkeyedValues(ctx, w, t, target, found, wide); err != nil {
			return err
		}
		for _, d := range found {
			e.record(target, d)
		}
	}
	return nil
}

// atLeast counts rows that differ of which only a lower bound is known.
func (e *engine) atLeast(target int, table string, rows uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.found[target]
	f.differing += rows
	f.byTable[table] += rows
	f.atLeast = true
}

// unkeyedValues reads the columns of those rows that will still be listed, each by its hash.
func (e *engine) unkeyedValues(ctx context.Context, w *worker, t *table, target int, found []Difference, wide bool) error {
	listed := found[:min(len(found), e.room(target))]
	for _, side := range []struct {
		r    *reader
		kind Kind
	}{{w.source, Missing}, {w.targets[target], Extra}} {
		var hashes []hash
		for _, d := range listed {
			if d.Kind == side.kind {
				hashes = append(hashes, d.row)
			}
		}
		cells, err := side.r.cellsByHash(ctx, t, hashes, wide)
		if err != nil {
			return err
		}
		for i := range listed {
			if listed[i].Kind != side.kind {
				continue
			}
			row := cells[listed[i].row]
			if row == nil {
				return side.r.fail(t, "read the values of rows", errors.New("a row is not there any more: is the snapshot still open?"))
			}
			if side.kind == Missing {
				listed[i].Columns = t.columnDifferences(row, nil)
			} else {
				listed[i].Columns = t.columnDifferences(nil, row)
			}
		}
	}
	return nil
}

// cellsByHash reads one row of each hash column by column.
func (r *reader) cellsByHash(ctx context.Context, t *table, hashes []hash, wide bool) (map[hash][]cell, error) {
	const batch = 4000 // 270 KB of SQL
	out := map[hash][]cell{}
	for part := range slices.Chunk(hashes, batch) {
		err := r.readCellsByHash(ctx, t, part, wide, true, out)
		if tooLarge(err) {
			err = r.readCellsByHash(ctx, t, part, wide, false, out)
		}
		if err != nil {
			return nil, r.fail(t, "read the values of rows", err)
		}
	}
	return out, nil
}

func (r *reader) readCellsByHash(ctx context.Context, t *table, hashes []hash, wide, deep bool, into map[hash][]cell) error {
	columns := []string{t.hash(wide)}
	for i := range t.Columns {
		columns = append(columns, cellSQL(&t.Columns[i], false, deep)...)
	}
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = "X'" + hex.EncodeToString(h[:]) + "'"
	}
	query := "SELECT " + strings.Join(columns, ",") + t.unkeyedFrom(r.database) + " WHERE " + t.hash(wide) + " IN (" + strings.Join(list, ",") + ")"
	return r.each(ctx, query, func(v []sql.RawBytes) error {
		var h hash
		if len(v[0]) != len(h) {
			return errTooLarge
		}
		copy(h[:], v[0])
		if into[h] != nil {
			return nil
		}
		cells := make([]cell, len(t.Columns))
		for c := range cells {
			var err error
			if cells[c], err = scanCell(&t.Columns[c], v[1+c*cellParts:1+(c+1)*cellParts]); err != nil {
				return err
			}
		}
		into[h] = cells
		return nil
	})
}
