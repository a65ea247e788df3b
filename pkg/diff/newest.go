package diff

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/schema"
)

// newestConns is how many tables are looked at at once. The caller holds the world still
// meanwhile; more connections take longer to open than they save.
const newestConns = 4

// Newest compares the newest n rows of every table: the last by the key, and the last by an AUTO_INCREMENT column that does not lead it. Both sides must be at rest, inside
// a freeze; it takes milliseconds. It is a last look, not a proof: the proof is Compare.
func Newest(ctx context.Context, source Pool, targets []Pool, s *schema.Schema, n int) (*Report, error) {
	sides, closeAll, err := openPools(ctx, append([]Pool{source}, targets...), min(newestConns, max(len(s.Tables), 1)))
	if err != nil {
		return nil, err
	}
	defer closeAll()
	e, err := newEngine(ctx, sides[0], sides[1:], s, Options{}, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range e.tables {
		if len(t.key) == 0 {
			return nil, fmt.Errorf("compare the newest rows of table %q: %w", t.Name, errNoKey)
		}
	}
	queue := make(chan *tableWalk, len(e.tables))
	for _, t := range e.tables {
		queue <- t
	}
	close(queue)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range e.workers {
		g.Go(func() error {
			for t := range queue {
				err := e.newest(ctx, w, t, n, false)
				if err != nil && tooLarge(err) {
					err = e.newest(ctx, w, t, n, true)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return e.report(), nil
}

func (e *engine) newest(ctx context.Context, w *worker, t *tableWalk, n int, wide bool) error {
	readers := append([]*reader{w.source}, w.targets...)
	lists := make([][]row, len(readers))
	var g errgroup.Group
	for i, r := range readers {
		g.Go(func() (err error) {
			lists[i], err = r.newest(ctx, t.table, n, wide)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range w.targets {
		l := leafRange{source: lists[0], target: lists[1+i], wide: wide, window: true}
		if err := e.confirm(ctx, w, t.table, i, l); err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.rows += uint64(len(lists[0]))
	e.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, list := range lists {
		for _, r := range list {
			t.total[i].rows++
			t.total[i].hash.xor(r.hash)
		}
	}
	return nil
}

// newest lists each of the newest rows once.
func (r *reader) newest(ctx context.Context, t *table, n int, wide bool) ([]row, error) {
	last := make([]string, len(t.key))
	for i, k := range t.key {
		last[i] = k.name
		if !k.desc {
			last[i] += " DESC"
		}
	}
	rows, err := r.list(ctx, t, t.newestSQL(r.database, strings.Join(last, ","), t.index, n, wide))
	if err != nil {
		return nil, err
	}
	column, index := t.counter()
	if column == "" {
		return rows, nil
	}
	more, err := r.list(ctx, t, t.newestSQL(r.database, schema.Quote(column)+" DESC", index, n, wide))
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, row := range rows {
		have[row.key.id()] = true
	}
	for _, row := range more {
		if !have[row.key.id()] {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// counter is an AUTO_INCREMENT column that does not lead the key, and the index
// that it leads.
func (t *table) counter() (column, index string) {
	for _, c := range t.Columns {
		if !c.AutoIncrement || strings.EqualFold(c.Name, t.key[0].column.Name) {
			continue
		}
		for _, ix := range t.Indexes {
			if len(ix.Parts) > 0 && strings.EqualFold(ix.Parts[0].Column, c.Name) && ix.Visible {
				return c.Name, ix.Name
			}
		}
	}
	return "", ""
}
