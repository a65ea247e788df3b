package vitess

import (
	"context"
	"fmt"
	"sort"

	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topo/topoproto"
)

// ShardPrimary is the primary of one shard of a keyspace, as its record says; the tablet
// itself is not asked.
type ShardPrimary struct {
	Shard string
	Tablet
}

// Primaries are the primaries of a keyspace's shards, by the shards' names: of those that
// serve, or of all where none does, as in a fenced landing. While a keyspace is split its old
// and new shards hold the same rows, and only one of the two serves. A shard without a
// primary is an error.
func (f *Fleet) Primaries(ctx context.Context, keyspace string) ([]ShardPrimary, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := f.ts.GetKeyspace(ctx, keyspace); err != nil {
		if topo.IsErrType(err, topo.NoNode) {
			return nil, fmt.Errorf("keyspace %s: it is not in the topo server: check its name", keyspace)
		}
		return nil, fmt.Errorf("keyspace %s: reading its record: %w", keyspace, err)
	}
	shards, err := f.serving(ctx, keyspace)
	if err != nil {
		return nil, err
	}
	var out []ShardPrimary
	for _, si := range shards {
		name := si.ShardName()
		if topoproto.TabletAliasIsZero(si.PrimaryAlias) {
			return nil, fmt.Errorf("keyspace %s: shard %s has no primary: elect one", keyspace, name)
		}
		ti, err := f.ts.GetTablet(ctx, si.PrimaryAlias)
		if err != nil {
			return nil, fmt.Errorf("keyspace %s: shard %s: reading its primary's record %s: %w", keyspace, name, topoproto.TabletAliasString(si.PrimaryAlias), err)
		}
		out = append(out, ShardPrimary{Shard: name, Tablet: fromRecord(ti.Tablet)})
	}
	return out, nil
}

// serving are the shards of a keyspace that serve, or all where none does, as in a fenced landing, by
// their names. None at all is an error.
func (f *Fleet) serving(ctx context.Context, keyspace string) ([]*topo.ShardInfo, error) {
	all, err := f.ts.FindAllShardsInKeyspace(ctx, keyspace, nil)
	if err != nil {
		return nil, fmt.Errorf("keyspace %s: reading its shards: %w", keyspace, err)
	}
	var out, idle []*topo.ShardInfo
	for _, si := range all {
		if si.IsPrimaryServing {
			out = append(out, si)
		} else {
			idle = append(idle, si)
		}
	}
	if len(out) == 0 {
		out = idle
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("keyspace %s: found no shard in the topo server, expected one at least", keyspace)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ShardName() < out[j].ShardName() })
	return out, nil
}
