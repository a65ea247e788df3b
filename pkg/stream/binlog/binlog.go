// Package binlog is vifl's own stream: a worker of ours reads the binlog of a legacy server
// and applies it to a MySQL server, such as the primary of a landing.
//
// What shall be done and where the stream is are kept in the target's own _vifl database. A
// Stream is the handle: it only reads and writes there. A Worker, in whichever process runs
// it, does the work. So an order given by one process is carried out by another, and a
// position that was saved with the data moves with it through a failover of the target.
//
// Two workers never apply one stream, also when one of them was asleep past its time: see
// claim.go.
package binlog

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// Stream is the handle of one stream. It keeps nothing in memory but whom it is for.
type Stream struct {
	target   func(context.Context) (*sql.DB, error)
	name     string
	database string
	source   dump.Source
	// group is what a stream with GTIDs reads, instead of the one source; nil for none.
	group Group
	// given wakes a worker of this process when an order was written. One of another
	// process finds it by itself a little later.
	given chan struct{}
}

var _ stream.Stream = (*Stream)(nil)

// New describes the stream with that name, such as vifl_0123: from the source, all tables of
// the database, to the same database behind target. It does nothing.
//
// target is asked each time before something is done there, so that it can follow a
// failover: it gives a pool to the present primary, made by mysqlconn, which stays its own
// and open. The account needs ALL on _vifl and SELECT, INSERT, UPDATE, DELETE, TRIGGER on the
// database; TRIGGER only to see that there are none. The source's account needs REPLICATION
// SLAVE and REPLICATION CLIENT.
func New(target func(context.Context) (*sql.DB, error), name, database string, source dump.Source) *Stream {
	return &Stream{target: target, name: name, database: database, source: source, given: make(chan struct{}, 1)}
}

func (s *Stream) errorf(format string, args ...any) error {
	return fmt.Errorf("stream %s from %s: "+format, append([]any{s.name, s.from()}, args...)...)
}

// from is what the stream reads, for people.
func (s *Stream) from() string {
	if s.group != nil {
		return s.group.Name()
	}
	return s.source.Target.String()
}

// server is what must stand in the stream's row as its source.
func (s *Stream) server() string {
	if s.group != nil {
		return s.group.Name()
	}
	return s.source.Server
}

// db is the target.
func (s *Stream) db(ctx context.Context) (*sql.DB, error) {
	db, err := s.target(ctx)
	if err != nil {
		return nil, s.errorf("the target: %w", err)
	}
	return db, nil
}

// wake tells a worker of this process that an order was written.
func (s *Stream) wake() {
	select {
	case s.given <- struct{}{}:
	default:
	}
}
