package shardmove

import (
	"context"
	"fmt"

	"github.com/vifl/vifl/pkg/diff"
)

// Explanation is one row as side a, side b and every tablet of the landing have it now.
type Explanation struct {
	Shard string `json:"shard"`
	diff.Explanation
}

// Explain reads one row on side a, side b and every tablet of the landing, and says in which
// columns they differ. key is in the form that a diff prints. It takes no lease and changes
// nothing; a row that is written meanwhile, or that the stream has not brought over yet, may
// differ for a moment. Differences are a *Different with the report beside it.
func (m *Move) Explain(ctx context.Context, table, key string) (*Explanation, error) {
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, err
	}
	tablets, err := m.openTablets(ctx)
	if err != nil {
		return nil, err
	}
	defer tablets.close()
	tables, err := m.sameSchemas(ctx, a, b, tablets)
	if err != nil {
		return nil, err
	}
	others := []diff.Pool{{Name: b.Name(), Database: m.shard.Database, DB: b.DB()}}
	for _, t := range tablets {
		others = append(others, diff.Pool{Name: "tablet " + t.Alias, Database: m.shard.Database, DB: t.db})
	}
	found, err := diff.Explain(ctx, diff.Pool{Name: a.Name(), Database: m.shard.Database, DB: a.DB()}, others, tables, table, key)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	out := &Explanation{Shard: m.show, Explanation: *found}
	if !found.Equal {
		return out, &Different{Shard: m.show, Rows: 1}
	}
	return out, nil
}
