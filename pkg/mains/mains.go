// Package mains owns what vifl asks of and changes in mains, the MySQL that maps teams to
// legacy shards and legacy shards to where they are served. How mains is laid out is the
// fleet's: the statements come from vifl.yaml.
//
// It does not own what a place means (route) or when it may change (workflows).
//
// Invariants:
//   - A shard's place changes only in a transaction that holds the shard's row of
//     _vifl.epoch and found the caller's epoch there. The row is raised before a new owner
//     does anything, so that an old owner that wakes up changes nothing.
//   - The transaction is committed only when reading back, inside it, shows exactly the
//     wanted places, and each statement changed one row.
//   - When the reply to COMMIT is lost, the outcome is ErrUnknownOutcome, never a guess.
package mains

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// ErrUnknownOutcome: the change may or may not have been made. Read Where before deciding.
var ErrUnknownOutcome = errors.New("the reply to COMMIT was lost: the change may or may not have been made")

// ErrEpoch: the shard belongs to another owner now; nothing was changed.
var ErrEpoch = errors.New("the shard has another owner")

// Place is where one side of a shard is served.
type Place struct {
	Side     string `json:"side"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Database string `json:"database"`
}

// String is a at host:port/database.
func (p Place) String() string {
	return fmt.Sprintf("%s at %s:%d/%s", p.Side, p.Host, p.Port, p.Database)
}

// Mains is a connection to mains.
type Mains struct {
	db     *sql.DB
	target mysqlconn.Target

	teams, dataTeams, where, change, teamMap statement
}

// Open connects to mains and checks the configured statements' names. It changes nothing.
func Open(ctx context.Context, t mysqlconn.Target, c config.Mains) (*Mains, error) {
	if t.Name == "" {
		t.Name = "mains"
	}
	m := &Mains{target: t}
	for _, s := range []struct {
		into    *statement
		key     string
		text    string
		allowed []string
	}{
		{&m.teams, "mains.teams", c.Teams, []string{"shard"}},
		{&m.dataTeams, "mains.data_teams", c.DataTeams, []string{"shard", "database"}},
		{&m.where, "mains.where", c.Where, []string{"shard"}},
		{&m.teamMap, "mains.map", c.Map, nil},
		{&m.change, "mains.switch", c.Switch, []string{"shard", "side", "host", "port", "database"}},
	} {
		var err error
		if *s.into, err = parse(s.key, s.text, s.allowed...); err != nil {
			return nil, err
		}
	}
	// A statement that commits by itself (DDL, a procedure) would escape the transaction
	// that makes the switch safe.
	if first := strings.Fields(m.change.text); len(first) == 0 || !strings.EqualFold(first[0], "UPDATE") {
		return nil, fmt.Errorf("configuration: mains.switch: expected a plain UPDATE")
	}
	var err error
	if m.db, err = mysqlconn.Connect(ctx, t); err != nil {
		return nil, err
	}
	return m, nil
}

// Close ends the connections.
func (m *Mains) Close() error { return m.db.Close() }

// DB is the pool, for checks.
func (m *Mains) DB() *sql.DB { return m.db }

// Target is where and as whom we connect.
func (m *Mains) Target() mysqlconn.Target { return m.target }

func (m *Mains) failed(doing string, err error) error {
	return fmt.Errorf("%s: %w", doing, mysqlconn.Explain(m.target, err))
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Teams are the ids of the teams that mains says live on the shard.
func (m *Mains) Teams(ctx context.Context, id shardid.ID) ([]int64, error) {
	return m.ids(ctx, m.db, m.teams, m.target, map[string]any{"shard": uint16(id)})
}

// DataTeams are the ids of the teams that the data of a server holds. The target's database
// is the shard's database there.
func (m *Mains) DataTeams(ctx context.Context, t mysqlconn.Target, id shardid.ID) ([]int64, error) {
	db, err := mysqlconn.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return m.ids(ctx, db, m.dataTeams, t, map[string]any{"shard": uint16(id), "database": t.Database})
}

func (m *Mains) ids(ctx context.Context, q querier, s statement, t mysqlconn.Target, values map[string]any) ([]int64, error) {
	fail := func(err error) error { return fmt.Errorf("%s: %w", s.key, mysqlconn.Explain(t, err)) }
	rows, err := q.QueryContext(ctx, s.text, s.args(values)...)
	if err != nil {
		return nil, fail(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("%s: %s: %w: expected one column with the id of a team", s.key, t, err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fail(err)
	}
	return ids, nil
}

// Where is where mains says that the shard is served, a row for each side.
func (m *Mains) Where(ctx context.Context, id shardid.ID) ([]Place, error) {
	return m.whereOn(ctx, m.db, id)
}

func (m *Mains) whereOn(ctx context.Context, q querier, id shardid.ID) ([]Place, error) {
	rows, err := q.QueryContext(ctx, m.where.text, m.where.args(map[string]any{"shard": uint16(id)})...)
	if err != nil {
		return nil, m.failed(m.where.key, err)
	}
	defer rows.Close()
	var places []Place
	for rows.Next() {
		var p Place
		if err := rows.Scan(&p.Side, &p.Host, &p.Port, &p.Database); err != nil {
			return nil, fmt.Errorf("%s: %s: %w: expected the columns side, host, port, database", m.where.key, m.target, err)
		}
		places = append(places, p)
	}
	if err := rows.Err(); err != nil {
		return nil, m.failed(m.where.key, err)
	}
	return places, nil
}

// Same reports whether two lists hold the same places, in any order.
func Same(a, b []Place) bool {
	if len(a) != len(b) {
		return false
	}
	count := map[Place]int{}
	for _, p := range a {
		count[p]++
	}
	for _, p := range b {
		if count[p]--; count[p] < 0 {
			return false
		}
	}
	return true
}

// Show is for messages.
func Show(places []Place) string {
	if len(places) == 0 {
		return "nowhere"
	}
	texts := make([]string, len(places))
	for i, p := range places {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}
