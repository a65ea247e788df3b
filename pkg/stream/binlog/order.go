package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
)

const (
	// stopWait bounds StopAt and Stop when ctx does not.
	stopWait = 10 * time.Minute
	// restoreWait bounds putting the stream back as it was found after a failure.
	restoreWait = 10 * time.Second
	// deleteWait bounds how long Delete waits for what a worker is applying.
	deleteWait = time.Minute
	// pollFast is how often a handle looks whether an order was carried out; pollSlow when
	// fastFor has passed. Inside a switch it is part of the pause.
	pollFast = 2 * time.Millisecond
	pollSlow = 50 * time.Millisecond
	fastFor  = time.Second
	// attentive is how long after an order to stop the worker looks for the next one often.
	attentive = 5 * time.Second
)

var errOvertaken = errors.New("somebody else gave another order meanwhile")

// Start is stream.Stream's. It refuses a source that is another server than from is a
// position of, and tables of the target that the stream cannot keep in step.
func (s *Stream) Start(ctx context.Context, from position.FilePos) error {
	if s.group != nil || from.Server != s.source.Server {
		return s.errorf("start at %s: the position is of server %s, expected %s", from, from.Server, s.server())
	}
	return s.start(ctx, from, "", s.verify)
}

// start makes the stream behind a position or, where it reads a group, behind GTIDs.
func (s *Stream) start(ctx context.Context, from position.FilePos, gtid string, verify func(context.Context) error) error {
	r, err := s.row(ctx)
	if err != nil {
		return err
	}
	if r != nil {
		if err := s.sameStart(r, from, gtid); err != nil {
			return err
		}
		return s.Resume(ctx)
	}
	if err := verify(ctx); err != nil {
		return err
	}
	db, err := s.db(ctx)
	if err != nil {
		return err
	}
	tables, err := schema.Read(ctx, db, s.database)
	if err != nil {
		return s.errorf("the target: %w", err)
	}
	if err := s.fit(tables); err != nil {
		return err
	}
	if err := s.makeTables(ctx, db); err != nil {
		return err
	}
	if err := s.insert(ctx, db, from, gtid); err != nil {
		// The reply may have been lost, or somebody was faster: what is there decides.
		if r, rerr := s.row(ctx); rerr != nil || r == nil {
			return s.errorf("start at %s%s: %w", from, gtid, err)
		}
	}
	r, err = s.present(ctx)
	if err != nil {
		return err
	}
	s.wake()
	return s.sameStart(r, from, gtid)
}

func (s *Stream) insert(ctx context.Context, db *sql.DB, from position.FilePos, gtid string) error {
	applied := sql.NullString{String: gtid, Valid: s.group != nil}
	return transact(ctx, db, restoreWait, func(c *sql.Conn) error {
		res, err := c.ExecContext(ctx, `INSERT INTO _vifl.stream (name, server, source, db, start_file, start_pos, start_gtid, wanted, attention)
			VALUES (?, ?, LEFT(?, 255), ?, ?, ?, ?, 'running', UTC_TIMESTAMP(6))`,
			s.name, s.server(), s.from(), s.database, from.File, from.Pos, applied)
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		_, err = c.ExecContext(ctx, "INSERT INTO _vifl.stream_progress (id, file, pos, server, gtid, state, updated) VALUES (?, ?, ?, ?, ?, 'running', UTC_TIMESTAMP(6))", id, from.File, from.Pos, from.Server, applied)
		return err
	})
}

// verify proves that the source's address leads to the server that is meant.
func (s *Stream) verify(ctx context.Context) error {
	db, err := connect(ctx, s.source)
	switch {
	case errors.Is(err, stream.ErrWrongServer):
		return s.errorf("%w: correct the address, or seed again from this server", err)
	case err != nil:
		return s.errorf("the source: %w", err)
	}
	_ = db.Close()
	return nil
}

// connect opens a pool to a source, and proves that it is the server that is meant.
func connect(ctx context.Context, source dump.Source) (*sql.DB, error) {
	db, err := mysqlconn.Connect(ctx, source.Target)
	if err != nil {
		return nil, err
	}
	var uuid string
	if err := db.QueryRowContext(ctx, "SELECT @@global.server_uuid").Scan(&uuid); err != nil {
		_ = db.Close()
		return nil, mysqlconn.Explain(source.Target, err)
	}
	if uuid != source.Server {
		_ = db.Close()
		return nil, fmt.Errorf("%s: found server_uuid %s, expected %s: %w", source.Target, uuid, source.Server, stream.ErrWrongServer)
	}
	return db, nil
}

func (s *Stream) sameStart(r *row, from position.FilePos, gtid string) error {
	if r.server == s.server() && r.database == s.database && r.start == from && r.startGTID == gtid {
		return nil
	}
	return s.errorf("found id %d from %s%s of server %s, database %q; expected from %s%s of server %s, database %q: %w: delete it if it is not used",
		r.id, r.start, r.startGTID, r.server, r.database, from, gtid, s.server(), s.database, stream.ErrOther)
}

// Resume is stream.Stream's.
func (s *Stream) Resume(ctx context.Context) error {
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if err := s.blocked(r); err != nil {
		return err
	}
	if r.running && r.stop.IsZero() && !r.failed() {
		return nil
	}
	_, err = s.order(ctx, r, true, position.FilePos{})
	return err
}

// Stop is stream.Stream's. A stream that no worker has is stopped as well.
func (s *Stream) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if r.stopped() || r.failed() {
		return nil // and its message stays, which may say why it must not be resumed
	}
	if r, err = s.order(ctx, r, false, position.FilePos{}); err != nil {
		return err
	}
	r, err = s.settled(ctx, r)
	if err != nil {
		return err
	}
	if !r.stopped() && !r.failed() {
		return s.errorf("stop: %w", errOvertaken)
	}
	return nil
}

// Status is stream.Stream's.
func (s *Stream) Status(ctx context.Context) (stream.Status, error) {
	r, err := s.row(ctx)
	if err != nil {
		return stream.Status{}, err
	}
	if r == nil {
		return stream.Status{State: stream.Absent}, nil
	}
	st := stream.Status{
		ID: r.id, State: stream.Running, Position: r.at, GTID: r.gtid, StartPosition: r.start, Source: r.source,
		Blocked: r.blocked, Message: r.message, Updated: r.updated, Transaction: r.transaction,
	}
	switch {
	case r.failed():
		st.State = stream.Failed
	case r.stopped():
		st.State = stream.Stopped
	case !r.alive:
		st.Unattended = true
		st.Message = "no worker has it: vifl serve runs one"
		if r.owner != "" {
			st.Message = "its worker (" + r.owner + ") gives no sign of life: vifl serve runs another"
		}
	}
	return st, nil
}

// Delete is stream.Stream's. It waits for what a worker is applying just now; behind it the
// worker applies nothing any more.
func (s *Stream) Delete(ctx context.Context) error {
	for {
		r, err := s.row(ctx)
		if err != nil || r == nil {
			return err
		}
		db, err := s.db(ctx)
		if err != nil {
			return err
		}
		err = transact(ctx, db, deleteWait, func(c *sql.Conn) error {
			if _, err := c.ExecContext(ctx, "DELETE FROM _vifl.stream_progress WHERE id = ?", r.id); err != nil {
				return err
			}
			_, err := c.ExecContext(ctx, "DELETE FROM _vifl.stream WHERE id = ?", r.id)
			return err
		})
		if err != nil {
			return s.errorf("delete id %d: %w", r.id, err)
		}
		s.wake()
	}
}

// Expect tells the worker that orders will come soon, so that it looks for them every few
// milliseconds for a while. Called ahead of a freeze it shortens the pause where the worker
// is in another process and the shard is so quiet that it would look less often.
func (s *Stream) Expect(ctx context.Context) error {
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	db, err := s.db(ctx)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "UPDATE _vifl.stream SET attention = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE id = ?", (6 * attentive).Microseconds(), r.id); err != nil {
		return s.errorf("id %d: %w", r.id, err)
	}
	return nil
}

// blocked is the error when the stream stopped at a statement that must be resolved.
func (s *Stream) blocked(r *row) error {
	if r.blocked == "" {
		return nil
	}
	what := "no DDL may run on the shard during the move; abort and seed again"
	if s.group != nil {
		what = "the way back ends here: vifl complete --one-way"
	}
	return s.errorf("it stopped before a %s behind %s (%s): %w: %s", r.blocked, r.at, r.message, stream.ErrBlocked, what)
}

// order writes an order, unless somebody else gave one since r was read, and returns r as it
// is then.
func (s *Stream) order(ctx context.Context, r *row, running bool, stop position.FilePos) (*row, error) {
	db, err := s.db(ctx)
	if err != nil {
		return nil, err
	}
	wanted := stateStopped
	if running {
		wanted = stateRunning
	}
	var file, pos, server any
	if !stop.IsZero() {
		file, pos, server = stop.File, stop.Pos, stop.Server
	}
	// Who stops it will soon want something else of it.
	expect := attentive
	if running && stop.IsZero() {
		expect = 0
	}
	res, err := db.ExecContext(ctx, `UPDATE _vifl.stream SET command = command + 1, wanted = ?, stop_file = ?, stop_pos = ?, stop_server = ?,
		attention = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE id = ? AND command = ?`, wanted, file, pos, server, expect.Microseconds(), r.id, r.command)
	if err != nil {
		return nil, s.errorf("id %d: %w", r.id, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		if _, err := s.present(ctx); err != nil {
			return nil, err
		}
		return nil, s.errorf("id %d: %w: see its status", r.id, errOvertaken)
	}
	s.wake()
	next := *r
	next.command, next.running, next.stop = r.command+1, running, stop
	return &next, nil
}

// settled waits until the order that r was read with was carried out, or cannot be, and
// returns what is there then. An order to stop that nobody is there to carry out is carried
// out here.
func (s *Stream) settled(ctx context.Context, r *row) (*row, error) {
	began, id, command := time.Now(), r.id, r.command
	for {
		now, err := s.present(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, s.errorf("it was at %s, %s: %w", r.at, r.worker(), context.Cause(ctx))
			}
			return nil, err
		}
		r = now
		switch {
		case r.id != id:
			return nil, s.errorf("found id %d, expected %d: somebody made the stream anew: %w", r.id, id, stream.ErrOther)
		case r.command != command:
			return nil, s.errorf("id %d: %w: see its status", id, errOvertaken)
		case r.stopped() || r.failed():
			return r, nil
		}
		if !r.running && !r.alive {
			done, err := s.stopOrphan(ctx, r)
			if err != nil {
				return nil, err
			}
			if done {
				continue
			}
		}
		wait := pollFast
		if time.Since(began) > fastFor {
			wait = pollSlow
		}
		select {
		case <-ctx.Done():
			return nil, s.errorf("it was at %s, %s: %w: see that its worker runs and reaches both servers, and that a transaction ends at the place to stop at", r.at, r.worker(), context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// worker says how the worker is.
func (r *row) worker() string {
	switch {
	case r.alive && r.message != "":
		return "its worker says: " + r.message
	case r.alive:
		return "its worker is " + r.owner
	case r.owner != "":
		return "its worker " + r.owner + " gives no sign of life"
	}
	return "no worker has it"
}

// stopOrphan stops a stream that no worker has: with the generation raised, one that was
// only asleep applies nothing any more. That is impossible in the midst of a batch, whose
// other half only a worker can apply.
func (s *Stream) stopOrphan(ctx context.Context, r *row) (done bool, err error) {
	db, err := s.db(ctx)
	if err != nil {
		return false, err
	}
	err = transact(ctx, db, takeoverWait, func(c *sql.Conn) error {
		res, err := c.ExecContext(ctx, `UPDATE _vifl.stream_progress p JOIN _vifl.stream s ON s.id = p.id
			SET p.generation = p.generation + 1, p.state = 'stopped', p.passed = FALSE, p.done = s.command, p.message = ''
			WHERE p.id = ? AND p.ahead_file IS NULL AND p.blocked = '' AND s.command = ?
			AND (s.token IS NULL OR s.seen < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)`, r.id, r.command, defaultTakeover.Microseconds())
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		done = n > 0
		return err
	})
	if err != nil && !mysqlconn.IsLockTimeout(err) && !mysqlconn.IsDeadlock(err) {
		return false, s.errorf("stopping it without a worker: %w", err)
	}
	return done && err == nil, nil
}
