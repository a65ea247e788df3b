package appschema

import (
	"context"
	"database/sql"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Size says how much data a shard gets.
type Size struct {
	// Teams is how many workspaces; at most 1,000,000.
	Teams int
	// MessagesPerTeam; every third has a reaction. At most 1,000,000.
	MessagesPerTeam int
	// Seed changes the texts and numbers of the data.
	Seed uint64
	// Parallel is how many connections insert at once; 4 when zero.
	Parallel int
}

// DefaultSize is 2,000 workspaces in about 50 MB of data and index files.
func DefaultSize() Size { return Size{Teams: 2000, MessagesPerTeam: 40} }

// bytesPerMessage is what one message with its share of reactions takes in data and index
// files, as information_schema.tables says after a filling on MySQL 9.7.
const bytesPerMessage = 427

// SizeOf is 2,000 workspaces with enough messages for about so many bytes of data and index
// files, for benchmarks; never less than DefaultSize.
func SizeOf(bytes int64) Size {
	s := DefaultSize()
	const longTail = 21 << 20 // the other tables of 2,000 workspaces
	s.MessagesPerTeam = max(s.MessagesPerTeam, int((bytes-longTail)/bytesPerMessage/int64(s.Teams)))
	return s
}

// Populate makes the tables that are missing in db's default database and fills them for
// the teams firstTeam, firstTeam+1, …. It must be run on empty tables: a second run with
// the same teams fails on duplicate keys. It writes with multi-row statements, each its own
// transaction, and stops at the first error; what was written until then stays.
func Populate(ctx context.Context, db *sql.DB, firstTeam int64, s Size) error {
	if s.Teams < 1 || s.Teams > teamsPerShard || s.MessagesPerTeam < 0 || s.MessagesPerTeam > 1<<20 {
		return fmt.Errorf("populate: found %d teams with %d messages, expected 1 to %d teams with at most %d messages",
			s.Teams, s.MessagesPerTeam, teamsPerShard, 1<<20)
	}
	if err := Create(ctx, db); err != nil {
		return err
	}
	parallel := s.Parallel
	if parallel < 1 {
		parallel = 4
	}
	g, ctx := errgroup.WithContext(ctx)
	per := (s.Teams + parallel - 1) / parallel
	for start := 0; start < s.Teams; start += per {
		first, last := firstTeam+int64(start), firstTeam+int64(min(start+per, s.Teams))
		g.Go(func() error {
			w := newWriter(db)
			for team := first; team < last; team++ {
				if err := w.team(ctx, team, s); err != nil {
					return err
				}
			}
			return w.flushAll(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("populate: %w", err)
	}
	return nil
}
