package vitess

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topo/topoproto"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
)

// Automation lists what others have under way on the landing, one line each, for people;
// empty when there is nothing: streams other than ownStreamID (0: every stream is
// foreign), VDiffs and online DDL that have not ended, denied tables and a disabled query
// service, backups and restores, and a shard lock that is not held by ctx itself.
//
// It sees what Vitess records. A person with a shell on a tablet is not seen.
func (l *Landing) Automation(ctx context.Context, ownStreamID int64) ([]string, error) {
	var found []string
	for _, look := range []func(context.Context) ([]string, error){
		l.heldByOthers, l.denied, l.backups,
		func(ctx context.Context) ([]string, error) { return l.foreignStreams(ctx, ownStreamID) },
		l.openVDiffs, l.onlineDDL,
	} {
		lines, err := look(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, lines...)
	}
	return found, nil
}

func (l *Landing) heldByOthers(ctx context.Context) ([]string, error) {
	if topo.CheckShardLocked(ctx, l.keyspace, shard) == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	holder, err := l.LockHolder(ctx)
	if err != nil || holder == "" {
		return nil, err
	}
	return []string{"the shard lock is held: " + holder}, nil
}

func (l *Landing) denied(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	if err != nil {
		return nil, l.errorf("reading shard %s: %w", shard, err)
	}
	var found []string
	for _, tc := range si.TabletControls {
		switch {
		case len(tc.DeniedTables) > 0:
			found = append(found, fmt.Sprintf("tables are denied on %s tablets: %s", tc.TabletType, strings.Join(tc.DeniedTables, ", ")))
		case tc.Frozen:
			found = append(found, fmt.Sprintf("%s tablets are frozen by a traffic switch", tc.TabletType))
		default:
			found = append(found, fmt.Sprintf("the shard record has a tablet control for %s tablets", tc.TabletType))
		}
	}
	cells, err := l.f.ts.GetCellInfoNames(ctx)
	if err != nil {
		return nil, l.errorf("reading the cells: %w", err)
	}
	for _, cell := range cells {
		sk, err := l.f.ts.GetSrvKeyspace(ctx, cell, l.keyspace)
		if topo.IsErrType(err, topo.NoNode) {
			continue
		}
		if err != nil {
			return nil, l.errorf("reading the serving graph of cell %s: %w", cell, err)
		}
		for _, p := range sk.Partitions {
			for _, tc := range p.ShardTabletControls {
				if tc.QueryServiceDisabled {
					found = append(found, fmt.Sprintf("the query service of %s tablets is disabled in cell %s", p.ServedType, cell))
				}
			}
		}
	}
	sort.Strings(found)
	return found, nil
}

func (l *Landing) backups(ctx context.Context) ([]string, error) {
	records, err := l.records(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range records {
		switch r.Type {
		case topodatapb.TabletType_BACKUP, topodatapb.TabletType_RESTORE, topodatapb.TabletType_DRAINED:
			found = append(found, fmt.Sprintf("tablet %s is %s", topoproto.TabletAliasString(r.Alias), r.Type))
		}
	}
	return found, nil
}

func (l *Landing) foreignStreams(ctx context.Context, own int64) ([]string, error) {
	res, err := l.VReplicationExec(ctx, "select id, workflow, state, source from _vt.vreplication")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range res.Rows {
		if r["id"] != fmt.Sprint(own) {
			found = append(found, fmt.Sprintf("vreplication stream %s of workflow %q is there (%s, source %s)", r["id"], r["workflow"], r["state"], r["source"]))
		}
	}
	return found, nil
}

func (l *Landing) openVDiffs(ctx context.Context) ([]string, error) {
	rows, err := l.read(ctx, "select vdiff_uuid, workflow, state from _vt.vdiff where state is null or state in ('pending', 'started') order by id")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range rows {
		found = append(found, fmt.Sprintf("VDiff %s of workflow %q is %s", r["vdiff_uuid"], r["workflow"], r["state"]))
	}
	return found, nil
}

func (l *Landing) onlineDDL(ctx context.Context) ([]string, error) {
	rows, err := l.read(ctx, "select migration_uuid, mysql_table, migration_status from _vt.schema_migrations where migration_status in ('requested', 'queued', 'ready', 'running') order by id")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range rows {
		found = append(found, fmt.Sprintf("online DDL %s on table %s is %s", r["migration_uuid"], r["mysql_table"], r["migration_status"]))
	}
	return found, nil
}
