package route_test

import (
	"context"
	"testing"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/route/routetest"
	"github.com/vifl/vifl/pkg/shardid"
)

func TestDirect(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{Name: "mains"})
	routetest.Conformance(t, func(t *testing.T) routetest.Fixture {
		mysqldtest.Exec(t, srv, "DROP DATABASE IF EXISTS mains", "DROP DATABASE IF EXISTS _vifl", "CREATE DATABASE mains",
			"CREATE TABLE mains.shards (shard SMALLINT UNSIGNED NOT NULL, side CHAR(1) NOT NULL, host VARCHAR(100), port INT, db_name VARCHAR(64), PRIMARY KEY (shard, side))",
			"INSERT INTO mains.shards VALUES (1,'a','h1a',1,'d'),(1,'b','h1b',1,'d'),(2,'a','h2a',1,'d'),(2,'b','h2b',1,'d')")
		target := mysqldtest.TCP(srv, "mains")
		target.Database = "mains"
		m, err := mains.Open(t.Context(), target, config.Mains{
			Where:  "SELECT side, host, port, db_name FROM shards WHERE shard = :shard",
			Switch: "UPDATE shards SET host = :host, port = :port, db_name = :database WHERE shard = :shard AND side = :side",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		old := func(id shardid.ID) ([]mains.Place, error) {
			h := map[shardid.ID]string{1: "h1", 2: "h2"}[id]
			return []mains.Place{{Side: "a", Host: h + "a", Port: 1, Database: "d"}, {Side: "b", Host: h + "b", Port: 1, Database: "d"}}, nil
		}
		vitess := func(id shardid.ID) ([]mains.Place, error) {
			ks := shardid.Template("legacy_{shard}").Keyspace(id)
			return []mains.Place{{Side: "a", Host: "gate", Port: 9, Database: ks}, {Side: "b", Host: "gate", Port: 9, Database: ks}}, nil
		}
		return routetest.Fixture{
			Switch: route.NewDirect(m, old, vitess), Shard: 1, Other: 2, RaiseEpoch: m.RaiseEpoch,
			Scatter: func(ctx context.Context, id shardid.ID) error {
				_, err := mysqldtest.Open(t, srv).ExecContext(ctx, "UPDATE mains.shards SET host='gate', port=9, db_name='legacy_0001' WHERE shard=? AND side='a'", uint16(id))
				return err
			},
		}
	})
}
