package vitess_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vitess.io/vitess/go/vt/topo"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/vitess"
)

// revokeAll ends the lease of the lock on legacy_0004 as a topo server does that lost sight
// of its client.
func revokeAll(ctx context.Context) error {
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{fleet.Config.Topo.Server}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer cli.Close()
	held, err := cli.Get(ctx, "/vitess/global/keyspaces/legacy_0004/shards/0/locks", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range held.Kvs {
		if _, err := cli.Revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil {
			return err
		}
	}
	return nil
}

// Each kind of automation of somebody else must be listed; without them the list is empty.
func TestAutomation(t *testing.T) {
	ctx := within(t, time.Minute)
	l := tablet.Landing
	list := func(ctx context.Context, own int64) []string {
		t.Helper()
		lines, err := l.Automation(ctx, own)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	if lines := list(ctx, 0); len(lines) != 0 {
		t.Fatalf("found %q on a landing that nobody touched", lines)
	}
	db, err := mysqlconn.Connect(ctx, tablet.MySQL.Target("landing"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(q string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	shardRecord := func(change func(*topo.ShardInfo)) {
		t.Helper()
		_, err := fleet.Topo().UpdateShardFields(ctx, "legacy_0123", "0", func(si *topo.ShardInfo) error { change(si); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, own int64) {
		t.Helper()
		if lines := list(ctx, own); len(lines) != 1 || !strings.Contains(lines[0], what) {
			t.Errorf("found %q, expected one line with %q", lines, what)
		}
	}

	res, err := l.VReplicationExec(ctx, "insert into _vt.vreplication (workflow, db_name, source, pos, max_tps, max_replication_lag, time_updated, transaction_timestamp, state, options) values ('foreign', 'slack', 'external_mysql:\"x\" filter:{rules:{match:\"/.*\"}}', 'FilePos/b.000001:4', 1, 1, 0, 0, 'Stopped', '{}')")
	if err != nil {
		t.Fatal(err)
	}
	expect(`workflow "foreign"`, int64(res.InsertID)+1)
	if lines := list(ctx, int64(res.InsertID)); len(lines) != 0 {
		t.Errorf("found %q, expected our own stream not to count", lines)
	}
	if _, err := l.VReplicationExec(ctx, "delete from _vt.vreplication where workflow='foreign'"); err != nil {
		t.Fatal(err)
	}

	exec("insert into _vt.vdiff (vdiff_uuid, workflow, keyspace, shard, db_name, state) values ('6ace8bce-f732-11ea-87e9-f875a4d24e90', 'w', 'legacy_0123', '0', 'slack', 'started')")
	expect("VDiff 6ace8bce", 0)
	exec("update _vt.vdiff set state='completed'")

	exec("insert into _vt.schema_migrations (migration_uuid, keyspace, shard, mysql_schema, mysql_table, migration_statement, strategy, options, migration_status, log_path, artifacts, message, removed_unique_key_names, dropped_no_default_column_names, expanded_column_names, revertible_notes, special_plan, component_throttled, reason_throttled, stage, removed_foreign_key_names) values ('u1', 'legacy_0123', '0', 'slack', 'messages', '', 'vitess', '', 'running', '', '', '', '', '', '', '', '', '', '', '', '')")
	expect("online DDL u1 on table messages", 0)
	exec("update _vt.schema_migrations set migration_status='complete'")

	shardRecord(func(si *topo.ShardInfo) {
		si.TabletControls = []*topodatapb.Shard_TabletControl{{TabletType: topodatapb.TabletType_PRIMARY, DeniedTables: []string{"messages"}}}
	})
	expect("messages", 0)
	shardRecord(func(si *topo.ShardInfo) { si.TabletControls = nil })

	locked, unlock, err := l.Lock(ctx, "somebody's reparent")
	if err != nil {
		t.Fatal(err)
	}
	expect("somebody's reparent", 0)
	if lines := list(locked, 0); len(lines) != 0 {
		t.Errorf("found %q, expected our own lock not to count", lines)
	}
	unlock(nil)
}

func TestTabletsAndPrimary(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	tablets, err := tablet.Landing.Tablets(ctx)
	if err != nil || len(tablets) != 1 {
		t.Fatalf("%v, %v", tablets, err)
	}
	if got := tablets[0]; got.Alias != tablet.Alias || got.Database != "slack" || got.MySQLPort != tablet.MySQL.Port() || len(got.ServerUUID) != 36 || got.ReadOnly {
		t.Errorf("%+v", got)
	}
	have, need, err := tablet.Landing.SemiSyncReady(ctx)
	if err != nil || have != 0 || need != 0 {
		t.Errorf("under policy none: have %d, need %d, %v", have, need, err)
	}
	db, err := mysqlconn.Connect(ctx, tablet.MySQL.Target("landing"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	gtid, err := vitess.GTIDExecuted(ctx, db)
	if err != nil || gtid == "" {
		t.Fatalf("gtid %q, %v", gtid, err)
	}
	if err := vitess.WaitGTID(ctx, db, gtid); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	if err := vitess.WaitGTID(short, db, "11111111-1111-1111-1111-111111111111:1-5"); err == nil {
		t.Error("waiting for a gtid that never comes succeeded")
	}
	if _, err := fleet.Landing("legacy_9999").Primary(ctx); err == nil || !strings.Contains(err.Error(), "legacy_9999") {
		t.Errorf("the primary of a landing that is not there: %v", err)
	}
}
