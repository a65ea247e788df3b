// Package appschema owns the tables of the chat product whose shards are moved: those of a
// shard, those of mains, and the data that fills them for the local fleet, the tests and
// the benchmarks. It knows no servers, no load and no policy.
//
// Invariants: every table is InnoDB with a primary key and has a team_id; there are no
// foreign keys and no triggers; the statements run on MySQL 8.0.26 and later, and through a
// vtgate on an unsharded keyspace. The data is a function of the size, its seed and the
// first team alone, so two fillings of the same size are equal row by row. Teams of
// different shards have different ids.
package appschema

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/shardid"
)

//go:embed shard.sql
var shardSQL string

//go:embed mains.sql
var mainsSQL string

// teamsPerShard is the room for team ids that every shard number has for its own.
const teamsPerShard = 1_000_000

// FirstTeam is the lowest team id that may live on a shard.
func FirstTeam(id shardid.ID) int64 { return int64(id)*teamsPerShard + 1 }

// Teams are the ids of the first n teams of a shard.
func Teams(id shardid.ID, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = FirstTeam(id) + int64(i)
	}
	return out
}

// Create makes the shard's tables that are missing in db's default database.
func Create(ctx context.Context, db *sql.DB) error { return run(ctx, db, "shard", shardSQL) }

// CreateMains makes mains' tables that are missing in db's default database.
func CreateMains(ctx context.Context, db *sql.DB) error { return run(ctx, db, "mains", mainsSQL) }

// ShardStatements are the CREATE TABLE statements of a shard.
func ShardStatements() []string { return split(shardSQL) }

// Script runs another application's script in db's default database: statements that end with
// ";" at a line's end.
func Script(ctx context.Context, db *sql.DB, script string) error {
	return run(ctx, db, "the application", script)
}

func run(ctx context.Context, db *sql.DB, what, script string) error {
	for _, stmt := range split(script) {
		if _, err := db.ExecContext(ctx, stmt); err != nil {
			first, _, _ := strings.Cut(stmt, "\n")
			return fmt.Errorf("schema of %s: %s …: %w", what, first, err)
		}
	}
	return nil
}

func split(script string) []string {
	var out []string
	for part := range strings.SplitSeq(script, ";\n") {
		var kept []string
		for line := range strings.SplitSeq(part, "\n") {
			if !strings.HasPrefix(line, "--") {
				kept = append(kept, line)
			}
		}
		if stmt := strings.TrimSpace(strings.Join(kept, "\n")); stmt != "" {
			out = append(out, stmt)
		}
	}
	return out
}
