package vitesstest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"vitess.io/vitess/go/json2"
	"vitess.io/vitess/go/vt/grpcclient"
	"vitess.io/vitess/go/vt/vtctl/grpcvtctldclient"
	"vitess.io/vitess/go/vt/vtctl/vtctldclient"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	vtctldatapb "vitess.io/vitess/go/vt/proto/vtctldata"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
)

// AddKeyspace makes a serving keyspace with one tablet for each shard, all databases of the
// same name. Several may be made at once. The shards must cover all keyspace ids: -80, 80-, or 0.
func (f *Fleet) AddKeyspace(ctx context.Context, keyspace, database string, shards ...string) ([]*Tablet, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.Topo().CreateKeyspace(ctx, keyspace, &topodatapb.Keyspace{DurabilityPolicy: "none"}); err != nil {
		return nil, fmt.Errorf("keyspace %s: %w", keyspace, err)
	}
	var tablets []*Tablet
	for _, shard := range shards {
		if err := f.Topo().CreateShard(ctx, keyspace, shard); err != nil {
			return nil, fmt.Errorf("keyspace %s: shard %s: %w", keyspace, shard, err)
		}
		tablets = append(tablets, f.newTablet(keyspace, shard, database))
	}
	vtctld, err := f.dialVtctld(ctx)
	if err != nil {
		return nil, err
	}
	defer vtctld.Close()
	g, gctx := errgroup.WithContext(ctx)
	for _, t := range tablets {
		g.Go(func() error {
			if err := t.start(gctx, nil); err != nil {
				return err
			}
			return t.elect(gctx, vtctld)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("keyspace %s: %w", keyspace, err)
	}
	_, err = vtctld.RebuildKeyspaceGraph(ctx, &vtctldatapb.RebuildKeyspaceGraphRequest{Keyspace: keyspace})
	return tablets, err
}

func (f *Fleet) dialVtctld(ctx context.Context) (vtctldclient.VtctldClient, error) {
	return grpcvtctldclient.NewWithDialOpts(ctx, f.Config.Vtctld, grpcclient.FailFast(true), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// elect makes the tablet its shard's primary, as soon as it is there.
func (t *Tablet) elect(ctx context.Context, vtctld vtctldclient.VtctldClient) error {
	for {
		alias := &topodatapb.TabletAlias{Cell: Cell, Uid: uint32(t.uid)}
		_, err := vtctld.PlannedReparentShard(ctx, &vtctldatapb.PlannedReparentShardRequest{Keyspace: t.keyspace, Shard: t.shard, NewPrimary: alias})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: electing it: %w (%w)", t.Alias, err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ApplyVSchema gives a keyspace its vschema (JSON), by vtctld, which must know its vindexes.
func (f *Fleet) ApplyVSchema(ctx context.Context, keyspace, vschema string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ks := &vschemapb.Keyspace{}
	if err := json2.UnmarshalPB([]byte(vschema), ks); err != nil {
		return fmt.Errorf("keyspace %s: vschema: %w", keyspace, err)
	}
	vtctld, err := f.dialVtctld(ctx)
	if err != nil {
		return err
	}
	defer vtctld.Close()
	_, err = vtctld.ApplyVSchema(ctx, &vtctldatapb.ApplyVSchemaRequest{Keyspace: keyspace, VSchema: ks, Strict: true})
	return err
}

// StartVtgate starts a vtgate that lets everybody in, and waits until it serves.
func (f *Fleet) StartVtgate(ctx context.Context, extra ...string) (mysqlconn.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	target := mysqlconn.Target{Name: "vtgate", Host: "127.0.0.1", Account: mysqlconn.Account{User: "app", Password: "any"}}
	name := fmt.Sprintf("vtgate-%d", len(f.vtgates)+1)
	vtgate, err := f.daemon(ctx, "vtgate", name, func() ([]string, error) {
		port, err := mysqld.FreePort()
		target.Port = port
		return append([]string{
			"--cell", Cell, "--cells-to-watch", Cell, "--tablet-types-to-wait", "PRIMARY", "--tablet-refresh-interval", "1s",
			"--mysql-server-port", fmt.Sprint(port), "--mysql-server-bind-address", "127.0.0.1", "--mysql-auth-server-impl", "none",
		}, extra...), err
	})
	if err != nil {
		return target, err
	}
	f.vtgates = append(f.vtgates, vtgate)
	db, err := mysqlconn.Open(target, func(c *mysql.Config) { c.Params, c.MaxAllowedPacket = nil, 1<<20 })
	if err != nil {
		return target, err
	}
	defer db.Close()
	for {
		if err = db.PingContext(ctx); err == nil {
			return target, nil
		}
		select {
		case <-ctx.Done():
			return target, fmt.Errorf("vtgate: %w (%w)", err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Record is the tablet's record in the topo server.
func (t *Tablet) Record(ctx context.Context) (*topodatapb.Tablet, error) {
	ti, err := t.f.Topo().GetTablet(ctx, &topodatapb.TabletAlias{Cell: Cell, Uid: uint32(t.uid)})
	if err != nil {
		return nil, err
	}
	return ti.Tablet, nil
}
