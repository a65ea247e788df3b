package binlog

import (
	"context"
	"errors"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
)

// StopAt is stream.Stream's.
func (s *Stream) StopAt(ctx context.Context, p position.FilePos) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	found, err := s.present(ctx)
	if err != nil {
		return err
	}
	if err := s.canStop(found, p); err != nil {
		return err
	}
	if found.stopped() && found.at == p {
		return nil
	}
	given, err := s.order(ctx, found, true, p)
	if err != nil {
		return err
	}
	r, err := s.settled(ctx, given)
	if err == nil {
		err = s.reached(r, p)
	}
	if err != nil && !errors.Is(err, stream.ErrBlocked) {
		s.restore(ctx, found, given)
	}
	return err
}

// canStop refuses what is known from the start.
func (s *Stream) canStop(r *row, p position.FilePos) error {
	at := r.at
	if !r.ahead.IsZero() {
		at = r.ahead // parts of what lies before may be applied
	}
	c, err := position.Compare(at, p)
	if err != nil {
		return s.errorf("stop at %s: %w", p, err)
	}
	if c > 0 {
		return s.errorf("stop at %s: it is at %s: %w", p, at, stream.ErrPassed)
	}
	return s.blocked(r)
}

// reached says whether a stream that has settled did what it was asked for.
func (s *Stream) reached(r *row, p position.FilePos) error {
	if err := s.blocked(r); err != nil {
		return err
	}
	switch {
	case r.failed():
		return s.errorf("stop at %s: it failed at %s: %s", p, r.at, r.message)
	case r.passed:
		return s.errorf("stop at %s: it stopped at %s, and no transaction ends there: %w", p, r.at, stream.ErrPassed)
	case r.at != p:
		return s.errorf("stop at %s: it stopped at %s already", p, r.at)
	}
	return nil
}

// restore puts the stream back as StopAt found it, running or stopped, without a position to
// stop at: one that is left behind would stop it at some later time. Where that fails too,
// or somebody else gave an order meanwhile, the next order is what counts.
func (s *Stream) restore(ctx context.Context, found, given *row) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
	defer cancel()
	stood := found.stopped() || !found.running
	r, err := s.order(ctx, given, !stood, position.FilePos{})
	if err == nil && stood {
		_, _ = s.settled(ctx, r)
	}
}
