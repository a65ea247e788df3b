// Package mains owns the MySQL that maps workspaces (teams) to legacy shards and shards to
// addresses: it is asked and changed by statements of the configuration, and it holds vifl's
// epoch of each shard in its own _vifl database.
//
// Invariants: an epoch only grows; a change of addresses happens in one transaction with the
// row of the shard's epoch locked and equal to the caller's, so a former owner of the shard,
// however late it wakes up, changes nothing.
package mains

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// ErrEpoch means that another owner has taken the shard over since.
var ErrEpoch = errors.New("the shard's epoch in mains is not ours")

// ErrUnknownOutcome means that the reply to the commit was lost: the change may have
// happened. Read Where before deciding.
var ErrUnknownOutcome = errors.New("it is not known whether mains was changed")

// Place is where the application finds one side of a shard.
type Place struct {
	Side     string `json:"side"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Database string `json:"database"`
}

// String is for people.
func (p Place) String() string {
	return fmt.Sprintf("%s: %s:%d database %q", p.Side, p.Host, p.Port, p.Database)
}

// Mains is a connection to mains.
type Mains struct {
	db     *sql.DB
	target mysqlconn.Target
	cfg    config.Mains
}

// Open connects. It changes nothing.
func Open(ctx context.Context, t mysqlconn.Target, c config.Mains) (*Mains, error) {
	db, err := mysqlconn.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	return &Mains{db: db, target: t, cfg: c}, nil
}

// Close ends the connections.
func (m *Mains) Close() error { return m.db.Close() }

// Target is where mains is.
func (m *Mains) Target() mysqlconn.Target { return m.target }

// queryer is what a pool and a transaction have in common.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Teams are the ids of the teams that mains says live on a shard, ascending.
func (m *Mains) Teams(ctx context.Context, id shardid.ID) ([]int64, error) {
	stmt, args, err := bind(m.cfg.Teams, map[string]any{":shard": uint16(id)})
	if err != nil {
		return nil, fmt.Errorf("mains.teams: %w", err)
	}
	teams, err := ids(ctx, m.db, stmt, args)
	if err != nil {
		return nil, fmt.Errorf("%s: teams of shard %s: %w", m.target, id, err)
	}
	return teams, nil
}

// DataTeams are the ids of the teams that the data of a legacy server holds, ascending. The
// connection must have the shard's database selected.
func (m *Mains) DataTeams(ctx context.Context, legacy *sql.Conn) ([]int64, error) {
	teams, err := ids(ctx, legacy, m.cfg.DataTeams, nil)
	if err != nil {
		return nil, fmt.Errorf("teams in the data (mains.data_teams): %w", err)
	}
	return teams, nil
}

func ids(ctx context.Context, q queryer, stmt string, args []any) ([]int64, error) {
	rows, err := q.QueryContext(ctx, stmt, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, rows.Err()
}

// Where is what mains tells the application about a shard, sorted by side.
func (m *Mains) Where(ctx context.Context, id shardid.ID) ([]Place, error) {
	return m.where(ctx, m.db, id)
}

func (m *Mains) where(ctx context.Context, q queryer, id shardid.ID) ([]Place, error) {
	stmt, args, err := bind(m.cfg.Where, map[string]any{":shard": uint16(id)})
	if err != nil {
		return nil, fmt.Errorf("mains.where: %w", err)
	}
	rows, err := q.QueryContext(ctx, stmt, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: where shard %s is served: %w", m.target, id, err)
	}
	defer func() { _ = rows.Close() }()
	var places []Place
	for rows.Next() {
		var p Place
		if err := rows.Scan(&p.Side, &p.Host, &p.Port, &p.Database); err != nil {
			return nil, fmt.Errorf("%s: where shard %s is served: expected the columns side, host, port, database: %w", m.target, id, err)
		}
		places = append(places, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: where shard %s is served: %w", m.target, id, err)
	}
	sort.Slice(places, func(i, j int) bool { return places[i].Side < places[j].Side })
	return places, nil
}

// Epoch is the shard's epoch in mains, 0 when it was never raised.
func (m *Mains) Epoch(ctx context.Context, id shardid.ID) (uint64, error) {
	var epoch uint64
	err := m.db.QueryRowContext(ctx, "SELECT epoch FROM `_vifl`.`epoch` WHERE shard = ?", uint16(id)).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: epoch of shard %s: %w", m.target, id, err)
	}
	return epoch, nil
}

// RaiseEpoch makes the shard's epoch in mains at least `to`; a higher one is ErrEpoch. It
// makes the table when there is none.
func (m *Mains) RaiseEpoch(ctx context.Context, id shardid.ID, to uint64) error {
	for _, stmt := range []string{
		"CREATE DATABASE IF NOT EXISTS `_vifl`",
		"CREATE TABLE IF NOT EXISTS `_vifl`.`epoch` (shard SMALLINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB COMMENT='written by vifl: fences former owners of a shard'",
	} {
		if _, err := m.db.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("%s: prepare _vifl.epoch: %w: grant ALL ON `_vifl`.* to %q", m.target, err, m.target.User)
		}
	}
	// GREATEST makes a repeated call, and one whose reply was lost, harmless.
	if _, err := m.db.ExecContext(ctx, "INSERT INTO `_vifl`.`epoch` (shard, epoch) VALUES (?, ?) ON DUPLICATE KEY UPDATE epoch = GREATEST(epoch, VALUES(epoch))", uint16(id), to); err != nil {
		return fmt.Errorf("%s: raise the epoch of shard %s to %d: %w", m.target, id, to, err)
	}
	now, err := m.Epoch(ctx, id)
	if err != nil {
		return err
	}
	if now != to {
		return fmt.Errorf("%s: shard %s: found epoch %d, expected %d: %w", m.target, id, now, to, ErrEpoch)
	}
	return nil
}

// Switch sends the application to other places, on condition of the epoch, in one
// transaction. It verifies inside the transaction that mains then says exactly these places.
// ErrUnknownOutcome when the commit's reply was lost; with any other error nothing changed.
func (m *Mains) Switch(ctx context.Context, id shardid.ID, epoch uint64, to []Place) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: switch shard %s: %w", m.target, id, err)
	}
	defer func() { _ = tx.Rollback() }()
	var now uint64
	err = tx.QueryRowContext(ctx, "SELECT epoch FROM `_vifl`.`epoch` WHERE shard = ? FOR UPDATE", uint16(id)).Scan(&now)
	if err != nil {
		return fmt.Errorf("%s: switch shard %s: lock its epoch: %w", m.target, id, err)
	}
	if now != epoch {
		return fmt.Errorf("%s: switch shard %s: found epoch %d, expected %d: %w: nothing was changed", m.target, id, now, epoch, ErrEpoch)
	}
	for _, p := range to {
		stmt, args, err := bind(m.cfg.Switch, map[string]any{":shard": uint16(id), ":side": p.Side, ":host": p.Host, ":port": p.Port, ":database": p.Database})
		if err != nil {
			return fmt.Errorf("mains.switch: %w", err)
		}
		res, err := tx.ExecContext(ctx, stmt, args...)
		if err != nil {
			return fmt.Errorf("%s: switch shard %s: %w: nothing was changed", m.target, id, err)
		}
		// A row that says so already counts as changed by none.
		if n, err := res.RowsAffected(); err == nil && n > 1 {
			return fmt.Errorf("%s: switch shard %s side %s: the statement changed %d rows, expected one: it is not confined to one shard and side; nothing was changed", m.target, id, p.Side, n)
		}
	}
	got, err := m.where(ctx, tx, id)
	if err != nil {
		return err
	}
	if !Same(got, to) {
		return fmt.Errorf("%s: switch shard %s: mains.where then says %v, expected %v: nothing was changed: do mains.switch and mains.where speak of the same rows?", m.target, id, got, to)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: switch shard %s: %w: %w", m.target, id, ErrUnknownOutcome, err)
	}
	return nil
}

// Same reports that two lists name the same places, in whatever order.
func Same(a, b []Place) bool {
	if len(a) != len(b) {
		return false
	}
	have := map[Place]bool{}
	for _, p := range a {
		have[p] = true
	}
	for _, p := range b {
		if !have[p] {
			return false
		}
	}
	return true
}

// bind replaces :name outside quotes by ? and lists the values in order. A name that is
// used but not known is an error, as is a quote that does not end.
func bind(stmt string, values map[string]any) (string, []any, error) {
	var out strings.Builder
	var args []any
	var quote byte
	for i := 0; i < len(stmt); i++ {
		c := stmt[i]
		switch {
		case quote != 0:
			if c == '\\' && quote != '`' && i+1 < len(stmt) {
				out.WriteByte(c)
				i++
				c = stmt[i]
			} else if c == quote {
				quote = 0
			}
			out.WriteByte(c)
		case c == '\'' || c == '"' || c == '`':
			quote = c
			out.WriteByte(c)
		case c == ':' && i+1 < len(stmt) && letter(stmt[i+1]):
			end := i + 1
			for end < len(stmt) && letter(stmt[end]) {
				end++
			}
			name := stmt[i:end]
			v, ok := values[name]
			if !ok {
				return "", nil, fmt.Errorf("the statement uses %s, which is not known here", name)
			}
			out.WriteByte('?')
			args = append(args, v)
			i = end - 1
		default:
			out.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", nil, fmt.Errorf("the statement has a %c that does not end", quote)
	}
	return out.String(), args, nil
}

func letter(c byte) bool {
	return c == '_' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
}
