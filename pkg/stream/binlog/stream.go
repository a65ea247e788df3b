package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream"
)

// Config says which stream it is. The handle and the worker of one stream have the same.
type Config struct {
	Shard shardid.ID
	// Source is the legacy server, with an account that has REPLICATION SLAVE, REPLICATION
	// CLIENT; Server is the server_uuid that it must have.
	Source mysqlconn.Target
	Server string
	// Database is the shard's database, of the same name on both ends.
	Database string
	// Target is a pool of connections to the landing's current primary, with all privileges
	// on the database and on _vifl. It is asked for again when the connection is lost, so
	// that another primary is found; the caller keeps the pool, and closes it.
	Target func(context.Context) (*sql.DB, error)
}

// Name is the stream's in _vifl.stream.
func (c Config) Name() string { return "vifl_" + c.Shard.String() }

func (c Config) errorf(format string, args ...any) error {
	return fmt.Errorf("stream %s: "+format, append([]any{c.Name()}, args...)...)
}

// Stream is the handle of a shard's binlog stream: it gives orders, which a Worker carries
// out, in this process or in another. It keeps nothing in memory.
type Stream struct{ Config }

var _ stream.Stream = (*Stream)(nil)

// New describes a stream. It does nothing.
func New(c Config) *Stream { return &Stream{c} }

// row is the stream's row and the pool it came from; the row is nil when there is none.
func (s *Stream) row(ctx context.Context) (*sql.DB, *row, error) {
	db, err := s.Target(ctx)
	if err != nil {
		return nil, nil, s.errorf("the landing's primary: %w", err)
	}
	r, err := readRow(ctx, db, s.Name())
	if err != nil {
		return nil, nil, s.errorf("%w", err)
	}
	return db, r, nil
}

func (s *Stream) present(ctx context.Context) (*sql.DB, *row, error) {
	db, r, err := s.row(ctx)
	if err == nil && r == nil {
		err = s.errorf("%w: start it first", stream.ErrAbsent)
	}
	return db, r, err
}

// Start is stream.Stream's. It refuses tables without a primary key, and triggers.
func (s *Stream) Start(ctx context.Context, from position.FilePos) error {
	if from.Server != s.Server {
		return s.errorf("start at %s: the position is of server %s, expected %s", from, from.Server, s.Server)
	}
	db, r, err := s.row(ctx)
	if err != nil {
		return err
	}
	if r == nil {
		if err := s.create(ctx, db, from); err != nil {
			return err
		}
		if db, r, err = s.present(ctx); err != nil {
			return err
		}
	}
	if err := s.sameStart(r, from); err != nil {
		return err
	}
	return s.resume(ctx, db, r)
}

func (s *Stream) create(ctx context.Context, db *sql.DB, from position.FilePos) error {
	if _, _, err := readTables(ctx, db, s.Database); err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	if err := prepareTables(ctx, db); err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	defer func() { _ = tx.Rollback() }()
	res, err := tx.ExecContext(ctx, "INSERT INTO `_vifl`.`stream` (name, server, source, database_name, start_position, position, read_from, wanted, state, updated) VALUES (?,?,?,?,?,?,?,?,?,NOW(6))",
		s.Name(), s.Server, s.Source.String(), s.Database, from.String(), from.String(), from.String(), running, running)
	if mysqlconn.IsDuplicateKey(err) {
		return nil // somebody was faster; what is there decides
	}
	if err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	id, err := res.LastInsertId()
	if err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO `_vifl`.`stream_fence` (id, generation) VALUES (?, 0)", id); err != nil {
		return s.errorf("start at %s: %w", from, err)
	}
	if err := tx.Commit(); err != nil {
		// The reply may have been lost: what is there decides.
		if _, r, rerr := s.row(ctx); rerr != nil || r == nil {
			return s.errorf("start at %s: %w", from, err)
		}
	}
	return nil
}

// prepareTables makes vifl's tables. The account may lack CREATE on the server when they are
// there already.
func prepareTables(ctx context.Context, db *sql.DB) error {
	var n int
	err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='_vifl' AND table_name IN ('stream','stream_fence')").Scan(&n)
	if err != nil {
		return fmt.Errorf("looking for _vifl.stream: %w", err)
	}
	if n == 2 {
		return nil
	}
	for _, q := range []string{createDatabase, createStream, createFence} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("creating _vifl.stream: %w", err)
		}
	}
	return nil
}

// readTables reads how the target's tables look, and refuses what cannot be streamed into.
func readTables(ctx context.Context, db *sql.DB, database string) (map[string]*table, charsets, error) {
	sc, err := schema.Read(ctx, db, database)
	if err != nil {
		return nil, nil, err
	}
	if len(sc.Triggers) > 0 {
		return nil, nil, finalError{fmt.Errorf("the landing has the trigger %q: it would change rows a second time, as what it does is in the binlog already: drop it there", sc.Triggers[0])}
	}
	cs, err := readCharsets(ctx, db)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the character sets: %w", err)
	}
	out := map[string]*table{}
	for _, t := range sc.Tables {
		l, err := layout(database, t, cs)
		if err != nil {
			return nil, nil, finalError{err}
		}
		out[t.Name] = l
	}
	return out, cs, nil
}

func (s *Stream) sameStart(r *row, from position.FilePos) error {
	switch {
	case r.server != s.Server || r.database != s.Database:
		return s.errorf("found id %d of database %q from server %s, expected %q from %s: %w: delete it if it is not used", r.id, r.database, r.server, s.Database, s.Server, stream.ErrOther)
	case r.start != from:
		return s.errorf("found id %d started from %s, expected %s: %w: delete it if it is not used", r.id, r.start, from, stream.ErrOther)
	}
	return nil
}

// Resume is stream.Stream's.
func (s *Stream) Resume(ctx context.Context) error {
	db, r, err := s.present(ctx)
	if err != nil {
		return err
	}
	return s.resume(ctx, db, r)
}

func (s *Stream) resume(ctx context.Context, db *sql.DB, r *row) error {
	if err := s.blockedAt(r); err != nil {
		return err
	}
	if r.wanted == running && r.state == running && r.stop.IsZero() {
		return nil
	}
	return s.order(ctx, db, r, "wanted=?, state=?, message='', stop_position=''", running, running)
}

func (s *Stream) blockedAt(r *row) error {
	if r.state != failed || r.blocked == "" {
		return nil
	}
	return s.errorf("at %s: %s: %w", r.pos, r.message, stream.ErrBlocked)
}

// order changes what the stream is to do, unless it was made anew meanwhile.
func (s *Stream) order(ctx context.Context, db *sql.DB, r *row, set string, args ...any) error {
	res, err := db.ExecContext(ctx, "UPDATE `_vifl`.`stream` SET control=control+1, passed='', "+set+" WHERE id=? AND blocked=''", append(args, r.id)...)
	if err != nil {
		return s.errorf("id %d: %w", r.id, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		_, now, err := s.present(ctx)
		if err != nil {
			return err
		}
		if now.id != r.id {
			return s.errorf("found id %d, expected %d: somebody made the stream anew: %w", now.id, r.id, stream.ErrOther)
		}
		return s.blockedAt(now)
	}
	return nil
}

const (
	// pollFast is how often the row is read while a stop is near: inside a switch it is
	// part of the pause.
	pollFast = 2 * time.Millisecond
	// pollSlow is for long waits, when half a second in all has passed.
	pollSlow = 25 * time.Millisecond
	fastFor  = 500 * time.Millisecond
	// stopWait bounds StopAt and Stop when ctx does not.
	stopWait = 10 * time.Minute
	// restoreWait bounds putting the stream back as it was found after a failure.
	restoreWait = 10 * time.Second
)

// Stop is stream.Stream's. A worker that runs ends its batch first. When none has the
// stream, and the target is at a transaction's end, it is stopped at once.
func (s *Stream) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	db, r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if r.state != running {
		return nil // and its message stays
	}
	if err := s.order(ctx, db, r, "wanted=?, stop_position=''", stopped); err != nil {
		if errors.Is(err, stream.ErrBlocked) {
			return nil
		}
		return err
	}
	return s.watch(ctx, r.id, func(now *row) (bool, error) {
		switch {
		case now.state != running:
			return true, nil
		case now.wanted != stopped:
			return false, s.errorf("stop: somebody else resumed it")
		case !now.stale():
			return false, nil
		case now.ahead.IsZero():
			return false, s.stopUnowned(ctx, now)
		}
		return false, nil
	})
}

// stopUnowned stops a stream that nobody works on, by shutting out whoever did.
func (s *Stream) stopUnowned(ctx context.Context, r *row) error {
	db, err := s.Target(ctx)
	if err != nil {
		return s.errorf("the landing's primary: %w", err)
	}
	got, err := claim(ctx, db, r, "")
	if err != nil || !got {
		return err
	}
	_, err = db.ExecContext(ctx, "UPDATE `_vifl`.`stream` SET state=? WHERE id=? AND generation=? AND wanted=? AND ahead=''", stopped, r.id, r.generation, stopped)
	return err
}

// watch reads the row until done says so.
func (s *Stream) watch(ctx context.Context, id int64, done func(*row) (bool, error)) error {
	began := time.Now()
	for {
		_, now, err := s.present(ctx)
		if err != nil {
			return err
		}
		if now.id != id {
			return s.errorf("found id %d, expected %d: somebody made the stream anew: %w", now.id, id, stream.ErrOther)
		}
		if ok, err := done(now); ok || err != nil {
			return err
		}
		wait := pollFast
		if time.Since(began) > fastFor {
			wait = pollSlow
		}
		select {
		case <-ctx.Done():
			return s.errorf("it was at %s%s%s: %w", now.pos, because(now.message), now.nobody(), context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return " (its last message: " + message + ")"
}

func (r *row) nobody() string {
	if r.stale() {
		return ", and no worker runs it: start one"
	}
	return ""
}

// StopAt is stream.Stream's.
func (s *Stream) StopAt(ctx context.Context, p position.FilePos) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	db, r, err := s.present(ctx)
	if err != nil {
		return err
	}
	c, err := position.Compare(r.pos, p)
	if err != nil {
		return s.errorf("stop at %s: %w", p, err)
	}
	if c > 0 {
		return s.errorf("stop at %s: it is at %s: %w", p, r.pos, stream.ErrPassed)
	}
	if err := s.blockedAt(r); err != nil {
		return err
	}
	if r.state == stopped && c == 0 {
		return nil
	}
	if err := s.order(ctx, db, r, "wanted=?, state=?, message='', stop_position=?", running, running, p.String()); err != nil {
		return err
	}
	err = s.watch(ctx, r.id, func(now *row) (bool, error) {
		switch {
		case now.state == stopped && now.pos == p:
			return true, nil
		case now.passed == p:
			return false, s.errorf("stop at %s: the next transaction behind %s ends behind that, so none ends there: %w", p, now.pos, stream.ErrPassed)
		case now.state == failed:
			if err := s.blockedAt(now); err != nil {
				return false, err
			}
			return false, s.errorf("stop at %s: it failed at %s: %s", p, now.pos, now.message)
		case now.state == stopped:
			return false, s.errorf("stop at %s: somebody else stopped it at %s", p, now.pos)
		case now.stop != p:
			return false, s.errorf("stop at %s: somebody else took the order to stop away", p)
		}
		return false, nil
	})
	if err != nil && !errors.Is(err, stream.ErrBlocked) && !errors.Is(err, stream.ErrOther) {
		s.restore(ctx, r)
	}
	return err
}

// restore puts the stream back as StopAt found it, running or stopped, without a position to
// stop at.
func (s *Stream) restore(ctx context.Context, found *row) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
	defer cancel()
	db, r, err := s.row(ctx)
	if err != nil || r == nil || r.id != found.id || r.state == failed {
		return
	}
	if found.state == running {
		_ = s.order(ctx, db, r, "wanted=?, state=?, stop_position=''", running, running)
		return
	}
	_ = s.order(ctx, db, r, "wanted=?, stop_position=''", stopped)
}

// Status is stream.Stream's.
func (s *Stream) Status(ctx context.Context) (stream.Status, error) {
	_, r, err := s.row(ctx)
	if err != nil {
		return stream.Status{}, err
	}
	if r == nil {
		return stream.Status{State: stream.Absent}, nil
	}
	st := stream.Status{
		ID: r.id, State: r.streamState(), Position: r.pos, StartPosition: r.start, Source: r.source,
		Blocked: r.blocked, Message: r.message, Updated: r.updated, Transaction: r.transactions,
	}
	if st.State == stream.Running && r.stale() {
		st.Message = strings.TrimPrefix(st.Message+"; no worker runs it", "; ")
	}
	return st, nil
}

// Delete is stream.Stream's. It waits for what is being applied, and nothing is applied
// after it.
func (s *Stream) Delete(ctx context.Context) error {
	db, r, err := s.row(ctx)
	if err != nil || r == nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.errorf("delete id %d: %w", r.id, err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, q := range []string{"DELETE FROM `_vifl`.`stream_fence` WHERE id=?", "DELETE FROM `_vifl`.`stream` WHERE id=?"} {
		if _, err := tx.ExecContext(ctx, q, r.id); err != nil {
			return s.errorf("delete id %d: %w", r.id, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return s.errorf("delete id %d: %w", r.id, err)
	}
	return nil
}
