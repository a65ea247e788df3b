// Package fleet works on many shards at once. So far that is one thing: to compare a table
// that is spread over legacy shards, or over a keyspace, with one that is spread by another
// rule. It owns which servers such a name stands for; what a difference is, pkg/diff does.
package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/vitess"
)

// SpreadOptions name both sides and what of them is compared.
type SpreadOptions struct {
	// From and To are legacy shards (numbers, joined by commas: side a of each) or a keyspace
	// (its name: the primary of each shard that serves).
	From, To string
	// Table is the table on both sides; ToTable the one of To, where it has another name.
	Table, ToTable string
	diff.SpreadOptions
}

// DiffSpread compares the two sides. It reads only, and needs no lease: nothing is pinned.
func DiffSpread(ctx context.Context, c *config.Config, o SpreadOptions, progress func(diff.Progress)) (*diff.SpreadReport, error) {
	if o.ToTable == "" {
		o.ToTable = o.Table
	}
	if o.MaxRowsPerSecond <= 0 {
		o.MaxRowsPerSecond = c.Limits.DiffRowsPerSecond
	}
	from, err := parse(o.From)
	if err != nil {
		return nil, fmt.Errorf("%w: from: %w", diff.ErrSpread, err)
	}
	to, err := parse(o.To)
	if err != nil {
		return nil, fmt.Errorf("%w: to: %w", diff.ErrSpread, err)
	}
	s := servers{c: c}
	defer s.close()
	a, err := s.spread(ctx, from, o.Table)
	if err != nil {
		return nil, err
	}
	b, err := s.spread(ctx, to, o.ToTable)
	if err != nil {
		return nil, err
	}
	return diff.CompareSpread(ctx, a, b, o.SpreadOptions, progress)
}

// side is what --from or --to stands for: legacy shards or a keyspace.
type side struct {
	shards   []shardid.ID
	keyspace string
}

// parse takes numbers for legacy shards and anything else for a keyspace's name.
func parse(text string) (side, error) {
	var out side
	parts := strings.Split(text, ",")
	for _, p := range parts {
		id, err := shardid.Parse(strings.TrimSpace(p))
		if err != nil {
			if len(parts) == 1 && p != "" && !strings.ContainsAny(p, "/:@ ") {
				return side{keyspace: p}, nil
			}
			return side{}, fmt.Errorf("found %q, expected the numbers of legacy shards, such as 0123,0124, or the name of one keyspace", text)
		}
		if slices.Contains(out.shards, id) {
			return side{}, fmt.Errorf("shard %s is given twice: its rows would be counted twice", id)
		}
		out.shards = append(out.shards, id)
	}
	return out, nil
}

// servers are the connections of one comparison.
type servers struct {
	c     *config.Config
	fleet *vitess.Fleet
	pools []*sql.DB
}

func (s *servers) close() {
	for _, p := range s.pools {
		_ = p.Close()
	}
	if s.fleet != nil {
		s.fleet.Close()
	}
}

func (s *servers) spread(ctx context.Context, of side, table string) (diff.Spread, error) {
	if of.keyspace != "" {
		return s.keyspace(ctx, of.keyspace, table)
	}
	out := diff.Spread{Table: table}
	var names []string
	for _, id := range of.shards {
		shard, err := s.c.Shard(id)
		if err != nil {
			return out, fmt.Errorf("%w: %w", diff.ErrSpread, err)
		}
		target, err := s.c.SideTarget(shard, config.SideA)
		if err != nil {
			return out, err
		}
		if err := s.open(ctx, &out, target, shard.Database); err != nil {
			return out, err
		}
		names = append(names, id.String())
	}
	out.Name = "legacy " + strings.Join(names, ", ")
	return out, nil
}

func (s *servers) keyspace(ctx context.Context, name, table string) (diff.Spread, error) {
	out := diff.Spread{Name: "keyspace " + name, Table: table}
	if s.fleet == nil {
		fleet, err := vitess.Open(ctx, s.c)
		if err != nil {
			return out, err
		}
		s.fleet = fleet
	}
	acc, err := s.c.Account(s.c.Landing.Account)
	if err != nil {
		return out, fmt.Errorf("landing account: %w", err)
	}
	primaries, err := s.fleet.Primaries(ctx, name)
	if err != nil {
		return out, err
	}
	for _, p := range primaries {
		target := mysqlconn.Target{Name: name + ":" + p.Shard, Host: p.MySQLHost, Port: p.MySQLPort, Account: acc}
		if err := s.open(ctx, &out, target, p.Database); err != nil {
			return out, err
		}
	}
	return out, nil
}

// openTime bounds connecting to one server.
const openTime = 15 * time.Second

func (s *servers) open(ctx context.Context, into *diff.Spread, target mysqlconn.Target, database string) error {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, target)
	if err != nil {
		return err
	}
	s.pools = append(s.pools, db)
	into.Pools = append(into.Pools, diff.Pool{Name: target.Name, Database: database, DB: db})
	return nil
}
