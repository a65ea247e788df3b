package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
)

// What is kept of a stream are two rows. _vifl.stream has what shall be done, by the handle,
// and who does it. _vifl.stream_progress has how far it is, by the worker alone; a
// transaction that applies something locks that row. Were they one, the worker's sign of
// life and the handle's orders would wait for a large transaction's end.
//
// Whoever locks both locks progress first.
var controlTables = []string{
	"CREATE DATABASE IF NOT EXISTS _vifl",
	`CREATE TABLE IF NOT EXISTS _vifl.stream (
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'a stream made anew has a new one',
	name varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
	server varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'server_uuid of the source, or the name of the group that is read',
	source varchar(255) CHARACTER SET utf8mb4 NOT NULL,
	db varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	start_file varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	start_pos bigint unsigned NOT NULL,
	start_gtid mediumtext CHARACTER SET ascii COMMENT 'a stream from a group begins behind these',
	command bigint unsigned NOT NULL DEFAULT 1 COMMENT 'counts the orders',
	wanted enum('running','stopped') NOT NULL,
	stop_file varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
	stop_pos bigint unsigned,
	stop_server varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT 'whose binlog stop_file is in',
	attention datetime(6) NOT NULL COMMENT 'until when orders are looked for often (UTC)',
	owner varchar(255) CHARACTER SET utf8mb4 COMMENT 'the worker, for people',
	token char(32) CHARACTER SET ascii COLLATE ascii_bin COMMENT 'the worker',
	seen datetime(6) COMMENT 'last sign of life of the worker (UTC)'
) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS _vifl.stream_progress (
	id bigint unsigned NOT NULL PRIMARY KEY,
	generation bigint unsigned NOT NULL DEFAULT 0 COMMENT 'grows whenever another worker takes over',
	file varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	pos bigint unsigned NOT NULL,
	server varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'whose binlog file is in',
	gtid mediumtext CHARACTER SET ascii COMMENT 'all that is applied, of a stream from a group',
	ahead_file varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT 'parts of what lies before may be applied',
	ahead_pos bigint unsigned,
	pending_file varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT 'where the oldest XA transaction begins that is prepared and not decided',
	pending_pos bigint unsigned,
	done bigint unsigned NOT NULL DEFAULT 0 COMMENT 'the order that state is about',
	state enum('running','stopped','error') NOT NULL,
	passed boolean NOT NULL DEFAULT FALSE COMMENT 'the place to stop at was passed, or is none',
	blocked varchar(64) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
	message varchar(1000) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
	updated datetime(6) NOT NULL COMMENT 'UTC',
	committed bigint NOT NULL DEFAULT 0 COMMENT 'when the last transaction was, by the clock of the source; seconds',
	beat bigint unsigned NOT NULL DEFAULT 0 COMMENT 'counts the writes'
) ENGINE=InnoDB`,
}

// States of the worker.
const (
	stateRunning = "running"
	stateStopped = "stopped"
	stateError   = "error"
)

// row is what is kept of a stream.
type row struct {
	id          int64
	server      string
	source      string
	database    string
	start       position.FilePos
	startGTID   string
	command     uint64
	running     bool             // wanted
	stop        position.FilePos // zero: none
	owner       string
	alive       bool // there is an owner, and its last sign of life is recent
	generation  uint64
	at          position.FilePos // zero: a stream from a group has not read yet
	gtid        string           // of a stream from a group
	ahead       position.FilePos // zero: none
	pending     position.FilePos // transaction.Part's; zero: none
	done        uint64
	state       string
	passed      bool
	blocked     string
	message     string
	updated     time.Time
	transaction time.Time
}

// failed tells a stream that stopped by itself, by the order that is there now.
func (r *row) failed() bool { return r.blocked != "" || r.state == stateError && r.done == r.command }

// stopped tells a stream that stands still because it was told to.
func (r *row) stopped() bool { return !r.failed() && r.state == stateStopped && r.done == r.command }

const selectRow = `SELECT s.id, s.server, s.source, s.db, s.start_file, s.start_pos, IFNULL(s.start_gtid, ''), s.command, s.wanted, s.stop_file, s.stop_pos, s.stop_server,
	IFNULL(s.owner, ''), s.token IS NOT NULL AND s.seen > UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND,
	p.generation, p.file, p.pos, p.server, IFNULL(p.gtid, ''), p.ahead_file, p.ahead_pos, p.pending_file, p.pending_pos, p.done, p.state, p.passed, p.blocked, p.message,
	TIMESTAMPDIFF(SECOND, '1970-01-01', p.updated), p.committed
	FROM _vifl.stream s JOIN _vifl.stream_progress p ON p.id = s.id WHERE s.name = ?`

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// read is the stream's row as it is; nil when there is none. A worker that gave no sign of
// life for longer than takeover counts as gone.
func (s *Stream) read(ctx context.Context, q queryer, takeover time.Duration) (*row, error) {
	var r row
	var wanted string
	var stopFile, stopServer, aheadFile, pendingFile sql.NullString
	var stopPos, aheadPos, pendingPos sql.Null[uint64]
	var updated, committed int64
	err := q.QueryRowContext(ctx, selectRow, takeover.Microseconds(), s.name).Scan(&r.id, &r.server, &r.source, &r.database,
		&r.start.File, &r.start.Pos, &r.startGTID, &r.command, &wanted, &stopFile, &stopPos, &stopServer, &r.owner, &r.alive,
		&r.generation, &r.at.File, &r.at.Pos, &r.at.Server, &r.gtid, &aheadFile, &aheadPos, &pendingFile, &pendingPos, &r.done, &r.state, &r.passed, &r.blocked, &r.message, &updated, &committed)
	switch {
	case errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err):
		return nil, nil
	case err != nil:
		return nil, s.errorf("reading _vifl.stream: %w", err)
	}
	r.running = wanted == stateRunning
	if s.group == nil {
		r.start.Server = r.server
	}
	if stopFile.Valid {
		r.stop = position.FilePos{Server: stopServer.String, File: stopFile.String, Pos: stopPos.V}
	}
	if aheadFile.Valid {
		r.ahead = position.FilePos{Server: r.at.Server, File: aheadFile.String, Pos: aheadPos.V}
	}
	if pendingFile.Valid {
		r.pending = position.FilePos{Server: r.at.Server, File: pendingFile.String, Pos: pendingPos.V}
	}
	r.updated = time.Unix(updated, 0).UTC()
	if committed > 0 {
		r.transaction = time.Unix(committed, 0).UTC()
	}
	return &r, nil
}

// row is the stream's row; nil when there is none.
func (s *Stream) row(ctx context.Context) (*row, error) {
	db, err := s.db(ctx)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, db, defaultTakeover)
}

// present is the stream's row, an error when there is none.
func (s *Stream) present(ctx context.Context) (*row, error) {
	r, err := s.row(ctx)
	if err == nil && r == nil {
		return nil, s.errorf("%w: start it first", stream.ErrAbsent)
	}
	return r, err
}

// makeTables makes what is kept of streams, where it is not there.
func (s *Stream) makeTables(ctx context.Context, db *sql.DB) error {
	for _, q := range controlTables {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return s.errorf("making the tables of _vifl: %w", err)
		}
	}
	return nil
}

// transact runs f in a transaction of its own connection, which waits for locks no longer
// than lockWait and does not go back into the pool.
func transact(ctx context.Context, db *sql.DB, lockWait time.Duration, f func(*sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	for _, q := range []string{
		fmt.Sprintf("SET SESSION innodb_lock_wait_timeout=%d, transaction_isolation='READ-COMMITTED'", max(1, int(lockWait.Seconds()))),
		"START TRANSACTION",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if err := f(conn); err != nil {
		return err // the server rolls back when the connection ends
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
