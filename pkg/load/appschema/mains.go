package appschema

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/shardid"
)

// The statements by which vifl reads and changes these mains; vifl.yaml of the local fleet
// carries them under mains. :name stands for a bound value.
const (
	MainsTeams     = "SELECT team_id FROM teams WHERE shard = :shard ORDER BY team_id"
	MainsDataTeams = "SELECT team_id FROM teams ORDER BY team_id"
	MainsMap       = "SELECT team_id, shard FROM teams"
	MainsWhere     = "SELECT side, host, port, db_name FROM shards WHERE shard = :shard ORDER BY side"
	MainsSwitch    = "UPDATE shards SET host = :host, port = :port, db_name = :database WHERE shard = :shard AND side = :side"
)

// Place is where mains says one side of a shard is served.
type Place struct {
	Side     string
	Host     string
	Port     int
	Database string
}

// MainsRows makes mains' tables if they are missing and says there that the teams live on
// the shard and where its sides are served. Rows that are there already are replaced.
func MainsRows(ctx context.Context, db *sql.DB, id shardid.ID, teams []int64, places []Place) error {
	if err := CreateMains(ctx, db); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("mains: rows of shard %s: %w", id, err)
	}
	defer func() { _ = tx.Rollback() }()
	const perStatement = 5000
	for start := 0; start < len(teams); start += perStatement {
		var b strings.Builder
		b.WriteString("REPLACE INTO teams (team_id, shard) VALUES ")
		for i, team := range teams[start:min(start+perStatement, len(teams))] {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("(" + strconv.FormatInt(team, 10) + "," + strconv.Itoa(int(id)) + ")")
		}
		if _, err := tx.ExecContext(ctx, b.String()); err != nil {
			return fmt.Errorf("mains: teams of shard %s: %w", id, err)
		}
	}
	for _, p := range places {
		_, err := tx.ExecContext(ctx, "REPLACE INTO shards (shard, side, host, port, db_name) VALUES (?, ?, ?, ?, ?)",
			uint16(id), p.Side, p.Host, p.Port, p.Database)
		if err != nil {
			return fmt.Errorf("mains: shard %s side %s: %w", id, p.Side, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("mains: rows of shard %s: %w", id, err)
	}
	return nil
}
