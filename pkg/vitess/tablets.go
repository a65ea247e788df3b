package vitess

import (
	"context"
	"database/sql"
	"fmt"
	"sort"
	"sync"

	"vitess.io/vitess/go/mysql/replication"
	"vitess.io/vitess/go/protoutil"
	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/topo/topoproto"
	"vitess.io/vitess/go/vt/vtctl/reparentutil/policy"

	replicationdatapb "vitess.io/vitess/go/vt/proto/replicationdata"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vtctldatapb "vitess.io/vitess/go/vt/proto/vtctldata"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Tablet is one tablet of a landing, as its record and the tablet itself say.
type Tablet struct {
	Alias     string `json:"alias"` // such as zone1-0000000100
	Type      string `json:"type"`  // PRIMARY, REPLICA, RDONLY, BACKUP, RESTORE, …
	Host      string `json:"host"`  // of the tablet
	GRPCPort  int    `json:"grpc_port"`
	MySQLHost string `json:"mysql_host"`
	MySQLPort int    `json:"mysql_port"`
	Database  string `json:"database"` // that the tablet serves
	// Problem says why the tablet could not be asked; what follows is then empty.
	Problem string `json:"problem,omitempty"`
	// ServerUUID, Version and the flags are of the tablet's mysqld, read just now.
	ServerUUID    string `json:"server_uuid,omitempty"`
	Version       string `json:"version,omitempty"`
	ReadOnly      bool   `json:"read_only"`
	SuperReadOnly bool   `json:"super_read_only"`
	// Replicating says that both replication threads run; false on a primary.
	Replicating bool `json:"replicating"`
	// LagSeconds is how far the replica is behind; -1 when it does not know, or is none.
	LagSeconds int64 `json:"lag_seconds"`
	// SemiSyncReplica says that the replica acknowledges what it receives.
	SemiSyncReplica bool `json:"semi_sync_replica"`

	record *topodatapb.Tablet
}

// Tablets are all tablets of the landing, in all cells, sorted by alias. One that does not
// answer is listed with its Problem. No tablet is no error.
func (l *Landing) Tablets(ctx context.Context) ([]Tablet, error) {
	records, err := l.records(ctx)
	if err != nil {
		return nil, err
	}
	tablets := make([]Tablet, len(records))
	var wg sync.WaitGroup
	for i, r := range records {
		wg.Go(func() { tablets[i] = l.ask(ctx, r) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, l.errorf("asking the tablets: %w", err)
	}
	return tablets, nil
}

func (l *Landing) records(ctx context.Context) ([]*topodatapb.Tablet, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cells, err := l.f.ts.GetCellInfoNames(ctx)
	if err != nil {
		return nil, l.errorf("reading the cells: %w", err)
	}
	var records []*topodatapb.Tablet
	for _, cell := range cells {
		infos, err := l.f.ts.GetTabletsByCell(ctx, cell, &topo.GetTabletsByCellOptions{KeyspaceShard: &topo.KeyspaceShard{Keyspace: l.keyspace, Shard: shard}})
		if err != nil && !topo.IsErrType(err, topo.NoNode) {
			return nil, l.errorf("reading the tablets of cell %s: %w", cell, err)
		}
		for _, ti := range infos {
			records = append(records, ti.Tablet)
		}
	}
	sort.Slice(records, func(i, j int) bool {
		return topoproto.TabletAliasString(records[i].Alias) < topoproto.TabletAliasString(records[j].Alias)
	})
	return records, nil
}

func fromRecord(r *topodatapb.Tablet) Tablet {
	return Tablet{
		Alias: topoproto.TabletAliasString(r.Alias), Type: r.Type.String(), Host: r.Hostname, GRPCPort: int(r.PortMap["grpc"]),
		MySQLHost: r.MysqlHostname, MySQLPort: int(r.MysqlPort), Database: topoproto.TabletDbName(r), record: r,
	}
}

// ask completes a record with what the tablet itself says.
func (l *Landing) ask(ctx context.Context, r *topodatapb.Tablet) Tablet {
	t := fromRecord(r)
	st, err := l.status(ctx, r)
	if err != nil {
		t.Problem = oneLine{err}.Error()
		return t
	}
	// A tablet that has just restored answers before its record has the port of its mysqld.
	if t.MySQLPort == 0 {
		t.Problem = "the port of its mysqld is not known yet"
		return t
	}
	t.ServerUUID, t.Version, t.ReadOnly, t.SuperReadOnly = st.ServerUuid, st.Version, st.ReadOnly, st.SuperReadOnly
	t.LagSeconds = -1
	if rs := st.ReplicationStatus; rs != nil {
		if !rs.ReplicationLagUnknown {
			t.LagSeconds = int64(rs.ReplicationLagSeconds)
		}
		const running = int32(replication.ReplicationStateRunning)
		t.Replicating = rs.IoState == running && rs.SqlState == running
	}
	t.SemiSyncReplica = st.SemiSyncReplicaStatus
	return t
}

func (l *Landing) status(ctx context.Context, r *topodatapb.Tablet) (*replicationdatapb.FullStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return l.f.tablets.FullStatus(ctx, r)
}

// Primary is the tablet that the shard record names as primary, asked how it is. It is an
// error when there is none, when it does not answer, or when it does not think so itself.
func (l *Landing) Primary(ctx context.Context) (Tablet, error) {
	r, err := l.primaryRecord(ctx)
	if err != nil {
		return Tablet{}, err
	}
	t := l.ask(ctx, r)
	if t.Problem != "" {
		return t, l.errorf("the primary %s (%s:%d) does not answer: %s: check the tablet, or let VTOrc elect another", t.Alias, t.Host, t.GRPCPort, t.Problem)
	}
	return t, nil
}

func (l *Landing) primaryRecord(ctx context.Context) (*topodatapb.Tablet, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	if err != nil {
		return nil, l.errorf("reading shard %s: %w", shard, err)
	}
	if topoproto.TabletAliasIsZero(si.PrimaryAlias) {
		return nil, l.errorf("it has no primary yet: elect one")
	}
	ti, err := l.f.ts.GetTablet(ctx, si.PrimaryAlias)
	if err != nil {
		return nil, l.errorf("reading the primary's record %s: %w", topoproto.TabletAliasString(si.PrimaryAlias), err)
	}
	if ti.Type != topodatapb.TabletType_PRIMARY {
		return nil, l.errorf("the shard record names %s as primary, but it is %s: a reparent is under way, or the tablet is starting; wait, then run it again", topoproto.TabletAliasString(si.PrimaryAlias), ti.Type)
	}
	return ti.Tablet, nil
}

// Elect makes the tablet the primary by PlannedReparentShard through vtctld, on condition
// that the primary is still who it was when this was called. It takes the shard lock: do
// not hold it. It is idempotent.
func (l *Landing) Elect(ctx context.Context, alias string) error {
	ctx, cancel := context.WithTimeout(ctx, electTimeout)
	defer cancel()
	want, err := topoproto.ParseTabletAlias(alias)
	if err != nil {
		return l.errorf("tablet alias %q: %w", alias, err)
	}
	si, err := l.f.ts.GetShard(ctx, l.keyspace, shard)
	if err != nil {
		return l.errorf("reading shard %s: %w", shard, err)
	}
	req := &vtctldatapb.PlannedReparentShardRequest{
		Keyspace: l.keyspace, Shard: shard, NewPrimary: want, AllowCrossCellPromotion: true,
		WaitReplicasTimeout: protoutil.DurationToProto(electTimeout / 2),
	}
	if si.HasPrimary() {
		req.ExpectedPrimary = si.PrimaryAlias
	}
	if _, err := l.f.vtctld.PlannedReparentShard(ctx, req); err != nil {
		return l.errorf("vtctld at %s: electing %s: %w", l.f.address, alias, oneLine{err})
	}
	return nil
}

// SemiSyncReady counts the replicas that could take over (they replicate, and acknowledge
// where the policy asks for it) and says how many there must be: one to become primary and
// as many more as must acknowledge its writes. A policy without semi-sync needs none.
func (l *Landing) SemiSyncReady(ctx context.Context) (have, need int, err error) {
	name, err := l.f.ts.GetKeyspaceDurability(ctx, l.keyspace)
	if err != nil {
		return 0, 0, l.errorf("reading the durability policy: %w", err)
	}
	durability, err := policy.GetDurabilityPolicy(name)
	if err != nil {
		return 0, 0, l.errorf("durability policy %q: %w", name, err)
	}
	primary, err := l.Primary(ctx)
	if err != nil {
		return 0, 0, err
	}
	tablets, err := l.Tablets(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range tablets {
		if t.Alias == primary.Alias || t.Problem != "" || !t.Replicating {
			continue
		}
		if !policy.HasSemiSync(durability) || t.SemiSyncReplica && policy.IsReplicaSemiSync(durability, primary.record, t.record) {
			have++
		}
	}
	if policy.HasSemiSync(durability) {
		need = policy.SemiSyncAckers(durability, primary.record) + 1
	}
	return have, need, nil
}

// Target is the tablet's own mysqld over TCP, with an account of vifl's.
func (l *Landing) Target(t Tablet, acc mysqlconn.Account, database string) mysqlconn.Target {
	return mysqlconn.Target{
		Name: fmt.Sprintf("%s tablet %s", l, t.Alias), Host: t.MySQLHost, Port: t.MySQLPort, Account: acc, Database: database,
	}
}

// Connect opens and proves a connection pool to the tablet's own mysqld.
func (l *Landing) Connect(ctx context.Context, t Tablet, acc mysqlconn.Account, database string) (*sql.DB, error) {
	return mysqlconn.Connect(ctx, l.Target(t, acc, database))
}
