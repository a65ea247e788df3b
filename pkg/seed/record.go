package seed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
)

// Record is the row of _vifl.seed: where the data of a landing came from. It travels inside
// the backup, so every tablet that ever restores it carries it.
type Record struct {
	Shard        shardid.ID       `json:"shard"`
	Keyspace     string           `json:"keyspace"`
	Database     string           `json:"database"`
	Method       string           `json:"method"`
	StreamSide   string           `json:"stream_side"`
	ServerA      legacy.Identity  `json:"server_a"`
	ServerB      legacy.Identity  `json:"server_b"`
	Position     position.FilePos `json:"position"` // of the streamed side
	SchemaDigest string           `json:"schema_digest"`
	Time         time.Time        `json:"time"`
	Version      string           `json:"version"` // vifl's
}

// ErrNoRecord is returned for a server that no seed made: a tablet that came up empty, or
// one of something else.
var ErrNoRecord = errors.New("no record of a seed (_vifl.seed)")

const createRecord = "CREATE TABLE `_vifl`.`seed` (" +
	"id TINYINT NOT NULL PRIMARY KEY COMMENT 'always 1', " +
	"shard VARCHAR(8) CHARACTER SET ascii NOT NULL, " +
	"keyspace_name VARCHAR(255) NOT NULL, " +
	"position VARCHAR(255) NOT NULL COMMENT 'of the streamed server, as file:position', " +
	"seeded_at DATETIME NOT NULL COMMENT 'UTC', " +
	"record JSON NOT NULL COMMENT 'the whole of it; what vifl reads'" +
	") ENGINE=InnoDB COMMENT='where the data of this landing came from; written by vifl seed'"

// write makes the database, the table and the row. The connection must not log to the
// binlog: the row belongs to the data, not to the history.
func (r *Record) write(ctx context.Context, c *sql.Conn) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of the seed: %w", err)
	}
	for _, q := range []string{"DROP DATABASE IF EXISTS `_vifl`", "CREATE DATABASE `_vifl` CHARACTER SET utf8mb4", createRecord} {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("record of the seed: %w", err)
		}
	}
	_, err = c.ExecContext(ctx, "INSERT INTO `_vifl`.`seed` (id, shard, keyspace_name, position, seeded_at, record) VALUES (1, ?, ?, ?, ?, ?)",
		r.Shard.String(), r.Keyspace, r.Position.String(), r.Time.UTC().Format(time.DateTime), string(raw))
	if err != nil {
		return fmt.Errorf("record of the seed: %w", err)
	}
	return nil
}

// queryer is what a pool, a connection and a transaction have in common.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ReadRecord reads a server's record. It is ErrNoRecord when there is none.
func ReadRecord(ctx context.Context, db queryer) (*Record, error) {
	var raw []byte
	err := db.QueryRowContext(ctx, "SELECT record FROM `_vifl`.`seed` WHERE id = 1").Scan(&raw)
	switch {
	case errors.Is(err, sql.ErrNoRows), mysqlconn.IsNoSuchTable(err):
		return nil, ErrNoRecord
	case err != nil:
		return nil, fmt.Errorf("read _vifl.seed: %w", err)
	}
	r := &Record{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("read _vifl.seed: its record cannot be read: %w: was it written by a newer vifl?", err)
	}
	return r, nil
}
