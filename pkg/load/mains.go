package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/shardid"
)

// The application's own statements on mains.
const (
	allTeams    = "SELECT team_id, shard FROM teams ORDER BY team_id"
	shardOfTeam = "SELECT shard FROM teams WHERE team_id = ?"
	placesOf    = "SELECT side, host, port, db_name FROM shards WHERE shard = ? ORDER BY side"
)

// cacheFor is how long the application believes mains. Long enough that mains is not asked
// at every operation; an error drops the entry at once.
const cacheFor = 2 * time.Second

// errNoPlace is mains not knowing where a team's data is.
var errNoPlace = errors.New("mains knows no place for it")

// endpoint is host:port/database: what names a place in the ledger.
func endpoint(p appschema.Place) string {
	return net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) + "/" + p.Database
}

// directory is the application's view of mains, cached.
type directory struct {
	db *sql.DB

	mu     sync.Mutex
	shards map[int64]shardid.ID
	places map[shardid.ID]cached
}

type cached struct {
	places []appschema.Place
	until  time.Time
}

func newDirectory(db *sql.DB) *directory {
	return &directory{db: db, shards: map[int64]shardid.ID{}, places: map[shardid.ID]cached{}}
}

// where finds the shard of a team and the place that the team prefers: a for even ids, b
// for odd ones; the only one there is when a side is missing.
func (d *directory) where(ctx context.Context, team int64) (shardid.ID, appschema.Place, error) {
	d.mu.Lock()
	id, known := d.shards[team]
	c := d.places[id]
	d.mu.Unlock()
	if !known {
		var n uint16
		if err := d.db.QueryRowContext(ctx, shardOfTeam, team).Scan(&n); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				err = errNoPlace
			}
			return 0, appschema.Place{}, fmt.Errorf("mains: shard of team %d: %w", team, err)
		}
		id = shardid.ID(n)
		d.mu.Lock()
		d.shards[team], c = id, d.places[id]
		d.mu.Unlock()
	}
	if !known || time.Now().After(c.until) {
		places, err := readPlaces(ctx, d.db, id)
		if err != nil {
			return id, appschema.Place{}, err
		}
		c = cached{places, time.Now().Add(cacheFor)}
		d.mu.Lock()
		d.places[id] = c
		d.mu.Unlock()
	}
	side := "a"
	if team%2 != 0 {
		side = "b"
	}
	for _, p := range c.places {
		if p.Side == side || len(c.places) == 1 {
			return id, p, nil
		}
	}
	return id, appschema.Place{}, fmt.Errorf("mains: shard %s side %s: %w", id, side, errNoPlace)
}

// drop forgets what is known of a team and its shard.
func (d *directory) drop(team int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.shards[team]; ok {
		delete(d.places, id)
		delete(d.shards, team)
	}
}

func readPlaces(ctx context.Context, db *sql.DB, id shardid.ID) ([]appschema.Place, error) {
	rows, err := db.QueryContext(ctx, placesOf, uint16(id))
	if err != nil {
		return nil, fmt.Errorf("mains: places of shard %s: %w", id, err)
	}
	defer func() { _ = rows.Close() }()
	var out []appschema.Place
	for rows.Next() {
		var p appschema.Place
		if err := rows.Scan(&p.Side, &p.Host, &p.Port, &p.Database); err != nil {
			return nil, fmt.Errorf("mains: places of shard %s: %w", id, err)
		}
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("mains: places of shard %s: %w", id, err)
	}
	return out, nil
}

// readTeams are the teams of the shards (of all shards when none are named).
func readTeams(ctx context.Context, db *sql.DB, shards []shardid.ID) ([]int64, error) {
	rows, err := db.QueryContext(ctx, allTeams)
	if err != nil {
		return nil, fmt.Errorf("mains: teams: %w", err)
	}
	defer func() { _ = rows.Close() }()
	wanted := map[shardid.ID]bool{}
	for _, id := range shards {
		wanted[id] = true
	}
	var out []int64
	for rows.Next() {
		var team int64
		var shard uint16
		if err := rows.Scan(&team, &shard); err != nil {
			return nil, fmt.Errorf("mains: teams: %w", err)
		}
		if len(wanted) == 0 || wanted[shardid.ID(shard)] {
			out = append(out, team)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("mains: teams: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("mains: found no team on shards %v: fill mains first", shards)
	}
	return out, nil
}
