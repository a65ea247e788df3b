package vitess

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"

	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topo/topoproto"
	"vitess.io/vitess/go/vt/vtctl/reparentutil/policy"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vtctldatapb "vitess.io/vitess/go/vt/proto/vtctldata"
)

// Landing is the Vitess shard that a legacy shard moves into.
type Landing struct {
	f        *Fleet
	keyspace string
}

// Keyspace is the landing's name.
func (l *Landing) Keyspace() string { return l.keyspace }

// String is how errors name the landing.
func (l *Landing) String() string { return "landing " + l.keyspace }

func (l *Landing) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{l}, args...)...)
}

// Exists reports whether the keyspace is in the topo server.
func (l *Landing) Exists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := l.f.ts.GetKeyspace(ctx, l.keyspace)
	switch {
	case topo.IsErrType(err, topo.NoNode):
		return false, nil
	case err != nil:
		return false, l.errorf("reading the keyspace: %w", err)
	}
	return true, nil
}

// Create makes the keyspace with the durability policy, an empty unsharded vschema and
// shard 0, fenced. It is idempotent: what an earlier, killed Create left is completed. A
// keyspace that was not made for this (other shards, another policy, or serving) is an
// error and is left as it is.
func (l *Landing) Create(ctx context.Context, durability string) error {
	if !policy.CheckDurabilityPolicyExists(durability) {
		return l.errorf("durability policy %q is unknown to Vitess: expected none, semi_sync or cross_cell", durability)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ts := l.f.ts
	if err := ts.CreateKeyspace(ctx, l.keyspace, &topodatapb.Keyspace{DurabilityPolicy: durability}); err != nil && !topo.IsErrType(err, topo.NodeExists) {
		return l.errorf("creating the keyspace: %w", err)
	}
	ki, err := ts.GetKeyspace(ctx, l.keyspace)
	if err != nil {
		return l.errorf("reading the keyspace: %w", err)
	}
	if ki.DurabilityPolicy != durability || ki.KeyspaceType != topodatapb.KeyspaceType_NORMAL {
		return l.errorf("the keyspace exists with durability policy %q and type %s, expected %q and NORMAL: it was not made for this move; choose another landing name or remove it", ki.DurabilityPolicy, ki.KeyspaceType, durability)
	}
	if err := ts.EnsureVSchema(ctx, l.keyspace); err != nil {
		return l.errorf("saving an empty vschema: %w", err)
	}
	vs, err := ts.GetVSchema(ctx, l.keyspace)
	if err != nil {
		return l.errorf("reading the vschema: %w", err)
	}
	if vs.Sharded {
		return l.errorf("the keyspace exists and is sharded: it was not made for this move; choose another landing name or remove it")
	}
	if err := l.createShard(ctx); err != nil {
		return err
	}
	if err := l.rebuild(ctx); err != nil {
		return err
	}
	if err := ts.RebuildSrvVSchema(ctx, nil); err != nil {
		return l.errorf("rebuilding the vschema that vtgates see: %w", err)
	}
	return nil
}

// createShard writes the shard record with the fence already in it. topo.CreateShard would
// make it serving, and a tablet that comes up before the fence was set would publish it.
func (l *Landing) createShard(ctx context.Context) error {
	names, err := l.f.ts.GetShardNames(ctx, l.keyspace)
	if err != nil && !topo.IsErrType(err, topo.NoNode) {
		return l.errorf("reading the shards: %w", err)
	}
	switch {
	case len(names) == 1 && names[0] == shard:
		return l.ours(ctx)
	case len(names) > 0:
		sort.Strings(names)
		return l.errorf("found shards %s, expected only %s: the keyspace was not made for this move; choose another landing name or remove it", strings.Join(names, ", "), shard)
	}
	conn, err := l.f.ts.ConnForCell(ctx, topo.GlobalCell)
	if err != nil {
		return l.errorf("topo server: %w", err)
	}
	record, err := (&topodatapb.Shard{IsPrimaryServing: false}).MarshalVT()
	if err != nil {
		return l.errorf("shard record: %w", err)
	}
	_, err = conn.Create(ctx, path.Join(topo.KeyspacesPath, l.keyspace, topo.ShardsPath, shard, topo.ShardFile), record)
	if topo.IsErrType(err, topo.NodeExists) {
		return l.ours(ctx)
	}
	if err != nil {
		return l.errorf("creating shard %s: %w", shard, err)
	}
	return nil
}

// ours reports a shard record that a Create of ours cannot have left.
func (l *Landing) ours(ctx context.Context) error {
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	if err != nil {
		return l.errorf("reading shard %s: %w", shard, err)
	}
	if si.IsPrimaryServing {
		return l.errorf("the keyspace exists and serves clients (primary %s): a landing is fenced from birth; choose another landing name, or remove the keyspace if it is not used", topoproto.TabletAliasString(si.PrimaryAlias))
	}
	return nil
}

// deleteTimeout bounds Delete: VTOrc, trying to save a landing whose tablets have just been
// stopped, holds the shard lock for many seconds at a time.
const deleteTimeout = 90 * time.Second

// Delete removes the keyspace with its shard and tablet records, after an abort. The
// tablets' processes must be gone first: one that still runs would only find its records
// missing. It is idempotent. A landing that serves clients is never deleted.
func (l *Landing) Delete(ctx context.Context) error {
	exists, err := l.Exists(ctx)
	if err != nil || !exists {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	switch {
	case topo.IsErrType(err, topo.NoNode):
	case err != nil:
		return l.errorf("reading shard %s: %w", shard, err)
	case si.IsPrimaryServing:
		return l.errorf("it serves clients, so it is not deleted: close its fence first")
	}
	_, err = l.f.vtctld.DeleteKeyspace(ctx, &vtctldatapb.DeleteKeyspaceRequest{Keyspace: l.keyspace, Recursive: true, Force: false})
	if err != nil {
		return l.errorf("vtctld at %s: deleting the keyspace: %w", l.f.address, oneLine{err})
	}
	if err := l.f.ts.RebuildSrvVSchema(ctx, nil); err != nil {
		return l.errorf("rebuilding the vschema that vtgates see: %w", err)
	}
	return nil
}
