package legacy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

// Schema is the database that holds what vifl writes on a legacy server.
const Schema = "_vifl"

const createHeartbeat = "CREATE TABLE IF NOT EXISTS `_vifl`.`heartbeat` (" +
	"server_uuid CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, " +
	"ts_us BIGINT NOT NULL COMMENT 'microseconds since 1970 UTC, by the clock of the server', " +
	"seq BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB COMMENT='written by vifl during a move'"

// Prepare makes the database _vifl with the heartbeat table, when it is not there. It
// returns the statements that undo what it did in this call. Both statements go through
// replication to the other side, where IF NOT EXISTS makes them harmless.
func (s *Server) Prepare(ctx context.Context) (undo []string, err error) {
	var databases, tables int
	err = s.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name=?), "+
		"(SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=? AND table_name='heartbeat')", Schema, Schema).Scan(&databases, &tables)
	if err != nil {
		return nil, s.failed("looking for "+Schema+".heartbeat", err)
	}
	if databases == 0 {
		if _, err := s.db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `_vifl` CHARACTER SET utf8mb4"); err != nil {
			return nil, s.failed("creating the database "+Schema, err)
		}
		undo = append(undo, "DROP DATABASE IF EXISTS `_vifl`")
	}
	if tables == 0 {
		if _, err := s.db.ExecContext(ctx, createHeartbeat); err != nil {
			return undo, s.failed("creating "+Schema+".heartbeat", err)
		}
		if databases > 0 {
			undo = append(undo, "DROP TABLE IF EXISTS `_vifl`.`heartbeat`")
		}
	}
	return undo, nil
}

// beatAttempts bounds how often a beat is written again because the binlog was rotated
// under it; each rotation costs a file, so more than a few in a row is not chance.
const beatAttempts = 5

// Beat writes one heartbeat row and returns a position at or behind that write, in the file
// that holds the write: never the very start of a fresh binlog, which a VReplication stream
// cannot stop at. The server must be writable; Prepare must have been called once.
//
// The row is keyed by the server's uuid, so that the beats of the two sides, which reach
// each other by replication, do not collide.
func (s *Server) Beat(ctx context.Context) (position.FilePos, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return position.FilePos{}, s.failed("writing a heartbeat", err)
	}
	defer conn.Close()
	for range beatAttempts {
		before, err := s.positionOn(ctx, conn)
		if err != nil {
			return position.FilePos{}, err
		}
		_, err = conn.ExecContext(ctx, "INSERT INTO `_vifl`.`heartbeat` (server_uuid, ts_us, seq) "+
			"VALUES (@@server_uuid, CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED), 1) "+
			"ON DUPLICATE KEY UPDATE ts_us = CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED), seq = seq + 1")
		if err != nil {
			if mysqlconn.IsNoSuchTable(err) {
				return position.FilePos{}, fmt.Errorf("%s: no heartbeat table: %w: the server was not prepared", s.target, err)
			}
			return position.FilePos{}, s.failed("writing a heartbeat", err)
		}
		after, err := s.endOfBinlog(ctx, conn, before.Server)
		if err != nil {
			return position.FilePos{}, err
		}
		// A rotation between the write and the question leaves us at the start of the new
		// file, with the write in the old one.
		if after.File == before.File {
			if after.Pos <= before.Pos {
				return position.FilePos{}, fmt.Errorf("%s: a heartbeat did not move the binlog (still %s): is %s excluded by binlog_do_db or binlog_ignore_db, or the session's sql_log_bin off?", s.target, after, Schema)
			}
			return after, nil
		}
	}
	return position.FilePos{}, fmt.Errorf("%s: the binlog was rotated during each of %d heartbeats: find out what flushes it", s.target, beatAttempts)
}

// Mark is a heartbeat with the time at which it was sent, by our own clock.
type Mark struct {
	Position position.FilePos
	Time     time.Time
}

// Mark beats once. A stream that has passed Position lags at most the time since Time.
func (s *Server) Mark(ctx context.Context) (Mark, error) {
	at := time.Now()
	p, err := s.Beat(ctx)
	return Mark{Position: p, Time: at}, err
}

// maxMarks bounds what a Pulse remembers: at one beat a second, over an hour in full
// resolution; beyond it the older half is thinned out.
const maxMarks = 4096

// Pulse beats at an interval and remembers when, so that a position can be turned into a
// lag in time. It ends with its context or with Stop.
type Pulse struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex // covers what follows
	marks []Mark     // oldest first
	err   error      // of the newest attempt
}

// StartPulse beats once, so that it fails at once where it cannot work, and then at every
// interval until ctx ends or Stop is called.
func (s *Server) StartPulse(ctx context.Context, every time.Duration) (*Pulse, error) {
	first, err := s.Mark(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Pulse{cancel: cancel, done: make(chan struct{}), marks: []Mark{first}}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			beat, cancel := context.WithTimeout(ctx, max(every, 5*time.Second))
			m, err := s.Mark(beat)
			cancel()
			if ctx.Err() != nil {
				return
			}
			p.add(m, err)
		}
	}()
	return p, nil
}

func (p *Pulse) add(m Mark, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err != nil {
		return
	}
	p.marks = append(p.marks, m)
	if len(p.marks) <= maxMarks {
		return
	}
	kept := p.marks[:0]
	for i, m := range p.marks {
		if i >= maxMarks/2 || i%2 == 0 {
			kept = append(kept, m)
		}
	}
	p.marks = kept
}

// Lag is the age of the oldest beat that a stream at position at has not passed; 0 when it
// has passed all. With an error (the position is of another server, or the server does not
// take beats now) the lag is the least that can be said, not the truth.
func (p *Pulse) Lag(at position.FilePos) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.marks {
		order, err := position.Compare(at, m.Position)
		if err != nil {
			return 0, err
		}
		if order < 0 {
			return time.Since(m.Time), p.err
		}
	}
	if p.err != nil {
		return time.Since(p.marks[len(p.marks)-1].Time), p.err
	}
	return 0, nil
}

// Last is the newest beat.
func (p *Pulse) Last() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks[len(p.marks)-1]
}

// Stop ends the beating and waits for a beat under way. It may be called more than once.
func (p *Pulse) Stop() {
	p.cancel()
	<-p.done
}
