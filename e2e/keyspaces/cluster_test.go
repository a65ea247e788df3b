// Package keyspaces_test shows the keyspaces of vindexes/keyspaces on a real Vitess fleet: that the
// two memberships agree under load and under kills, that what vifl audit says of a query is what a
// live vtgate does, and what is served while a shard is away. One fleet is started for all of it.
package keyspaces_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/vitess/serving"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
	"github.com/vifl/vifl/vindexes/keyspaces"
)

// patience bounds every single wait of these tests.
const patience = time.Minute

// shards of a sharded keyspace.
var shards = []string{"-80", "80-"}

// cluster is the fleet of the tests: each keyspace's tablets in the order of its shards.
type cluster struct {
	*vitesstest.Fleet
	all     []keyspaces.Keyspace
	tablets map[string][]*vitesstest.Tablet
	direct  map[*vitesstest.Tablet]*sql.DB // its MySQL, without Vitess
	safe    *sql.DB                        // a vtgate with the recommended flags
}

func start(t *testing.T) *cluster {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{tablets: map[string][]*vitesstest.Tablet{}, direct: map[*vitesstest.Tablet]*sql.DB{}}
	var err error
	c.all, err = keyspaces.All()
	must(err)
	c.Fleet, err = vitesstest.Start(ctx)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(err)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(2) // more at once only wait for one another's disks
	tablets := make([][]*vitesstest.Tablet, len(c.all))
	for i, k := range c.all {
		g.Go(func() (err error) {
			names := shards
			switch k.Name {
			case "ids":
				names = []string{"0"}
			case "messages": // nothing here needs a second one, and it would cost a mysqld and a vttablet
				names = []string{"-"}
			}
			tablets[i], err = c.AddKeyspace(gctx, k.Name, k.Name, names...)
			return err
		})
	}
	must(g.Wait())
	t.Logf("tablets up after %.1f s", time.Since(began).Seconds())
	dir := t.TempDir()
	for i, k := range c.all {
		c.tablets[k.Name] = tablets[i]
		for _, tablet := range tablets[i] {
			target := tablet.MySQL.Target(tablet.Alias)
			target.Database = k.Name
			db, err := mysqlconn.Connect(ctx, target)
			must(err)
			t.Cleanup(func() { _ = db.Close() })
			c.direct[tablet] = db
		}
		// By vtctldclient, as docs/keyspaces.md has it.
		sqlFile, vschemaFile := filepath.Join(dir, k.Name+".sql"), filepath.Join(dir, k.Name+".json")
		must(errors.Join(os.WriteFile(sqlFile, []byte(k.Schema), 0o600), os.WriteFile(vschemaFile, []byte(k.VSchema), 0o600)))
		_, err = c.Vtctldclient(ctx, "ApplySchema", "--sql-file", sqlFile, k.Name)
		must(err)
		_, err = c.Vtctldclient(ctx, "ApplyVSchema", "--strict", "--vschema-file", vschemaFile, k.Name)
		must(err)
	}
	t.Logf("schemas applied after %.1f s", time.Since(began).Seconds())
	c.safe = c.vtgate(t, append(serving.VtgateFlags(), "--tablet-refresh-interval=1s")...)
	for _, k := range c.all {
		if k.Rows != "" {
			_, err := c.safe.ExecContext(ctx, k.Rows)
			must(err)
		}
	}
	return c
}

// vtgate starts one more vtgate.
func (c *cluster) vtgate(t *testing.T, flags ...string) *sql.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	target, err := c.StartVtgate(ctx, flags...)
	if err != nil {
		t.Fatal(err)
	}
	// Without the settings that vifl's own connections have: they are in a vtgate's plans.
	db, err := mysqlconn.Connect(ctx, target, mysqlconn.Plain())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// eventually asks until what is so, and fails the test when it is not within patience.
func eventually(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait until %s: %v (%v)", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// one is a query's only value.
func one(ctx context.Context, db *sql.DB, query string, args ...any) (string, error) {
	var v sql.NullString
	if err := db.QueryRowContext(ctx, query, args...).Scan(&v); err != nil {
		return "", fmt.Errorf("%s: %w", query, err)
	}
	return v.String, nil
}

func TestKeyspaces(t *testing.T) {
	began := time.Now()
	c := start(t)
	t.Logf("the fleet came up in %.1f s", time.Since(began).Seconds())
	t.Run("every query of the keyspaces runs, or is refused", c.testQueries)
	t.Run("the audit plans as a live vtgate does", c.testAudit)
	t.Run("vifl audit reads what the fleet serves, and keeps what it found", c.testCommand)
	t.Run("a shard that is away costs its own rows only", c.testServing)
	t.Run("the two memberships agree under load and kills", c.testAgreement)
}
