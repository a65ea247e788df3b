// Package stream owns the interface by which a legacy shard's changes are kept flowing into
// its landing, and stopped exactly where somebody wants to look. Package streamtest is the
// suite that every implementation passes.
//
// A stream applies every change that the binlog of one server holds behind its start, once
// and in order, and knows its position. What one implementation cannot see or carry is that
// implementation's to say; package inspect reads the same binlog beside it and tells.
package stream

import (
	"context"
	"errors"
	"time"

	"github.com/vifl/vifl/pkg/position"
)

// State is what a stream is doing.
type State string

// States of a stream.
const (
	Absent  State = "absent"  // there is none
	Running State = "running" // it runs, or tries to: Message may say why it gets nowhere
	Stopped State = "stopped" // somebody stopped it, or it reached the position asked for
	Failed  State = "error"   // it stopped by itself and must not just be resumed: see Blocked
)

var (
	// ErrPassed is returned for a position that the stream is already behind, or that it
	// cannot stop at because it lies inside a transaction.
	ErrPassed = errors.New("the stream has already passed that position")
	// ErrBlocked is returned when the stream stopped at a statement that it cannot carry
	// over, such as a DDL on the shard's tables. Its position may lie behind the statement:
	// resuming would skip it. Somebody has to resolve it first.
	ErrBlocked = errors.New("the stream stopped at a statement that it cannot carry over")
	// ErrAbsent is returned when there is no stream.
	ErrAbsent = errors.New("there is no stream")
	// ErrOther is returned when there is a stream, but not the one that was meant: another
	// source or start, made by somebody else, or more than one.
	ErrOther = errors.New("another stream is there")
	// ErrWrongServer is returned when the stream would read, or reads, another server than
	// the one that was meant.
	ErrWrongServer = errors.New("the stream reads another server")
)

// Status is what is known of a stream.
type Status struct {
	// ID changes when the stream is made anew; 0 when absent.
	ID    int64 `json:"id"`
	State State `json:"state"`
	// Position is the end of the last transaction that is known to be applied.
	Position position.FilePos `json:"position"`
	// GTID is everything that is applied, of a stream that reads servers with GTIDs, which it
	// may change: then Position is in the binlog of the server that it reads now.
	GTID string `json:"gtid,omitempty"`
	// StartPosition is where the stream was started from when it was made.
	StartPosition position.FilePos `json:"start_position"`
	// Source names what the stream reads, in the implementation's own words.
	Source string `json:"source"`
	// Blocked is the kind of statement the stream stopped at, such as ALTER TABLE, when
	// that must be resolved before it can be resumed.
	Blocked string `json:"blocked,omitempty"`
	// Message is the last thing the stream said. It holds no statement and no password.
	Message string `json:"message,omitempty"`
	// Unattended says that nobody is there to do the stream's work.
	Unattended bool `json:"unattended,omitempty"`
	// Updated is when Position was last saved; seconds.
	Updated time.Time `json:"updated"`
	// Transaction is when the last transaction that was applied was committed on the
	// source, by the source's clock; zero when unknown; seconds.
	Transaction time.Time `json:"transaction"`
}

// Stream keeps a landing in step with one legacy server. Methods may be called again after
// an error or a lost reply: each asks first what is the case.
type Stream interface {
	// Start makes the stream at a position and runs it. With the same source and start
	// already there it resumes that one, wherever it has got to; with another there it
	// returns ErrOther and changes nothing.
	Start(ctx context.Context, from position.FilePos) error
	// Resume runs the stream again from where it stands, without a position to stop at.
	// ErrBlocked when that would skip a statement, ErrAbsent when there is none.
	Resume(ctx context.Context) error
	// StopAt runs the stream until exactly p and stops it there. It succeeds only if the
	// stream is stopped and its position is p. ErrPassed when it is already behind p, or
	// when no transaction ends there; ErrBlocked when a statement is in the way. It blocks
	// until then, or until ctx ends. After a failure the stream is left as it was found,
	// running or stopped, with nothing to stop at.
	StopAt(ctx context.Context, p position.FilePos) error
	// Stop stops the stream at a transaction's end, wherever that is. Stopping a stopped
	// stream is fine.
	Stop(ctx context.Context) error
	// Status reads what the stream is doing. An absent stream is a status, not an error.
	Status(ctx context.Context) (Status, error)
	// Delete removes the stream and its position. Deleting an absent one is fine.
	Delete(ctx context.Context) error
}
