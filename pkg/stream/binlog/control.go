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

// The stream's orders and its position are one row of _vifl.stream on the target, so that
// the position can be written in the transaction of the data, and moves with it to another
// primary. Who applies the stream is told by the generation, which is in a row of its own:
// every applying transaction holds that row shared until its end, so that whoever takes the
// stream over, and raises it, waits for the former owner's transactions and shuts out all
// later ones. A process that was asleep finds the generation changed and cannot write.
const (
	createDatabase = "CREATE DATABASE IF NOT EXISTS `_vifl` CHARACTER SET utf8mb4"
	createStream   = "CREATE TABLE IF NOT EXISTS `_vifl`.`stream` (" +
		"id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, " +
		"name VARCHAR(64) NOT NULL UNIQUE, " +
		"server CHAR(36) NOT NULL COMMENT 'server_uuid of the legacy server', " +
		"source VARCHAR(300) NOT NULL COMMENT 'the legacy server, for people', " +
		"database_name VARCHAR(64) NOT NULL, " +
		"start_position VARCHAR(300) NOT NULL, " +
		"position VARCHAR(300) NOT NULL COMMENT 'end of the last applied transaction', " +
		"read_from VARCHAR(300) NOT NULL COMMENT 'where reading begins after a restart: before position when a prepared transaction is not decided', " +
		"ahead VARCHAR(300) NOT NULL DEFAULT '' COMMENT 'up to here some tables may have been brought, others not; empty when all are at position', " +
		"file_born BIGINT NOT NULL DEFAULT 0 COMMENT 'when the file of position was begun, seconds since 1970 of the legacy', " +
		"wanted VARCHAR(10) NOT NULL COMMENT 'running or stopped', " +
		"stop_position VARCHAR(300) NOT NULL DEFAULT '' COMMENT 'stop there', " +
		"passed VARCHAR(300) NOT NULL DEFAULT '' COMMENT 'the last stop_position at which no transaction ended', " +
		"control BIGINT NOT NULL DEFAULT 1 COMMENT 'grows with each order', " +
		"state VARCHAR(10) NOT NULL COMMENT 'running, stopped or error', " +
		"blocked VARCHAR(200) NOT NULL DEFAULT '' COMMENT 'kind of what cannot be carried over', " +
		"message VARCHAR(2000) NOT NULL DEFAULT '', " +
		"generation BIGINT NOT NULL DEFAULT 0 COMMENT 'grows with each owner', " +
		"owner VARCHAR(300) NOT NULL DEFAULT '', " +
		"owner_seen TIMESTAMP(6) NULL, " +
		"updated TIMESTAMP(6) NOT NULL COMMENT 'of position', " +
		"transaction_time BIGINT NOT NULL DEFAULT 0 COMMENT 'commit of the last transaction, seconds since 1970 of the legacy'" +
		") ENGINE=InnoDB CHARACTER SET utf8mb4 COMMENT='written by vifl during a move'"
	createFence = "CREATE TABLE IF NOT EXISTS `_vifl`.`stream_fence` (" +
		"id BIGINT NOT NULL PRIMARY KEY, generation BIGINT NOT NULL) ENGINE=InnoDB COMMENT='written by vifl during a move'"
	selectRow = "SELECT id, server, source, database_name, start_position, position, read_from, ahead, file_born, wanted, stop_position, passed, control, " +
		"state, blocked, message, generation, owner, IFNULL(TIMESTAMPDIFF(MICROSECOND, owner_seen, NOW(6)), -1), UNIX_TIMESTAMP(updated), transaction_time " +
		"FROM `_vifl`.`stream` WHERE name=?"
)

// Words in the row.
const (
	running = "running"
	stopped = "stopped"
	failed  = "error"
)

// row is the stream's row.
type row struct {
	id                    int64
	server, source        string
	database              string
	start, pos, readFrom  position.FilePos
	ahead, stop, passed   position.FilePos // zero for none
	born                  uint32
	wanted, state         string
	control               int64
	blocked, message      string
	generation            int64
	owner                 string
	ownerSeen             time.Duration // ago; negative for never
	updated, transactions time.Time
}

// readRow reads the row; nil when there is none.
func readRow(ctx context.Context, db *sql.DB, name string) (*row, error) {
	var r row
	var start, pos, from, ahead, stop, passed string
	var seen, committed int64
	var updated float64
	err := db.QueryRowContext(ctx, selectRow, name).Scan(&r.id, &r.server, &r.source, &r.database, &start, &pos, &from, &ahead, &r.born, &r.wanted, &stop, &passed, &r.control,
		&r.state, &r.blocked, &r.message, &r.generation, &r.owner, &seen, &updated, &committed)
	if errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading _vifl.stream: %w", err)
	}
	for _, p := range []struct {
		into *position.FilePos
		text string
	}{{&r.start, start}, {&r.pos, pos}, {&r.readFrom, from}, {&r.ahead, ahead}, {&r.stop, stop}, {&r.passed, passed}} {
		if p.text == "" {
			continue
		}
		if *p.into, err = position.Parse(r.server, p.text); err != nil {
			return nil, fmt.Errorf("reading _vifl.stream: id %d: %w", r.id, err)
		}
	}
	r.ownerSeen = time.Duration(seen) * time.Microsecond
	r.updated = time.UnixMicro(int64(updated * 1e6)).UTC()
	if committed > 0 {
		r.transactions = time.Unix(committed, 0).UTC()
	}
	return &r, nil
}

// state of the stream as the interface has it.
func (r *row) streamState() stream.State {
	switch {
	case r.state == failed:
		return stream.Failed
	case r.state == stopped:
		return stream.Stopped
	}
	return stream.Running
}
