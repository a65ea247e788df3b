package vitess

import (
	"context"
	"fmt"

	"vitess.io/vitess/go/vt/logutil"
	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topotools"
)

// The fence is the shard record's is_primary_serving=false together with a rebuilt serving
// graph: vtgates then know no partition of the landing and refuse its clients at once,
// shard-targeted ones and replicas' readers too, while tablets, replication and streams go
// on. The flag without the rebuild does nothing. It survives restarts, reparents and VTOrc.
// It closes vtgate, not the tablet, and is no barrier for transactions that are open: their
// COMMIT still goes through.

// Fenced reports whether the fence is closed: in the shard record and in every cell. It is
// false when either half is missing, since then clients may get in.
func (l *Landing) Fenced(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	if err != nil {
		return false, l.errorf("reading shard %s: %w", shard, err)
	}
	if si.IsPrimaryServing {
		return false, nil
	}
	served, err := l.servedIn(ctx)
	if err != nil {
		return false, err
	}
	return len(served) == 0, nil
}

// servedIn are the cells whose serving graph sends clients to the landing.
func (l *Landing) servedIn(ctx context.Context) ([]string, error) {
	cells, err := l.f.ts.GetCellInfoNames(ctx)
	if err != nil {
		return nil, l.errorf("reading the cells: %w", err)
	}
	var served []string
	for _, cell := range cells {
		sk, err := l.f.ts.GetSrvKeyspace(ctx, cell, l.keyspace)
		switch {
		case topo.IsErrType(err, topo.NoNode):
			continue
		case err != nil:
			return nil, l.errorf("reading the serving graph of cell %s: %w", cell, err)
		}
		for _, p := range sk.Partitions {
			if len(p.ShardReferences) > 0 {
				served = append(served, cell)
				break
			}
		}
	}
	return served, nil
}

// SetFence closes or opens the fence and reads it back. It is idempotent and works while
// the caller holds the shard lock: it changes the topo server itself, since vtctld's
// command for it would wait for that very lock. When the rebuild fails after the record
// was changed, the error says so and calling again completes it.
func (l *Landing) SetFence(ctx context.Context, closed bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := l.f.ts.UpdateShardFields(ctx, l.keyspace, shard, func(si *topo.ShardInfo) error {
		if si.IsPrimaryServing == !closed {
			return topo.NewError(topo.NoUpdateNeeded, l.keyspace)
		}
		si.IsPrimaryServing = !closed
		return nil
	})
	if err != nil {
		return l.errorf("writing the fence into shard %s: %w", shard, err)
	}
	if err := l.rebuild(ctx); err != nil {
		return err
	}
	served, err := l.servedIn(ctx)
	if err != nil {
		return err
	}
	if closed && len(served) > 0 {
		return l.errorf("the fence was set, but cells %v still serve it: somebody else changed the shard record at the same time", served)
	}
	if !closed && len(served) == 0 {
		return l.errorf("the fence was opened, but no cell serves it: somebody else changed the shard record at the same time")
	}
	return nil
}

// rebuild publishes the shard record to every cell.
func (l *Landing) rebuild(ctx context.Context) error {
	if err := topotools.RebuildKeyspace(ctx, logutil.NewMemoryLogger(), l.f.ts, l.keyspace, nil, false); err != nil {
		return fmt.Errorf("%s: the shard record is written, but rebuilding the serving graph failed: %w: run it again", l, err)
	}
	return nil
}
