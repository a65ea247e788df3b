package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"vitess.io/vitess/go/protoutil"
	"vitess.io/vitess/go/vt/grpcclient"
	tabletmanagerdatapb "vitess.io/vitess/go/vt/proto/tabletmanagerdata"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vtctldatapb "vitess.io/vitess/go/vt/proto/vtctldata"
	"vitess.io/vitess/go/vt/vtctl/grpcvtctldclient"
	"vitess.io/vitess/go/vt/vtctl/vtctldclient"

	"github.com/vifl/vifl/pkg/devcluster"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/vitess"
)

// BenchmarkDiffAgainstVDiff compares one table of two keyspaces, which a MoveTables workflow
// keeps equal, by vifl's diff and by Vitess' VDiff v2, in turns, beside the floor: one
// checksum statement on each of the two primaries, both at once, of the weak kind (a XOR of
// CRC32s). VIFL_DIFF_ROWS is the number of rows (default 300,000).
//
// vifl's time is that of comparing, from the snapshots on; VDiff's from the command that makes
// one until its record says completed, as nobody can have it without stopping the workflow and
// taking snapshots. VDiff reads the source where its own default has it read, from a replica.
//
// Run it alone: go test ./e2e -run '^$' -bench DiffAgainstVDiff -benchtime 1x.
func BenchmarkDiffAgainstVDiff(b *testing.B) {
	rows := int64(300_000)
	if s := os.Getenv("VIFL_DIFF_ROWS"); s != "" {
		var err error
		if rows, err = strconv.ParseInt(s, 10, 64); err != nil {
			b.Fatalf("VIFL_DIFF_ROWS: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(b.Context(), benchPatience)
	defer cancel()
	v := newVDiffPair(ctx, b, rows)
	const rounds = 3
	for b.Loop() {
		v.floor(ctx, b) // warm
		var floor, ours, theirs []time.Duration
		for range rounds {
			floor = append(floor, v.floor(ctx, b))
			ours = append(ours, v.vifl(ctx, b))
			theirs = append(theirs, v.vdiff(ctx, b))
		}
		f, o, t := middle(floor).Seconds(), middle(ours).Seconds(), middle(theirs).Seconds()
		fmt.Printf("\nthe diff of %d rows, median of %d\n%-28s %9.2f s\n%-28s %9.2f s\n%-28s %9.2f s\nvifl / floor: %.2f; VDiff / vifl: %.2f\n",
			rows, rounds, "floor (XOR of CRC32)", f, "vifl", o, "VDiff v2", t, o/f, t/o)
		b.ReportMetric(f, "floor-s")
		b.ReportMetric(o, "vifl-s")
		b.ReportMetric(t, "vdiff-s")
		b.ReportMetric(o/f, "ratio")
		b.ReportMetric(t/o, "x-faster-vdiff")
	}
}

func middle(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// vdiffPair are two keyspaces with the same table.
type vdiffPair struct {
	rows     int64
	vtctld   vtctldclient.VtctldClient
	from, to *sql.DB // the primaries' servers
}

const vdiffFrom, vdiffTo, vdiffWorkflow = "vdiff_from", "vdiff_to", "bench"

func newVDiffPair(ctx context.Context, b *testing.B, rows int64) *vdiffPair {
	w := &wholeSeed{}
	var err error
	if w.fleet, err = vitess.Open(ctx, fleet.cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.fleet.Close)
	v := &vdiffPair{rows: rows}
	if v.vtctld, err = grpcvtctldclient.NewWithDialOpts(ctx, fleet.cfg.Vtctld, grpcclient.FailFast(true), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = v.vtctld.Close() })
	for keyspace, db := range map[string]**sql.DB{vdiffFrom: &v.from, vdiffTo: &v.to} {
		landing := w.fleet.Landing(keyspace)
		request := devcluster.Landing{Keyspace: keyspace, Database: benchDatabase, Shard: "0123", Empty: true}
		if err := landing.Create(ctx, fleet.cfg.Landing.Durability); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			if err := devcluster.Deprovision(ctx, fleet.dir, request); err != nil {
				b.Error(err)
			}
			if err := landing.Delete(ctx); err != nil {
				b.Error(err)
			}
		})
		if err := devcluster.Provision(ctx, fleet.dir, request, func(string) {}); err != nil {
			b.Fatal(err)
		}
		w.elect(ctx, b, landing)
		w.serving(ctx, b, landing)
		if err := landing.SetFence(ctx, false); err != nil {
			b.Fatal(err)
		}
		for _, server := range w.tablets(b, keyspace) {
			roomy(b, server, rows*400)
		}
		*db, _ = w.roles(ctx, b, landing)
		exec1(b, *db, "CREATE DATABASE IF NOT EXISTS `"+benchDatabase+"`")
	}
	v.fill(ctx, b)
	v.move(ctx, b)
	return v
}

// fill makes the table of messages that pkg/diff's own benchmark has.
func (v *vdiffPair) fill(ctx context.Context, b *testing.B) {
	createIn(ctx, b, v.from, `CREATE TABLE messages (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, team_id BIGINT NOT NULL, channel_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
		ts DATETIME(6) NOT NULL, body TEXT, subtype VARCHAR(32), edited TIMESTAMP NULL, flags INT UNSIGNED NOT NULL DEFAULT 0)`)
	const step = 50_000 // one transaction each
	for at := int64(0); at < v.rows; at += step {
		n := min(step, v.rows-at)
		exec1(b, v.from, fmt.Sprintf("INSERT INTO `%s`.messages WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT /*+ SET_VAR(cte_max_recursion_depth = %d) */ i+1 FROM n WHERE i < %d) "+
			"SELECT /*+ SET_VAR(cte_max_recursion_depth = %d) */ i, i%%1000, i%%50000, i*7%%9999, '2024-01-01' + INTERVAL i SECOND, CONCAT('message number ', i, ' ', SHA2(i,256), REPEAT(' lorem ipsum', i%%8)), IF(i%%5=0,'bot',NULL), IF(i%%3=0,'2024-01-01',NULL), i%%4 FROM n",
			benchDatabase, at+1, step+1, at+n, step+1))
	}
}

// move lets MoveTables copy the table, which gives VDiff its pair.
func (v *vdiffPair) move(ctx context.Context, b *testing.B) {
	if _, err := v.vtctld.MoveTablesCreate(ctx, &vtctldatapb.MoveTablesCreateRequest{
		Workflow: vdiffWorkflow, SourceKeyspace: vdiffFrom, TargetKeyspace: vdiffTo, IncludeTables: []string{"messages"},
		TabletTypes: []topodatapb.TabletType{topodatapb.TabletType_REPLICA, topodatapb.TabletType_PRIMARY}, AutoStart: true, NoRoutingRules: true, OnDdl: "IGNORE",
	}); err != nil {
		b.Fatal(err)
	}
	for {
		var state, message string
		var left int
		if err := v.to.QueryRowContext(ctx, "SELECT state, message, (SELECT COUNT(*) FROM _vt.copy_state c WHERE c.vrepl_id = v.id) FROM _vt.vreplication v WHERE workflow = ?", vdiffWorkflow).Scan(&state, &message, &left); err != nil {
			b.Fatal(err)
		}
		if state == "Running" && left == 0 {
			break
		}
		if state == "Error" {
			b.Fatalf("MoveTables gave up: %s", message)
		}
		pause(ctx, b, fmt.Sprintf("MoveTables: %s, %d tables left, %s", state, left, message))
	}
	for _, db := range []*sql.DB{v.from, v.to} {
		if n := count(b, db, "SELECT COUNT(*) FROM `"+benchDatabase+"`.messages"); n != v.rows {
			b.Fatalf("found %d rows, expected %d", n, v.rows)
		}
		exec1(b, db, "ANALYZE TABLE `"+benchDatabase+"`.messages")
	}
}

func (v *vdiffPair) floor(ctx context.Context, b *testing.B) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for _, db := range []*sql.DB{v.from, v.to} {
		wg.Go(func() {
			var n int64
			var x []byte
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('#',id,team_id,channel_id,user_id,ts,body,subtype,edited,flags))) FROM `"+benchDatabase+"`.messages").Scan(&n, &x); err != nil || n != v.rows {
				b.Errorf("%d rows, %v", n, err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func (v *vdiffPair) vifl(ctx context.Context, b *testing.B) time.Duration {
	var sides []diff.Side
	for i, db := range []*sql.DB{v.from, v.to} {
		side := diff.Side{Name: []string{vdiffFrom, vdiffTo}[i], Database: benchDatabase}
		for range 2 {
			c, err := db.Conn(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			for _, q := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
				if _, err := c.ExecContext(ctx, q); err != nil {
					b.Fatal(err)
				}
			}
			defer func() { _, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
			side.Conns = append(side.Conns, c)
		}
		sides = append(sides, side)
	}
	tables, err := schema.Read(ctx, sides[0].Conns[0], benchDatabase)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	r, err := diff.Compare(ctx, sides[0], sides[1:], tables, diff.Options{}, nil)
	if err != nil || !r.Equal() || int64(r.Rows) != v.rows {
		b.Fatalf("%+v, %v", r, err)
	}
	return time.Since(start)
}

func (v *vdiffPair) vdiff(ctx context.Context, b *testing.B) time.Duration {
	start := time.Now()
	made, err := v.vtctld.VDiffCreate(ctx, &vtctldatapb.VDiffCreateRequest{
		Workflow: vdiffWorkflow, TargetKeyspace: vdiffTo, TabletTypes: []topodatapb.TabletType{topodatapb.TabletType_REPLICA, topodatapb.TabletType_PRIMARY},
		TabletSelectionPreference: tabletmanagerdatapb.TabletSelectionPreference_ANY, Limit: 1 << 62, FilteredReplicationWaitTime: protoutil.DurationToProto(30 * time.Second), AutoRetry: true, MaxReportSampleRows: 10,
	})
	if err != nil {
		b.Fatal(err)
	}
	for {
		var state, problem string
		if err := v.to.QueryRowContext(ctx, "SELECT state, COALESCE(last_error, '') FROM _vt.vdiff WHERE vdiff_uuid = ?", made.UUID).Scan(&state, &problem); err != nil {
			b.Fatal(err)
		}
		if state == "completed" {
			break
		}
		if state == "error" || ctx.Err() != nil {
			b.Fatalf("VDiff: %s, %s, %v", state, problem, ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start)
	var compared int64
	var mismatch bool
	if err := v.to.QueryRowContext(ctx, "SELECT rows_compared, mismatch FROM _vt.vdiff_table t JOIN _vt.vdiff d ON d.id = t.vdiff_id WHERE d.vdiff_uuid = ?", strings.TrimSpace(made.UUID)).Scan(&compared, &mismatch); err != nil || compared != v.rows || mismatch {
		b.Fatalf("VDiff compared %d rows of %d, mismatch %t, %v", compared, v.rows, mismatch, err)
	}
	return took
}
