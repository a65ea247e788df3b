// Package vreplication is the stream by Vitess' own VReplication: a row of _vt.vreplication
// on the landing's primary that reads the legacy server's binlog by file and position
// through a connection which the tablets know by name (external MySQL).
//
// It owns that row and how its states are read. It does not see what VReplication drops
// silently: package inspect reads the binlog beside it for that.
//
// What is handled here, each shown by a test: it stops successfully only at exactly the
// position asked for; a position inside a transaction, one already passed, and one at the
// start of a fresh binlog (which VReplication waits for for ever) are errors; a DDL stops
// the stream with its position *behind* the DDL, so that resuming is refused; a CREATE USER
// and its like stop it as well, but mean nothing to the shard's tables, so that resuming
// goes on behind them; no statement and no password out of VReplication's messages reaches
// an error; positions are compared by vifl's own rules, with the server's identity, not by
// VReplication's (file names as text); and the server behind the connection's name, which
// only the tablets know, is proven before anything is applied from it.
package vreplication

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/vitess"
)

// Stream is the VReplication stream of one legacy shard into its landing. It keeps nothing
// in memory but whom it is for.
type Stream struct {
	landing    *vitess.Landing
	workflow   string
	connection string // the name in the tablets' configuration of external connections
	database   string
	server     string // server_uuid that the connection must lead to
	source     *mysqlconn.Target
}

var _ stream.Stream = (*Stream)(nil)

// Option adds to a stream what New's arguments do not say.
type Option func(*Stream)

// WithSource gives the legacy server itself, reached by an account of vifl's with ALL on
// the database _vifl. Start needs it, to prove that the tablets' connection leads there.
func WithSource(t mysqlconn.Target) Option { return func(s *Stream) { s.source = &t } }

// New describes the stream of a shard: from the legacy server with serverUUID, through the
// tablets' external connection of that name, all tables of the database. It does nothing.
func New(landing *vitess.Landing, shard shardid.ID, connection, database, serverUUID string, opts ...Option) *Stream {
	s := &Stream{landing: landing, workflow: "vifl_" + shard.String(), connection: connection, database: database, server: serverUUID}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Workflow is the name that vtctldclient's workflow commands show.
func (s *Stream) Workflow() string { return s.workflow }

// binlogSource is the row's source. One rule that matches everything without a filter: with
// any other VReplication refuses changes logged as statements, and stops for good at them.
func (s *Stream) binlogSource() string {
	return fmt.Sprintf(`external_mysql:%s filter:{rules:{match:"/.*"}} on_ddl:STOP`, protoString(s.connection))
}

func (s *Stream) errorf(format string, args ...any) error {
	return fmt.Errorf("stream %s of %s: "+format, append([]any{s.workflow, s.landing}, args...)...)
}

// Start is stream.Stream's. It first proves by Verify that the connection leads to the
// server that from is a position of.
func (s *Stream) Start(ctx context.Context, from position.FilePos) error {
	if from.Server != s.server {
		return s.errorf("start at %s: the position is of server %s, expected %s", from, from.Server, s.server)
	}
	r, err := s.row(ctx)
	if err != nil {
		return err
	}
	if r != nil {
		if err := s.sameStart(r, from); err != nil {
			return err
		}
		return s.Resume(ctx)
	}
	if err := s.Verify(ctx); err != nil {
		return err
	}
	// As Vitess' own statement for it, with the time from here: the columns have seconds.
	_, err = s.landing.VReplicationExec(ctx, fmt.Sprintf("insert into _vt.vreplication "+
		"(workflow, db_name, source, pos, max_tps, max_replication_lag, time_updated, transaction_timestamp, state, message, tags, options) "+
		"values (%s, %s, %s, %s, 9999999, 9999999, %d, 0, 'Running', '', %s, '{}')",
		quote(s.workflow), quote(s.database), quote(s.binlogSource()), quote(from.Vitess()), time.Now().Unix(), quote(tags(from))))
	if err != nil {
		// The reply may have been lost: what is there decides.
		if r, rerr := s.row(ctx); rerr != nil || r == nil {
			return s.errorf("start at %s: %w", from, err)
		}
	}
	r, err = s.row(ctx)
	if err != nil {
		return err
	}
	if r == nil {
		return s.errorf("start at %s: it is gone again: %w", from, stream.ErrAbsent)
	}
	return s.sameStart(r, from)
}

func (s *Stream) sameStart(r *row, from position.FilePos) error {
	switch {
	case r.source != s.binlogSource() || r.database != s.database:
		return s.errorf("found id %d with source %s and database %q, expected %s and %q: %w: delete it if it is not used", r.id, r.source, r.database, s.binlogSource(), s.database, stream.ErrOther)
	case r.start != from:
		return s.errorf("found id %d started from %s of server %s, expected %s of server %s: %w: delete it if it is not used", r.id, r.start, r.start.Server, from, from.Server, stream.ErrOther)
	}
	return nil
}

// Resume is stream.Stream's. It resumes behind a statement that stopped the stream without
// meaning anything to the shard's tables, such as CREATE USER.
func (s *Stream) Resume(ctx context.Context) error {
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if err := s.blocked(r); err != nil {
		return err
	}
	if r.state == "Running" && r.stopPos == "" {
		return nil
	}
	return s.set(ctx, r, "state='Running', stop_pos=null, message=''")
}

// Stop is stream.Stream's.
func (s *Stream) Stop(ctx context.Context) error {
	r, err := s.present(ctx)
	if err != nil {
		return err
	}
	if r.state == "Stopped" {
		return nil // and its message stays, which may say why it must not be resumed
	}
	// The tablet ends the running stream before it answers. It may have stopped at a DDL
	// just before, and then its message must not be lost: keep what is there.
	return s.set(ctx, r, "state='Stopped', stop_pos=null")
}

// Delete is stream.Stream's.
func (s *Stream) Delete(ctx context.Context) error {
	rows, err := s.rows(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, err := s.landing.VReplicationExec(ctx, fmt.Sprintf("delete from _vt.vreplication where id=%d", r.id)); err != nil {
			return s.errorf("delete id %d: %w", r.id, err)
		}
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
		ID: r.id, Position: r.pos, StartPosition: r.start, Source: r.source, Message: scrub(r.message),
		Updated: r.updated, Transaction: r.transaction,
	}
	kind, harmless := stoppedAt(r.message, s.database)
	switch {
	case r.state == "Stopped" && kind != "" && !harmless:
		st.State, st.Blocked = stream.Failed, kind
	case r.state == "Stopped":
		st.State = stream.Stopped
	case r.state == "Running":
		st.State = stream.Running
	default:
		st.State = stream.Failed
		if st.Message == "" {
			st.Message = "VReplication's state is " + r.state
		}
	}
	return st, nil
}

// blocked is the error when the row stopped at a statement that must be resolved.
func (s *Stream) blocked(r *row) error {
	kind, harmless := stoppedAt(r.message, s.database)
	if r.state != "Stopped" || kind == "" || harmless {
		return nil
	}
	return s.errorf("it stopped at a %s that ends at %s: %w: no DDL may run on the shard during the move; abort and seed again", kind, r.pos, stream.ErrBlocked)
}

// set changes the row by its id, so that a stream made anew meanwhile is left alone.
func (s *Stream) set(ctx context.Context, r *row, assignments string) error {
	res, err := s.landing.VReplicationExec(ctx, fmt.Sprintf("update _vt.vreplication set %s where id=%d", assignments, r.id))
	if err != nil {
		return s.errorf("id %d: %w", r.id, err)
	}
	if res.Affected == 0 {
		// Nothing to change is no fault, nobody to change is.
		if _, err := s.present(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quote makes a string literal of SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// protoString makes a string literal of protobuf's text format.
func protoString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
