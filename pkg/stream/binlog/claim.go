package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/stream"
)

// takeoverWait bounds how long taking over waits for what a former worker is applying. The
// server ends that worker's connections after sessionIdle, which is shorter: a process that
// was put to sleep in the midst of a transaction blocks its successor only so long.
const takeoverWait = 15 * time.Second

// A claim is the right to apply a stream: the row's token, and the generation that was
// current when it was made.
//
// Every transaction that applies something first locks the row of stream_progress, shared
// or by writing the position, and goes on only while the generation is its own. Taking over
// writes that row: it waits for such a transaction to end, and every later one finds another
// generation. So it does not matter how long a worker slept, or what it believes; its clock
// is never asked.
type claim struct {
	w          *Worker
	id         int64
	token      string
	generation uint64
}

// claim waits until the stream has no worker, or one that is gone, and takes it over.
func (w *Worker) claim(ctx context.Context) (*claim, error) {
	token, err := newToken()
	if err != nil {
		return nil, err
	}
	for {
		c, err := w.tryClaim(ctx, token)
		if c != nil || ctx.Err() != nil || errors.Is(err, stream.ErrAbsent) || errors.Is(err, stream.ErrOther) || errors.Is(err, stream.ErrWrongServer) {
			return c, err
		}
		// An error of another kind may pass. There is no place to write it to; those who
		// look at the stream see that no worker has it.
		if !sleep(ctx, max(w.o.Takeover/6, 10*time.Millisecond)) {
			return nil, context.Cause(ctx)
		}
	}
}

// tryClaim returns nil when another worker has the stream.
func (w *Worker) tryClaim(ctx context.Context, token string) (*claim, error) {
	db, err := w.stream.db(ctx)
	if err != nil {
		return nil, err
	}
	r, err := w.stream.read(ctx, db, w.o.Takeover)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, stream.ErrAbsent
	case r.server != w.stream.server() || r.database != w.stream.database:
		return nil, w.stream.errorf("found id %d of server %s, database %q; expected server %s, database %q: %w", r.id, r.server, r.database, w.stream.server(), w.stream.database, stream.ErrOther)
	case r.alive:
		return nil, nil
	}
	// One whose address leads to another server must not take the stream from those that
	// know better, and end it with an error of its own. A server that does not answer now is
	// waited for as the owner.
	if err := w.stream.verify(ctx); errors.Is(err, stream.ErrWrongServer) {
		return nil, err
	}
	c := &claim{w: w, id: r.id, token: token}
	taken := false
	err = transact(ctx, db, takeoverWait, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, "UPDATE _vifl.stream_progress SET generation = generation + 1, beat = beat + 1 WHERE id = ?", c.id); err != nil {
			return err
		}
		res, err := conn.ExecContext(ctx, `UPDATE _vifl.stream SET token = ?, owner = LEFT(?, 255), seen = UTC_TIMESTAMP(6) WHERE id = ?
			AND (token IS NULL OR seen < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)`, token, w.o.Name, c.id, w.o.Takeover.Microseconds())
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(errLost, err)
		}
		taken = true
		return conn.QueryRowContext(ctx, "SELECT generation FROM _vifl.stream_progress WHERE id = ?", c.id).Scan(&c.generation)
	})
	if err != nil || !taken {
		return nil, err
	}
	return c, nil
}

// renew gives a sign of life.
func (c *claim) renew(ctx context.Context, db *sql.DB) error {
	res, err := db.ExecContext(ctx, "UPDATE _vifl.stream SET seen = UTC_TIMESTAMP(6) WHERE id = ? AND token = ?", c.id, c.token)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errLost, err)
	}
	return nil
}

// release lets the next worker take over at once.
func (c *claim) release(ctx context.Context) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	db, err := c.w.stream.db(ctx)
	if err != nil {
		return // the next one waits a little longer
	}
	_, _ = db.ExecContext(ctx, "UPDATE _vifl.stream SET token = NULL, owner = NULL WHERE id = ? AND token = ?", c.id, c.token)
}

// fence locks the row against taking over until the transaction that conn is in has ended.
// A transaction that writes the position itself locks FOR UPDATE, others FOR SHARE.
func (c *claim) fence(ctx context.Context, conn *sql.Conn, lock string) error {
	var generation uint64
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT generation FROM _vifl.stream_progress WHERE id = %d %s", c.id, lock)).Scan(&generation)
	switch {
	case errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err):
		return errLost
	case err != nil:
		return explain("", false, err)
	case generation != c.generation:
		return errLost
	}
	return nil
}
