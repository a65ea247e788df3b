package shardmove

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/vifl/vifl/pkg/schema"
)

// counters reads the next AUTO_INCREMENT value of every table that has one, by table name.
// The server serves these numbers from a cache that may be a day old, unless told not to.
func counters(ctx context.Context, db *sql.DB, database string) (map[string]uint64, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the AUTO_INCREMENT counters of %q: %w", database, err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
		return nil, fmt.Errorf("read the AUTO_INCREMENT counters of %q: %w", database, err)
	}
	rows, err := conn.QueryContext(ctx, "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = ? AND auto_increment IS NOT NULL", database)
	if err != nil {
		return nil, fmt.Errorf("read the AUTO_INCREMENT counters of %q: %w", database, err)
	}
	defer func() { _ = rows.Close() }()
	next := map[string]uint64{}
	for rows.Next() {
		var table string
		var n uint64
		if err := rows.Scan(&table, &n); err != nil {
			return nil, fmt.Errorf("read the AUTO_INCREMENT counters of %q: %w", database, err)
		}
		next[table] = n
	}
	return next, rows.Err()
}

// counterMargin is how far past the legacy's a counter is set: each side of the pair hands
// out every second value, so the next of either lies within two.
const counterMargin = 2

// raiseCounters sets the landing's counters past those of both sides. The binlog does not
// carry a counter: values that were handed out to transactions which rolled back, or to rows
// deleted since, would be handed out again, and an application may have kept them elsewhere.
func (s *switchover) raiseCounters(ctx context.Context) (string, error) {
	have, err := counters(ctx, s.target, s.m.shard.Database)
	if err != nil {
		return "", err
	}
	want := map[string]uint64{}
	for _, side := range s.sides() {
		next, err := counters(ctx, side.DB(), s.m.shard.Database)
		if err != nil {
			return "", fmt.Errorf("%s: %w", side.Name(), err)
		}
		for table, n := range next {
			want[table] = max(want[table], n+counterMargin)
		}
	}
	raised := 0
	for table, n := range want {
		if have[table] >= n {
			continue
		}
		stmt := fmt.Sprintf("ALTER TABLE %s.%s AUTO_INCREMENT = %d", schema.Quote(s.m.shard.Database), schema.Quote(table), n)
		if err := s.m.landing.ExecuteAsDBA(ctx, stmt); err != nil {
			return "", fmt.Errorf("raise the counter of %q to %d: %w", table, n, err)
		}
		raised++
	}
	return fmt.Sprintf("%d of %d raised", raised, len(want)), nil
}
