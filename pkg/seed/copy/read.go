package copy

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/vifl/vifl/pkg/schema"
)

// savepoint marks the start of a snapshot's transaction. Going back to it after a table
// keeps the snapshot and gives up the table's metadata lock: held until the end of the
// seed, it would make a DDL on the legacy wait, and every statement on that table behind it.
const savepoint = "vifl_copy"

// prepareSnapshot makes the session give values as they are stored.
func prepareSnapshot(ctx context.Context, c *sql.Conn) error {
	for _, q := range []string{
		"SAVEPOINT " + savepoint,
		"SET SESSION time_zone='+00:00', sql_mode='', sql_quote_show_create=1, net_write_timeout=3600, net_read_timeout=3600",
		// utf8mb4 for what we ask, bytes as stored for what comes back.
		"SET NAMES utf8mb4",
	} {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// chunk is what one LOAD DATA statement loads.
type chunk struct {
	t          *table
	data       []byte
	rows       uint64
	enumErrors uint64 // ENUM error values in it, each worth one warning
}

// readRange reads a key range of a table in the order of the primary key and cuts it into
// chunks.
func (f *fill) readRange(ctx context.Context, c *sql.Conn, t *table, where string) error {
	query := "SELECT " + t.selectList + " FROM " + schema.Quote(f.src.Database) + "." + schema.Quote(t.Name)
	if len(t.PrimaryKey) > 0 {
		// The whole row is in this index; another one that happens to cover the columns
		// would give the rows in an order that splits pages.
		query += " FORCE INDEX (PRIMARY)"
	}
	if where != "" {
		query += " WHERE " + where
	}
	if _, err := c.ExecContext(ctx, "SET character_set_results = NULL"); err != nil {
		return fmt.Errorf("%s: %w", f.src.Name, err)
	}
	err := c.Raw(func(dc any) error { return f.stream(ctx, dc, t, query) })
	if err == nil {
		_, err = c.ExecContext(ctx, "SET character_set_results = utf8mb4")
	}
	if err == nil {
		_, err = c.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
	}
	if err != nil {
		return fmt.Errorf("%s: read table %q: %w", f.src.Name, t.Name, err)
	}
	return f.closed(ctx, t)
}

// stream goes to the driver itself: database/sql would convert and copy each value once
// more, which is a third of the reading's time.
func (f *fill) stream(ctx context.Context, dc any, t *table, query string) error {
	q, ok := dc.(driver.QueryerContext)
	if !ok {
		return fmt.Errorf("the driver's connection (%T) cannot stream", dc)
	}
	rows, err := q.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) != t.columns {
		return fmt.Errorf("found %d columns, expected %d", len(row), t.columns)
	}
	ck := f.newChunk(t)
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if ck.data, err = encode(ck.data, row[:t.width], t.years); err != nil {
			return err
		}
		ck.rows++
		if err := t.note(row); err != nil {
			return err
		}
		for _, i := range t.enums {
			if n, ok := number(row[i]); ok && n == 0 {
				ck.enumErrors++
			}
		}
		if len(ck.data) >= f.o.ChunkBytes || (f.o.ChunkRows > 0 && ck.rows >= uint64(f.o.ChunkRows)) {
			if err := f.send(ctx, ck); err != nil {
				return err
			}
			ck = f.newChunk(t)
		}
	}
	if ck.rows == 0 {
		return nil
	}
	return f.send(ctx, ck)
}

func number(v driver.Value) (uint64, bool) {
	switch v := v.(type) {
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case float64:
		return uint64(v), true
	}
	return 0, false
}

func (f *fill) newChunk(t *table) *chunk {
	// A row may make the chunk longer than the bound; a small table needs less.
	return &chunk{t: t, data: f.buffers.get()}
}

func (f *fill) send(ctx context.Context, ck *chunk) error {
	ck.t.read.Add(ck.rows)
	ck.t.open.Add(1)
	select {
	case f.chunks <- ck:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closed notes that a range has been read. The table itself may be finished by that: then
// an empty chunk carries the news to a loader, which has a connection to the target.
func (f *fill) closed(ctx context.Context, t *table) error {
	if t.open.Add(-1) > 0 {
		return nil
	}
	t.open.Add(1)
	select {
	case f.chunks <- &chunk{t: t}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
