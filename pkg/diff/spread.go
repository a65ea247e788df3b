package diff

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

// ErrSpread is returned, wrapped, for a question that cannot be asked of these tables: a
// column that is not there, keys that may be NULL. It is a fault of whoever asked.
var ErrSpread = errors.New("these tables cannot be compared so")

// Spread is one table whose rows lie on several servers, each row on one of them.
type Spread struct {
	// Name is what reports call the whole.
	Name  string
	Table string
	// Pools are the servers, each with the database that holds its part.
	Pools []Pool
}

// SpreadOptions say what of two spread tables is compared.
type SpreadOptions struct {
	// Columns are compared; both tables have them under the same names. Empty: all columns,
	// which then must be the same on both.
	Columns []string
	// Key are columns, NOT NULL on every server, that tell rows apart over all servers of a
	// side. Empty: the key of the first table (schema.Table.RowKey). They are compared too.
	Key []string
	// Where is an SQL condition for the rows of both tables; empty for all.
	Where string
	// MaxListed bounds the listed differences; default 10,000.
	MaxListed int
	// MaxRowsPerSecond bounds how many rows of each server are read in a second; 0 is no bound.
	MaxRowsPerSecond int
	// Settle is how long rows that differ are read again; default 30 seconds. Whatever carries
	// changes from one side to the other must take less.
	Settle time.Duration

	matched int
}

// Repeated is the kind of a row that one side has more often than the other, on several
// servers: a leftover of a move of rows.
const Repeated Kind = "repeated"

// SpreadDifference is one key whose rows differ.
type SpreadDifference struct {
	Key  []string `json:"key"` // as in Difference
	Kind Kind     `json:"kind"`
	// From and To name the servers that have the row, of each side.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Columns are those that differ; of a missing or extra row all. Of a repeated row, those in
	// which the first on each side differ.
	Columns []ColumnDifference `json:"columns,omitempty"`
}

// KeyText is the key as one text.
func (d SpreadDifference) KeyText() string { return strings.Join(d.Key, ", ") }

// SpreadReport is the outcome of a comparison that ran to its end.
type SpreadReport struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Columns   []string `json:"columns"`
	KeyNames  []string `json:"key_columns"`
	FromParts []string `json:"from_servers"`
	ToParts   []string `json:"to_servers"`
	// FromRows and ToRows are of moving tables and only tell the size.
	FromRows uint64 `json:"from_rows"`
	ToRows   uint64 `json:"to_rows"`
	// Rechecked counts the keys that differed at first.
	Rechecked   uint64             `json:"rechecked"`
	Differing   uint64             `json:"differing"`
	Differences []SpreadDifference `json:"differences"`
	Seconds     float64            `json:"seconds"`
}

// CompareSpread compares a table that is spread over several servers with one that is spread
// over others by another rule: rows are put into hash buckets of their key, and the sums of a
// side's servers add up. It reads each server once, at instants of their own, while all of
// them take writes; so keys that differ are read again, on all servers, until both sides have
// shown one value, or Settle is over. What is still different then is reported.
//
// Which server a row belongs on is not looked at.
func CompareSpread(ctx context.Context, from, to Spread, o SpreadOptions, progress func(Progress)) (*SpreadReport, error) {
	if o.MaxListed <= 0 {
		o.MaxListed = 10_000
	}
	if o.Settle <= 0 {
		o.Settle = 30 * time.Second
	}
	if o.matched <= 0 {
		o.matched = 200_000 // with their keys, about 300 bytes each
	}
	if len(from.Pools) == 0 || len(to.Pools) == 0 {
		return nil, fmt.Errorf("%w: expected at least one server on each side", ErrSpread)
	}
	sides, closeAll, err := openPools(ctx, slices.Concat(from.Pools, to.Pools), 1)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	// They read only from here on, and must not go back into their pools so.
	defer func() {
		for _, s := range sides {
			_ = s.Conns[0].Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	c := &spreadCompare{o: o, progress: progress, started: time.Now()}
	if err := c.open(ctx, from, to, sides); err != nil {
		return nil, err
	}
	sums, err := c.sums(ctx)
	if err != nil {
		return nil, err
	}
	var found spreadSuspects
	for _, group := range sums[0].unlike(sums[1], uint64(o.matched)) {
		if err := c.suspect(ctx, group, &found); err != nil {
			return nil, err
		}
	}
	left, err := c.settle(ctx, found.list)
	if err != nil {
		return nil, err
	}
	r := &SpreadReport{From: from.Name, To: to.Name, FromRows: sums[0].total().rows, ToRows: sums[1].total().rows, Rechecked: uint64(len(found.list)) + found.beyond, Differing: uint64(len(left)), Columns: c.columns, KeyNames: c.keyNames}
	for i := range c.parts[0] {
		r.FromParts = append(r.FromParts, c.parts[0][i].r.side)
	}
	for i := range c.parts[1] {
		r.ToParts = append(r.ToParts, c.parts[1][i].r.side)
	}
	if found.beyond > 0 {
		if len(left) == 0 {
			return nil, fmt.Errorf("compare %s with %s: %d keys differed at first, more than the %d that can be read again, and none of these differs now: try again when there is less traffic", to.Name, from.Name, r.Rechecked, maxSuspects)
		}
		r.Differing += found.beyond
	}
	if r.Differences, err = c.describe(ctx, left[:min(len(left), o.MaxListed)]); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(c.started).Seconds()
	return r, nil
}

// spreadCompare is one such comparison.
type spreadCompare struct {
	o                 SpreadOptions
	columns, keyNames []string
	parts             [2][]*spreadPart // of from, of to
	progress          func(Progress)
	started           time.Time
	wide              bool

	mu   sync.Mutex // rows and calls of progress
	rows uint64
}

// spreadPart is one server's part of a side.
type spreadPart struct {
	r *reader
	t *table // of the compared columns only, and told by the key that was asked for
}

func (c *spreadCompare) open(ctx context.Context, from, to Spread, sides []Side) error {
	var first *spreadPart
	at := 0
	for i, spread := range []Spread{from, to} {
		for range spread.Pools {
			side := sides[at]
			at++
			rs, err := side.readers(ctx, 1)
			if err != nil {
				return err
			}
			// What an operator gives as a condition must not be able to write.
			if _, err := rs[0].conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"); err != nil {
				return fmt.Errorf("%s: prepare a connection for comparing: %w", side.Name, err)
			}
			all, err := schema.Read(ctx, side.Conns[0], side.Database)
			if err != nil {
				return fmt.Errorf("%s: %w", side.Name, err)
			}
			st := all.Table(spread.Table)
			if st == nil {
				return fmt.Errorf("%w: %s: found no table %q in database %q", ErrSpread, side.Name, spread.Table, side.Database)
			}
			if first == nil {
				if err := c.choose(side.Name, st); err != nil {
					return err
				}
			}
			part, err := c.part(rs[0], st)
			if err != nil {
				return fmt.Errorf("%w: %s: %w", ErrSpread, side.Name, err)
			}
			if first == nil {
				first = part
			} else if err := alike(first, part); err != nil {
				return fmt.Errorf("%w: %w", ErrSpread, err)
			}
			c.parts[i] = append(c.parts[i], part)
		}
	}
	return nil
}

// choose settles what is compared, by the first server's table where nothing was said.
func (c *spreadCompare) choose(server string, t *schema.Table) error {
	c.columns, c.keyNames = slices.Clone(c.o.Columns), slices.Clone(c.o.Key)
	if len(c.keyNames) == 0 {
		_, parts := t.RowKey()
		for _, p := range parts {
			c.keyNames = append(c.keyNames, p.Column)
		}
		if len(parts) == 0 {
			return fmt.Errorf("%w: %s: table %q has no key: name the columns that tell its rows apart", ErrSpread, server, t.Name)
		}
	}
	if len(c.columns) == 0 {
		for i := range t.Columns {
			c.columns = append(c.columns, t.Columns[i].Name)
		}
	}
	for _, k := range c.keyNames {
		if !slices.ContainsFunc(c.columns, func(n string) bool { return strings.EqualFold(n, k) }) {
			if len(c.o.Key) == 0 {
				return fmt.Errorf("%w: %s: table %q is told apart by %s, and %s is not among the compared columns: name it, or the columns that tell rows apart instead", ErrSpread, server, t.Name, strings.Join(c.keyNames, ", "), k)
			}
			c.columns = append(c.columns, k)
		}
	}
	return nil
}

// part reduces a server's table to what is compared, in one order on all servers.
func (c *spreadCompare) part(r *reader, t *schema.Table) (*spreadPart, error) {
	if len(c.o.Columns) == 0 && len(t.Columns) != len(c.columns) {
		return nil, fmt.Errorf("table %q has %d columns, expected the %d of the first server's table: name the columns to compare", t.Name, len(t.Columns), len(c.columns))
	}
	reduced := &schema.Table{Name: t.Name}
	for _, name := range c.columns {
		col := t.Column(name)
		if col == nil {
			return nil, fmt.Errorf("table %q has no column %q: name the columns that both tables have", t.Name, name)
		}
		reduced.Columns = append(reduced.Columns, *col)
	}
	var key []keyColumn
	for _, name := range c.keyNames {
		col := reduced.Column(name)
		if col.Nullable {
			return nil, fmt.Errorf("table %q: the column %q may be NULL, expected key columns that are NOT NULL", t.Name, name)
		}
		k, err := newKeyColumn(t.Name, "asked for", col)
		if err != nil {
			return nil, err
		}
		key = append(key, k)
	}
	out, err := tableOf(reduced, "", key)
	if err != nil {
		return nil, err
	}
	out.spelled = true
	return &spreadPart{r: r, t: out}, nil
}

// alike refuses columns whose equal values are not written alike. Integers of any width are,
// as are texts of one character set and bytes of any length.
func alike(a, b *spreadPart) error {
	for i := range a.t.Columns {
		x, y := &a.t.Columns[i], &b.t.Columns[i]
		k, _ := classOf(x) // known since tableOf
		l, _ := classOf(y)
		same := k == l
		switch {
		case !same:
		case k == text:
			same = x.CharSet == y.CharSet
		case k == bytes, k == document, integer(x) && integer(y):
		case k == number && (x.Type != "bit" || y.Type != "bit"), k == plain:
			same = strings.TrimSuffix(x.ColumnType, " zerofill") == strings.TrimSuffix(y.ColumnType, " zerofill")
		}
		if !same {
			return fmt.Errorf("column %q is %s %s in table %q of %s and %s %s in table %q of %s, expected types that write equal values alike: leave the column out", x.Name, x.ColumnType, x.CharSet, a.t.Name, a.r.side, y.ColumnType, y.CharSet, b.t.Name, b.r.side)
		}
	}
	return nil
}

func integer(c *schema.Column) bool {
	return strings.HasSuffix(c.Type, "int") && !strings.Contains(c.ColumnType, "zerofill")
}

// from is the rows that are asked for.
func (p *spreadPart) from(where string) string {
	if where == "" {
		where = "TRUE"
	}
	// The line break ends a comment that the condition may end with.
	return " FROM " + p.t.in(p.r.database) + " WHERE (" + where + "\n)"
}

// bucketSQL is a key's bucket. Only how rows spread depends on it, so CRC32 will do.
func (p *spreadPart) bucketSQL() string {
	var heads, tails []string
	for i := range p.t.key {
		head, tail := canonical(p.t.key[i].column, p.t.key[i].class, false)
		heads = append(heads, head...)
		if tail != "" {
			tails = append(tails, tail)
		}
	}
	return fmt.Sprintf("CRC32(%s) & %d", concat(heads, tails), bucketCount-1)
}

// each runs on every server of both sides at once.
func (c *spreadCompare) each(ctx context.Context, run func(ctx context.Context, side int, p *spreadPart) error) error {
	var g errgroup.Group // no shared cancel, see sumsOf: the same connections may be needed again
	for side := range c.parts {
		for _, p := range c.parts[side] {
			g.Go(func() error { return run(ctx, side, p) })
		}
	}
	return g.Wait()
}

// retried runs in the usual form, or, when some server cannot hash some row in it, in the wide
// one, which is then kept: hashes of different forms never meet.
func (c *spreadCompare) retried(run func() error) error {
	err := run()
	if err != nil && !c.wide && tooLarge(err) {
		c.wide = true
		err = run()
	}
	return err
}

// turn waits for a server's rate, and counts.
func (c *spreadCompare) turn(ctx context.Context) func(rows uint64) error {
	own := &pace{rate: float64(c.o.MaxRowsPerSecond)}
	start := time.Now()
	return func(rows uint64) error {
		own.after(start, rows)
		c.tell(rows, 0)
		return own.before(ctx, nil)
	}
}

func (c *spreadCompare) tell(rows, differing uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows += rows
	if c.progress != nil {
		c.progress(Progress{Tables: 1, Rows: c.rows, RowsPerSecond: float64(c.rows) / max(time.Since(c.started).Seconds(), 0.001), Differing: differing})
	}
}

// sums reads every server once.
func (c *spreadCompare) sums(ctx context.Context) (out [2]bucketSums, err error) {
	var mu [2]sync.Mutex
	err = c.retried(func() error {
		out = [2]bucketSums{newBucketSums(), newBucketSums()}
		return c.each(ctx, func(ctx context.Context, side int, p *spreadPart) error {
			type entry struct {
				bucket int
				h      hash
			}
			batch, turn := make([]entry, 0, pacedRows), c.turn(ctx)
			flush := func() error {
				mu[side].Lock()
				for _, e := range batch {
					out[side].add(e.bucket, e.h)
				}
				mu[side].Unlock()
				n := len(batch)
				batch = batch[:0]
				return turn(uint64(n))
			}
			err := p.r.each(ctx, "SELECT "+p.bucketSQL()+","+p.t.hash(c.wide)+p.from(c.o.Where), func(v []sql.RawBytes) error {
				bucket, err := strconv.Atoi(string(v[0]))
				if len(v[1]) != len(hash{}) || err != nil {
					return errTooLarge
				}
				batch = append(batch, entry{bucket, hash(v[1])})
				if len(batch) == pacedRows {
					return flush()
				}
				return nil
			})
			if err == nil {
				err = flush()
			}
			if err != nil {
				return p.r.fail(p.t, "read the hashes of all rows", err)
			}
			return nil
		})
	})
	return out, err
}

// spreadRow is a row that was read on one server.
type spreadRow struct {
	row
	part int
}

// spreadValue is what one side shows of a key: nothing, a row, or several.
type spreadValue struct {
	sum  sum
	rows []spreadRow
}

func (v *spreadValue) add(r spreadRow) {
	v.sum.rows++
	v.sum.hash.add(r.hash)
	v.rows = append(v.rows, r)
}

// spreadSuspect is a key that differed; seen are the values shown so far, see suspect.
type spreadSuspect struct {
	key  keyValue
	seen [2]map[sum]bool
	last [2]spreadValue
}

func newSpreadSuspect(key keyValue) *spreadSuspect {
	return &spreadSuspect{key: key, seen: [2]map[sum]bool{{}, {}}}
}

// show takes a reading in, and reports whether both sides have shown one value.
func (s *spreadSuspect) show(values [2]spreadValue) (met bool) {
	s.last = values
	for i := range values {
		s.seen[i][values[i].sum] = true
	}
	for v := range s.seen[0] {
		if s.seen[1][v] {
			return true
		}
	}
	return false
}

type spreadSuspects struct {
	list   []*spreadSuspect
	beyond uint64
}

// suspect reads the rows of some buckets and keeps the keys that differ.
func (c *spreadCompare) suspect(ctx context.Context, buckets []int, found *spreadSuspects) error {
	var keys map[string]*[2]spreadValue
	var mu sync.Mutex
	wanted := map[int]bool{}
	list := make([]string, len(buckets))
	for i, b := range buckets {
		wanted[b], list[i] = true, strconv.Itoa(b)
	}
	err := c.retried(func() error {
		keys = map[string]*[2]spreadValue{}
		return c.each(ctx, func(ctx context.Context, side int, p *spreadPart) error {
			query := "SELECT " + p.t.keys + "," + p.t.hash(c.wide) + "," + p.bucketSQL() + p.from(c.o.Where)
			if len(buckets) <= maxNamed {
				query += " AND " + p.bucketSQL() + " IN (" + strings.Join(list, ",") + ")"
			}
			turn, n := c.turn(ctx), 0
			err := p.r.each(ctx, query, func(v []sql.RawBytes) error {
				if n++; n%pacedRows == 0 {
					if err := turn(0); err != nil {
						return err
					}
				}
				bucket, err := strconv.Atoi(string(v[len(v)-1]))
				if err != nil {
					return errTooLarge
				}
				if !wanted[bucket] {
					return nil
				}
				r, err := p.t.scan(v[:len(v)-1])
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				id := r.key.id()
				if keys[id] == nil {
					keys[id] = &[2]spreadValue{}
				}
				keys[id][side].add(spreadRow{r, c.place(side, p)})
				return nil
			})
			if err != nil {
				return p.r.fail(p.t, "list rows", err)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, values := range keys {
		if err := c.apart(values); err != nil {
			return err
		}
		if values[0].sum == values[1].sum {
			continue
		}
		if len(found.list) >= maxSuspects {
			found.beyond++
			continue
		}
		rows := append(slices.Clone(values[0].rows), values[1].rows...)
		s := newSpreadSuspect(rows[0].key)
		s.show(*values)
		found.list = append(found.list, s)
	}
	return nil
}

// apart refuses a key that two rows of one server have: these were read by one statement, so
// neither is on its way to elsewhere.
func (c *spreadCompare) apart(values *[2]spreadValue) error {
	for side := range values {
		on := map[int]bool{}
		for _, r := range values[side].rows {
			if on[r.part] {
				p := c.parts[side][r.part]
				return fmt.Errorf("%w: %s: table %q has several rows with (%s) = (%s), expected columns that tell rows apart: name more of them as the key", ErrSpread, p.r.side, p.t.Name, strings.Join(c.keyNames, ", "), strings.Join(r.show, ", "))
			}
			on[r.part] = true
		}
	}
	return nil
}

func (c *spreadCompare) place(side int, p *spreadPart) int { return slices.Index(c.parts[side], p) }

// settle reads suspects again until both sides have shown one value, and returns those that
// never did. A row that is written all the time shows another value with each reading; read
// often enough, what the one side showed is what the other shows behind it.
func (c *spreadCompare) settle(ctx context.Context, left []*spreadSuspect) ([]*spreadSuspect, error) {
	for until := time.Now().Add(c.o.Settle); len(left) > 0 && time.Now().Before(until); {
		wait := 200 * time.Millisecond
		if slices.ContainsFunc(left, func(s *spreadSuspect) bool { return len(s.seen[0]) > 1 || len(s.seen[1]) > 1 }) {
			wait = 5 * time.Millisecond
		}
		if err := sleep(ctx, min(wait, time.Until(until)+time.Millisecond)); err != nil {
			return nil, err
		}
		var err error
		if left, err = c.reread(ctx, left); err != nil {
			return nil, err
		}
		c.tell(0, uint64(len(left)))
	}
	return left, nil
}

// reread reads all of the list once and keeps what has not met.
func (c *spreadCompare) reread(ctx context.Context, list []*spreadSuspect) (left []*spreadSuspect, err error) {
	for part := range slices.Chunk(list, 50) { // statements stay far below any packet limit
		keys := map[string]*[2]spreadValue{}
		for _, s := range part {
			keys[s.key.id()] = nil
		}
		var mu sync.Mutex
		wide := c.wide
		err := c.retried(func() error {
			for id := range keys {
				keys[id] = &[2]spreadValue{}
			}
			return c.each(ctx, func(ctx context.Context, side int, p *spreadPart) error {
				conds := make([]string, len(part))
				for i, s := range part {
					conds[i] = "(" + p.t.where(s.key) + ")"
				}
				query := "SELECT " + p.t.keys + "," + p.t.hash(c.wide) + p.from(c.o.Where) + " AND (" + strings.Join(conds, " OR ") + ")"
				err := p.r.each(ctx, query, func(v []sql.RawBytes) error {
					r, err := p.t.scan(v)
					if err != nil {
						return err
					}
					mu.Lock()
					defer mu.Unlock()
					if values := keys[r.key.id()]; values != nil {
						values[side].add(spreadRow{r, c.place(side, p)})
					}
					return nil
				})
				if err != nil {
					return p.r.fail(p.t, "look rows up", err)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		if c.wide != wide {
			// What was seen in the other form is worth nothing.
			for _, s := range list {
				s.seen = [2]map[sum]bool{{}, {}}
			}
		}
		for _, s := range part {
			if !s.show(*keys[s.key.id()]) {
				left = append(left, s)
			}
		}
	}
	return left, nil
}

// describe says of each key how it differs, and on which servers. The values are those of one
// more reading, and may be newer than what differed.
func (c *spreadCompare) describe(ctx context.Context, list []*spreadSuspect) ([]SpreadDifference, error) {
	out := make([]SpreadDifference, 0, len(list))
	slices.SortFunc(list, func(a, b *spreadSuspect) int { return strings.Compare(a.key.id(), b.key.id()) })
	for _, s := range list {
		d := SpreadDifference{From: []string{}, To: []string{}}
		var cells [2][]cell
		for i := range s.last {
			for n, r := range s.last[i].rows {
				p := c.parts[i][r.part]
				if i == 0 {
					d.From = append(d.From, p.r.side)
				} else {
					d.To = append(d.To, p.r.side)
				}
				if d.Key == nil {
					d.Key = r.show
				}
				if n > 0 {
					continue
				}
				found, err := p.r.cells(ctx, p.t, []keyValue{s.key}, false)
				if err != nil {
					return nil, err
				}
				cells[i] = found[0] // nil when it is gone by now
			}
		}
		a, b := s.last[0].sum.rows, s.last[1].sum.rows
		switch {
		case a == 0:
			d.Kind = Extra
		case b == 0:
			d.Kind = Missing
		case a != b:
			d.Kind = Repeated
		default:
			d.Kind = Changed
		}
		if cells[0] != nil || cells[1] != nil {
			d.Columns = c.parts[0][0].t.columnDifferences(cells[0], cells[1])
		}
		slices.Sort(d.From)
		slices.Sort(d.To)
		out = append(out, d)
	}
	return out, nil
}
