package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vitess.io/vitess/go/vt/grpcclient"
	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/vttablet/grpctabletconn"

	"github.com/vifl/vifl/pkg/child/childtest"
	"github.com/vifl/vifl/pkg/devcluster"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/vitess"
)

// benchPatience bounds each measured part: what takes longer has failed.
const benchPatience = time.Hour

// BenchmarkWholeSeed seeds the landing of legacy shard 0123 by clone and by copy, as people do
// it, until its three tablets serve; and has VReplication copy the same data into three empty
// tablets under semi_sync, until the copy phase is over and both replicas have all of it. One
// run, one source. VIFL_BENCH_MB is the size (data and indexes; default 1000).
//
// Seconds of vifl begin with no tablet at all. Those of VReplication begin with three tablets
// that are up, empty and elected; what bringing them up took is beside it. Processor seconds
// are of the source, the tablets with their servers, the topo server and vtctld, and of vifl
// with its scratch server.
//
// Run it alone: go test ./e2e -run '^$' -bench WholeSeed -benchtime 1x. The tests would have
// moved the shard.
func BenchmarkWholeSeed(b *testing.B) {
	w := newWholeSeed(b)
	for b.Loop() {
		clone := w.vifl(b, "clone")
		copied := w.vifl(b, "copy")
		up, rival, copyPhase := w.vreplication(b)

		var table strings.Builder
		line := func(what string, c cost) {
			fmt.Fprintf(&table, "%-52s %9.1f %9.1f\n", what, c.wall.Seconds(), c.cpu.Seconds())
		}
		fmt.Fprintf(&table, "\nthe whole seed of %s, until three tablets serve\n%-52s %9s %9s\n", w.data, "", "seconds", "cpu s")
		line("vifl seed --method clone", clone)
		line("vifl seed --method copy", copied)
		line("VReplication into tablets that are up", rival)
		fmt.Fprintf(&table, "%-52s %9.1f\n", "  of that until its copy phase was over", copyPhase.Seconds())
		line("  before that, bringing its empty tablets up", up)
		ratio := func(than cost) string {
			return fmt.Sprintf("%.2f in time (with bringing its tablets up %.2f), %.2f in processor time",
				rival.over(than), (rival.wall+up.wall).Seconds()/than.wall.Seconds(), rival.cpu.Seconds()/than.cpu.Seconds())
		}
		fmt.Fprintf(&table, "VReplication / clone: %s\nVReplication / copy:  %s", ratio(clone), ratio(copied))
		fmt.Println(table.String()) // of what a benchmark logs only the beginning is shown

		for name, c := range map[string]cost{"clone": clone, "copy": copied, "vreplication": rival, "tablets-up": up} {
			b.ReportMetric(c.wall.Seconds(), name+"-s")
			b.ReportMetric(c.cpu.Seconds(), name+"-cpu-s")
		}
		b.ReportMetric(rival.over(clone), "x-faster-clone")
		b.ReportMetric(rival.over(copied), "x-faster-copy")
	}
}

// cost is what a part took.
type cost struct{ wall, cpu time.Duration }

func (c cost) over(than cost) float64 { return c.wall.Seconds() / than.wall.Seconds() }

// wholeSeed is the legacy shard with the data.
type wholeSeed struct {
	fleet  *vitess.Fleet
	config string // vifl.yaml with patience for large data
	source *sql.DB
	data   string           // what it is, for people
	rows   map[string]int64 // by table
	bytes  int64
	// idle are the fleet's processes that have no part in a seed: the other legacy servers,
	// mains, vtgate, vtorc.
	idle []int
}

const (
	benchDatabase = devcluster.Database
	benchLanding  = "legacy_0123" // vifl's
	benchRival    = "rival_0123"
)

// newWholeSeed fills side a of 0123 to the size asked for. Side b keeps the fleet's own small
// data: nothing here reads it, and filling it as well would double the time.
func newWholeSeed(b *testing.B) *wholeSeed {
	mb := int64(1000)
	if s := os.Getenv("VIFL_BENCH_MB"); s != "" {
		var err error
		if mb, err = strconv.ParseInt(s, 10, 64); err != nil {
			b.Fatalf("VIFL_BENCH_MB: %v", err)
		}
	}
	w := &wholeSeed{config: changedConfig(b, "\nlimits:\n", "\nlimits:\n  tablet_timeout: 30m\n"), rows: map[string]int64{}}
	var err error
	if w.fleet, err = vitess.Open(b.Context(), fleet.cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.fleet.Close)
	for _, p := range processes(b) {
		switch p.Name {
		case "0123a", "supervisor+etcd", "vtctld":
		default:
			w.idle = append(w.idle, p.Pid)
		}
	}
	// Not through the binlog: side b does not get it, and what is measured is a snapshot's way.
	w.source = root(b, 123, "a")
	roomy(b, w.source, mb<<20)
	// As the refusal of a clone without it asks for.
	if count(b, w.source, "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'clone'") == 0 {
		exec1(b, w.source, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
	}
	tables := names(b, w.source, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'")
	for _, t := range tables {
		exec1(b, w.source, "TRUNCATE TABLE `"+t+"`")
	}
	began := time.Now()
	if err := appschema.Populate(b.Context(), w.source, appschema.FirstTeam(123), appschema.SizeOf(mb<<20)); err != nil {
		b.Fatal(err)
	}
	b.Logf("filled side a in %.0f s", time.Since(began).Seconds())
	exec1(b, w.source, "ANALYZE TABLE `"+strings.Join(tables, "`, `")+"`")
	var rows int64
	for _, t := range tables {
		w.rows[t] = count(b, w.source, "SELECT COUNT(*) FROM `"+t+"`")
		rows += w.rows[t]
	}
	w.bytes = count(b, w.source, "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE()")
	w.data = fmt.Sprintf("%d MB (data and indexes) in %d rows of %d tables", w.bytes>>20, rows, len(tables))
	return w
}

// vifl seeds by a method, checks what came of it, and takes it back.
func (w *wholeSeed) vifl(b *testing.B, method string) cost {
	ctx, cancel := context.WithTimeout(b.Context(), benchPatience)
	defer cancel()
	landing := w.fleet.Landing(benchLanding)
	w.run(ctx, b, "preflight", "0123")
	c := w.measure(b, func() {
		w.run(ctx, b, "seed", "0123", "--method", method)
		w.serving(ctx, b, landing)
	})
	for _, db := range w.tablets(b, benchLanding) {
		w.complete(b, db)
		if count(b, db, "SELECT COUNT(*) FROM _vifl.seed") == 0 {
			b.Fatalf("a tablet of %s has no _vifl.seed", benchLanding)
		}
	}
	w.run(ctx, b, "abort", "0123")
	return c
}

// vreplication brings up empty tablets and lets VReplication copy into them. copyPhase is the
// part of the copy until only replicas were behind.
func (w *wholeSeed) vreplication(b *testing.B) (up, whole cost, copyPhase time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), benchPatience)
	defer cancel()
	landing := w.fleet.Landing(benchRival)
	request := devcluster.Landing{Keyspace: benchRival, Database: benchDatabase, Shard: "0123", Empty: true}
	if err := landing.Create(ctx, fleet.cfg.Landing.Durability); err != nil {
		b.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := errors.Join(devcluster.Deprovision(ctx, fleet.dir, request), landing.Delete(ctx)); err != nil {
			b.Error(err)
		}
	}()
	up = w.measure(b, func() {
		if err := devcluster.Provision(ctx, fleet.dir, request, func(string) {}); err != nil {
			b.Fatal(err)
		}
		w.elect(ctx, b, landing)
		w.serving(ctx, b, landing)
	})
	for _, db := range w.tablets(b, benchRival) {
		// Its servers do what the scratch server does for vifl, so they get what it gets.
		roomy(b, db, w.bytes)
	}
	primary, replicas := w.roles(ctx, b, landing)
	whole = w.measure(b, func() {
		began := time.Now()
		exec1(b, primary, "CREATE DATABASE IF NOT EXISTS `"+benchDatabase+"`")
		for _, t := range w.sorted() {
			var name, create string
			if err := w.source.QueryRowContext(ctx, "SHOW CREATE TABLE `"+t+"`").Scan(&name, &create); err != nil {
				b.Fatal(err)
			}
			createIn(ctx, b, primary, create)
		}
		w.startCopy(ctx, b, landing)
		w.copied(ctx, b, primary)
		copyPhase = time.Since(began)
		gtid, err := vitess.GTIDExecuted(ctx, primary)
		if err != nil {
			b.Fatal(err)
		}
		for _, db := range replicas {
			caughtUp(ctx, b, db, gtid)
		}
		w.serving(ctx, b, landing)
	})
	for _, db := range append(replicas, primary) {
		w.complete(b, db)
	}
	return up, whole, copyPhase
}

// startCopy makes the stream: without a position it copies first.
func (w *wholeSeed) startCopy(ctx context.Context, b *testing.B, landing *vitess.Landing) {
	connection := fleet.cfg.ExternalConnection(123, "a")
	insert := fmt.Sprintf("insert into _vt.vreplication "+
		"(workflow, db_name, source, pos, max_tps, max_replication_lag, time_updated, transaction_timestamp, state, message, tags, options) "+
		`values ('rival', '%s', 'external_mysql:"%s" filter:{rules:{match:"/.*"}}', '', 9999999, 9999999, %d, 0, 'Init', '', '', '{}')`,
		benchDatabase, connection, time.Now().Unix())
	if _, err := landing.VReplicationExec(ctx, insert); err != nil {
		b.Fatal(err)
	}
}

// copied waits until the stream runs and has no table left to copy.
func (w *wholeSeed) copied(ctx context.Context, b *testing.B, primary *sql.DB) {
	for {
		var state, message string
		var left int
		err := primary.QueryRowContext(ctx, "SELECT state, message, (SELECT COUNT(*) FROM _vt.copy_state c WHERE c.vrepl_id = v.id) FROM _vt.vreplication v WHERE workflow = 'rival'").Scan(&state, &message, &left)
		if err != nil {
			b.Fatal(err)
		}
		if state == "Running" && left == 0 {
			return
		}
		if state == "Error" {
			b.Fatalf("VReplication gave up: %s", message)
		}
		pause(ctx, b, fmt.Sprintf("VReplication's copy: %s, %d tables left, %s", state, left, message))
	}
}

// caughtUp waits until a replica has it all. WaitGTID gives up after minutes, which replicas may
// need more than once.
func caughtUp(ctx context.Context, b *testing.B, replica *sql.DB, gtid string) {
	for {
		err := vitess.WaitGTID(ctx, replica, gtid)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			b.Fatal(err)
		}
	}
}

// elect makes a primary, unless VTOrc was faster, and waits for its semi-sync replicas.
func (w *wholeSeed) elect(ctx context.Context, b *testing.B, landing *vitess.Landing) {
	for {
		tablets, err := landing.Tablets(ctx)
		if err == nil {
			err = landing.Elect(ctx, tablets[0].Alias)
		}
		have, need := 0, 1
		if err == nil {
			have, need, err = landing.SemiSyncReady(ctx)
		}
		if err == nil && have >= need {
			return
		}
		pause(ctx, b, fmt.Sprintf("electing: %d of %d replicas, %v", have, need, err))
	}
}

// serving waits until the landing has a primary and two replicas that are well and, where
// the landing's fence lets them, serve.
func (w *wholeSeed) serving(ctx context.Context, b *testing.B, landing *vitess.Landing) {
	for {
		tablets, err := landing.Tablets(ctx)
		types, why := map[string]int{}, ""
		if err != nil {
			why = err.Error()
		}
		for _, t := range tablets {
			if problem := unhealthy(ctx, t); problem != "" {
				why = t.Alias + ": " + problem
				continue
			}
			types[t.Type]++
		}
		if types["PRIMARY"] == 1 && types["REPLICA"] == 2 {
			return
		}
		pause(ctx, b, fmt.Sprintf("found %v healthy; %s", types, why))
	}
}

// unhealthy is what a tablet tells vtgates to keep them away; empty when nothing does.
func unhealthy(ctx context.Context, t vitess.Tablet) string {
	if t.Problem != "" {
		return t.Problem
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	qs, err := grpctabletconn.DialTablet(ctx, &topodatapb.Tablet{Hostname: t.Host, PortMap: map[string]int32{"grpc": int32(t.GRPCPort)}}, grpcclient.FailFast(true))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = qs.Close(ctx) }()
	var health *querypb.StreamHealthResponse
	enough := errors.New("one is enough")
	if err := qs.StreamHealth(ctx, func(h *querypb.StreamHealthResponse) error { health = h; return enough }); health == nil {
		return fmt.Sprint(err)
	}
	switch {
	case health.RealtimeStats.GetHealthError() != "":
		return health.RealtimeStats.HealthError
	case health.Target.GetTabletType().String() != t.Type:
		return "it says that it is " + health.Target.GetTabletType().String() + ", its record " + t.Type
	// A landing is fenced: its primary serves nobody before the cutover.
	case !health.Serving && t.Type == "REPLICA":
		return "not serving"
	}
	return ""
}

// measure measures with nothing left to write from before.
func (w *wholeSeed) measure(b *testing.B, do func()) cost {
	syscall.Sync()
	wall, cpu := childtest.Measure(b, do, w.idle...)
	return cost{wall, cpu}
}

// run runs the command; what it prints is shown when it fails.
func (w *wholeSeed) run(ctx context.Context, b *testing.B, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(ctx, fleet.vifl, args...)
	cmd.Env = append(os.Environ(), "VIFL_CONFIG="+w.config)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("vifl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// tablets are connections to the servers of a landing's tablets, as Vitess' own administrator.
func (w *wholeSeed) tablets(b *testing.B, keyspace string) []*sql.DB {
	var found []*sql.DB
	for _, p := range processes(b) {
		if p.Landing == keyspace && p.Socket != "" {
			found = append(found, connect(b, mysqlconn.Target{Name: p.Name, Socket: p.Socket, Account: mysqlconn.Account{User: "vt_dba"}}))
		}
	}
	if len(found) != 3 {
		b.Fatalf("landing %s: found %d tablets, expected 3", keyspace, len(found))
	}
	return found
}

// roles tells the primary from its replicas.
func (w *wholeSeed) roles(ctx context.Context, b *testing.B, landing *vitess.Landing) (primary *sql.DB, replicas []*sql.DB) {
	p, err := landing.Primary(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, db := range w.tablets(b, landing.Keyspace()) {
		if query1(b, db, "SELECT @@server_uuid") == p.ServerUUID {
			primary = db
		} else {
			replicas = append(replicas, db)
		}
	}
	if primary == nil {
		b.Fatalf("%s: its primary %s is none of its servers", landing, p.Alias)
	}
	return primary, replicas
}

// complete checks that all rows are there.
func (w *wholeSeed) complete(b *testing.B, db *sql.DB) {
	for t, want := range w.rows {
		if n := count(b, db, "SELECT COUNT(*) FROM `"+benchDatabase+"`.`"+t+"`"); n != want {
			b.Fatalf("table %s: found %d rows, expected %d", t, n, want)
		}
	}
}

func (w *wholeSeed) sorted() []string {
	var tables []string
	for t := range w.rows {
		tables = append(tables, t)
	}
	slices.Sort(tables)
	return tables
}

// roomy gives a server of the fleet, which are all small, memory for that much data, as one
// that takes so much would have. Four of them share what the machine has with others.
func roomy(b *testing.B, db *sql.DB, data int64) {
	pool := min(data+data/4, available(b)/6)
	exec1(b, db, fmt.Sprintf("SET GLOBAL innodb_buffer_pool_size = %d", max(pool, 128<<20)))
	exec1(b, db, "SET GLOBAL innodb_redo_log_capacity = 1073741824")
}

// available is the machine's memory that is free for use, in bytes.
func available(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); f[0] == "MemAvailable:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("/proc/meminfo has no MemAvailable")
	return 0
}

// createIn makes a table in the landing's database, in one session with it as default.
func createIn(ctx context.Context, b *testing.B, db *sql.DB, create string) {
	conn, err := db.Conn(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, q := range []string{"USE `" + benchDatabase + "`", create} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			b.Fatalf("%s: %v", q, err)
		}
	}
}

func names(b *testing.B, db *sql.DB, query string) []string {
	rows, err := db.QueryContext(b.Context(), query)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			b.Fatal(err)
		}
		out = append(out, name)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return out
}

func count(b *testing.B, db *sql.DB, query string) int64 {
	var n int64
	if err := db.QueryRowContext(b.Context(), query).Scan(&n); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// pause waits a little for what is asked again.
func pause(ctx context.Context, b *testing.B, what string) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		b.Fatalf("%s: %v", what, ctx.Err())
	}
}
