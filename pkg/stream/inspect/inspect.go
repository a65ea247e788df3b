// Package inspect reads a legacy server's binlog beside a VReplication stream and tells
// what that stream would lose.
//
// VReplication by file and position drops events that it does not know without a word,
// while its position moves on. Sessions can cause such events by themselves, so that no
// setting looked at before is proof. The inspector goes through every event from the
// stream's start on: one that would be lost, or that stops the stream for good, taints it.
// A taint is for good: the landing must be seeded again.
//
// Events of other databases pass, as do accounts, grants and vifl's own database. When in
// doubt it taints: a change that was logged as a statement, whichever database was the
// default, because what it does to the shard's tables cannot be seen in it.
//
// It cannot see what the binlog does not hold (sql_log_bin=0). Memory is bounded: it keeps
// no rows, and at most maxTaints taints.
package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
)

const (
	// maxTaints are kept in full. One is enough to refuse; more only help to find the cause.
	maxTaints = 100
	// retryDelay lies between two attempts to reach the server.
	retryDelay = time.Second
)

// ErrGone is returned when the binlog that is needed is not there any more.
var ErrGone = dump.ErrGone

// Inspector reads one server's binlog. Run it once; the other methods may be called at the
// same time, before and after.
type Inspector struct {
	target   mysqlconn.Target
	server   string
	database string

	mu      sync.Mutex
	at      position.FilePos // everything up to here was read
	resume  position.FilePos // where to go on reading, between two transactions
	taints  []Taint
	more    int // taints that were not kept
	last    position.FilePos
	waiters map[*waiter]struct{}
	ended   bool
	err     error
}

type waiter struct {
	p    position.FilePos
	done chan struct{}
}

// New makes an inspector for the stream of the database from a position on. server is the
// server_uuid that the server must have. It connects to nothing yet.
func New(target mysqlconn.Target, server, database string, from position.FilePos) (*Inspector, error) {
	if from.Server != server {
		return nil, fmt.Errorf("%s: inspecting from %s: the position is of server %s, expected %s", target, from, from.Server, server)
	}
	if database == "" {
		return nil, fmt.Errorf("%s: inspecting: no database given", target)
	}
	return &Inspector{target: target, server: server, database: database, at: from, resume: from, waiters: map[*waiter]struct{}{}}, nil
}

// Run follows the binlog until ctx ends (it then returns ctx's cause) or something is wrong
// that waiting does not mend: the binlog is gone (ErrGone), the server is another, the
// account is turned away. A connection that breaks is made again.
func (i *Inspector) Run(ctx context.Context) error {
	err := i.follow(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended, i.err = true, err
	for w := range i.waiters {
		close(w.done)
		delete(i.waiters, w)
	}
	return err
}

func (i *Inspector) follow(ctx context.Context) error {
	for {
		err := i.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if dump.IsPermanent(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// once follows the binlog over one connection, until it breaks.
func (i *Inspector) once(ctx context.Context) error {
	i.mu.Lock()
	from := i.resume
	i.mu.Unlock()
	r := &reader{database: i.database, at: from, boundary: from, tables: map[uint64]table{}}
	r.taint = func(kind Kind, detail string) { i.found(r.at, kind, detail) }
	err := dump.Source{Target: i.target, Server: i.server}.Follow(ctx, from, func(e *dump.Event) error {
		if err := r.event(e); err != nil {
			return dump.Permanent(err)
		}
		i.publish(r.at, r.boundary)
		return nil
	})
	return fmt.Errorf("inspecting: %w", err)
}
