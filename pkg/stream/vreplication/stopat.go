package vreplication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
)

const (
	// pollFast is how often the row is read while a stop is near: inside a switch it is
	// part of the pause. One reading takes some 3 ms.
	pollFast = 5 * time.Millisecond
	// pollSlow is for long waits, when half a second in all has passed.
	pollSlow = 50 * time.Millisecond
	fastFor  = 500 * time.Millisecond
	// stopWait bounds StopAt when ctx does not.
	stopWait = 10 * time.Minute
	// headAtMost bounds the head of a binlog, which has some 150 bytes, and more only where
	// it lists GTIDs. Behind it no time is spent on looking: a stop is part of a pause.
	headAtMost = 1 << 16
	// restoreWait bounds putting the stream back as it was found after a failure.
	restoreWait = 10 * time.Second
)

// StopAt is stream.Stream's.
func (s *Stream) StopAt(ctx context.Context, p position.FilePos) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if err := s.canStop(ctx, r, p); err != nil {
		return err
	}
	if r.state == "Stopped" && r.pos == p {
		return nil
	}
	err = s.runUntil(ctx, r, p)
	if err != nil && !errors.Is(err, stream.ErrBlocked) {
		s.restore(ctx, r)
	}
	return err
}

// canStop refuses what VReplication would get wrong without saying so.
func (s *Stream) canStop(ctx context.Context, r *row, p position.FilePos) error {
	c, err := position.Compare(r.pos, p)
	if err != nil {
		return s.errorf("stop at %s: %w", p, err)
	}
	if c > 0 {
		return s.errorf("stop at %s: it is at %s: %w", p, r.pos, stream.ErrPassed)
	}
	if err := s.blocked(r); err != nil {
		return err
	}
	// VReplication compares names as text: it would take binlog.1000000 as passed while it
	// is at binlog.999999, and stop at once.
	if c < 0 && r.pos.File != p.File && strings.Compare(r.pos.File, p.File) > 0 {
		return s.errorf("stop at %s: it is at %s, whose file name sorts behind as text, which VReplication goes by: wait until it has got into the new file", p, r.pos)
	}
	if s.source != nil && r.pos != p && p.Pos < headAtMost {
		return s.notFresh(ctx, p)
	}
	return nil
}

// notFresh refuses the start of a binlog: no transaction ends there, so VReplication never
// stops there; it waits for the next event and stops behind that.
func (s *Stream) notFresh(ctx context.Context, p position.FilePos) error {
	db, err := mysqlconn.Connect(ctx, *s.source)
	if err != nil {
		return s.errorf("stop at %s: %w", p, err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "show binlog events in "+quote(p.File)+" limit 2")
	if err != nil {
		return s.errorf("stop at %s: reading the head of that file on %s: %w", p, s.source, err)
	}
	defer rows.Close()
	for rows.Next() {
		var file, kind, info string
		var pos, end uint64
		var server uint32
		if err := rows.Scan(&file, &pos, &kind, &server, &end, &info); err != nil {
			return s.errorf("stop at %s: reading the head of that file on %s: %w", p, s.source, err)
		}
		if (kind == "Format_desc" || kind == "Previous_gtids") && p.Pos <= end {
			return s.errorf("stop at %s: that is the start of a binlog, where no transaction ends and VReplication never stops: write something on the legacy (a heartbeat) and stop behind that", p)
		}
	}
	if err := rows.Err(); err != nil {
		return s.errorf("stop at %s: reading the head of that file on %s: %w", p, s.source, err)
	}
	return nil
}

// runUntil lets the stream run to p. Where a statement stops it on the way that means
// nothing to the shard's tables, it runs on.
func (s *Stream) runUntil(ctx context.Context, r *row, p position.FilePos) error {
	run := "state='Running', message='', stop_pos=" + quote(p.Vitess())
	if err := s.set(ctx, r, run); err != nil {
		return err
	}
	began, id := time.Now(), r.id
	for {
		now, err := s.present(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return s.errorf("stop at %s: it was at %s: %w", p, r.pos, context.Cause(ctx))
			}
			return err
		}
		r = now
		if r.id != id {
			return s.errorf("stop at %s: found id %d, expected %d: somebody made the stream anew: %w", p, r.id, id, stream.ErrOther)
		}
		switch {
		case r.state == "Running" && r.stopPos != p.Vitess():
			return s.errorf("stop at %s: somebody else took the order to stop away (stop_pos is now %q)", p, r.stopPos)
		case r.state == "Running":
		case r.state != "Stopped":
			return s.errorf("stop at %s: it failed at %s (%s): %s", p, r.pos, r.state, scrub(r.message))
		case r.pos == p:
			// Also when the last statement stopped it by itself: it cannot be told apart,
			// and it is where it was asked to be. Resume looks at what that was.
			return s.blocked(r)
		default:
			c, err := position.Compare(r.pos, p)
			if err != nil {
				return s.errorf("stop at %s: %w", p, err)
			}
			if err := s.blocked(r); err != nil {
				return err
			}
			if c > 0 {
				return s.errorf("stop at %s: it stopped at %s, so no transaction ends there: %w", p, r.pos, stream.ErrPassed)
			}
			if _, harmless := stoppedAt(r.message, s.database); !harmless {
				return s.errorf("stop at %s: it stopped at %s already: %s", p, r.pos, reason(r.message))
			}
			if err := s.set(ctx, r, run); err != nil {
				return err
			}
		}
		wait := pollFast
		if time.Since(began) > fastFor {
			wait = pollSlow
		}
		select {
		case <-ctx.Done():
			return s.errorf("stop at %s: it was at %s%s: %w: see that the tablet reaches the legacy server, and that a transaction ends there", p, r.pos, because(r.message), context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

func reason(message string) string {
	if message == "" {
		return "somebody else stopped it"
	}
	return scrub(message)
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf(" (its last message: %s)", scrub(message))
}

// restore puts the stream back as StopAt found it, running or stopped, without a position
// to stop at: one that is left behind would stop it at some later time. When that fails
// too, the next StopAt or Resume sets it anew.
func (s *Stream) restore(ctx context.Context, found *row) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
	defer cancel()
	r, err := s.row(ctx)
	if err != nil || r == nil || r.id != found.id || s.blocked(r) != nil {
		return
	}
	switch {
	case found.state != "Stopped":
		_ = s.set(ctx, r, "state='Running', stop_pos=null, message=''")
	case r.state == "Stopped":
		_ = s.set(ctx, r, "stop_pos=null, state='Stopped'")
	default:
		_ = s.set(ctx, r, "state='Stopped', stop_pos=null")
	}
}
