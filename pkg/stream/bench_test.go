package stream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/child/childtest"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/binlog"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/streamtest"
	"github.com/vifl/vifl/pkg/stream/vreplication"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

const (
	benchDatabase = "slack"
	benchShard    = "0123"
	// benchLanding is the tablet's keyspace, and its name for the connection to the source.
	benchLanding = "legacy_0123"
	benchTable   = "create table t (id bigint auto_increment primary key, team int, n int, v varchar(100), changed timestamp default current_timestamp, key (team))"
	// benchWriters write the binlog that is applied.
	benchWriters = 4
	// benchPatience bounds each part: what takes longer has failed.
	benchPatience = 30 * time.Minute
	// workerVariable makes the test's program a worker: its value says of what.
	workerVariable = "VIFL_BENCH_STREAM_WORKER"
	password       = "pass"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerProcess())
	}
	os.Exit(m.Run())
}

// BenchmarkApply applies one binlog of a legacy server three times in one run: by the stream
// binlog, by VReplication in a tablet, and by a native replica with the four workers and the
// other settings of replication that its version has by itself. What is applied is already
// in the binlog when the time begins. Behind each the rows are compared with the source's.
//
// The three targets write a binlog of their own and wait for no disk: sync_binlog 0,
// innodb_flush_log_at_trx_commit 2, no doublewrite; no semi-sync, the tablet's durability
// policy is none. That favours those that commit often, the rivals. The replica alone has
// gtid_mode off, since the source's transactions have none.
//
// VIFL_BENCH_TRANSACTIONS is how many one-row transactions there are (default 40,000); of
// those with 1,000 rows there is one for each hundred. Each applier is measured once,
// whatever -benchtime says.
func BenchmarkApply(b *testing.B) {
	transactions := 40_000
	if s := os.Getenv("VIFL_BENCH_TRANSACTIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100*benchWriters {
			b.Fatalf("VIFL_BENCH_TRANSACTIONS: found %q, expected a number of %d or more", s, 100*benchWriters)
		}
		transactions = n
	}
	w := newApplyBench(b)
	b.Run("one-row", func(b *testing.B) {
		w.run(b, "transactions of one row, every third an update", transactions, 1, func(i int) string {
			if i%3 == 2 {
				return fmt.Sprintf("update t set n = n + 1, v = concat('u', %d) where id = last_insert_id()", i)
			}
			return fmt.Sprintf("insert into t (team, n, v) values (%d, %d, repeat('v', 60))", i%50, i)
		})
	})
	b.Run("bulk", func(b *testing.B) {
		w.run(b, "transactions of 1,000 rows", transactions/100, 1000, func(int) string {
			return "insert into t (team, n, v) with recursive c as (select 1 i union all select i + 1 from c where i < 1000) select i % 50, i, repeat('v', 60) from c"
		})
	})
}

// server is one of the benchmark's servers, with its root.
type server struct {
	*mysqld.Server
	db *sql.DB
}

// applyBench is the source and its three targets.
type applyBench struct {
	tablet                           *vitesstest.Tablet
	source, target, landing, replica server
	uuid                             string
}

func newApplyBench(b *testing.B) *applyBench {
	ctx := within(b, 3*time.Minute)
	fleet, err := vitesstest.Start(ctx)
	b.Cleanup(func() {
		if err := fleet.Stop(); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	w := &applyBench{}
	// As the tablet's server is, where it matters here.
	likeTablet := []string{"gtid_mode=ON", "enforce_gtid_consistency=ON", "binlog_format=ROW", "log_replica_updates=ON"}
	for _, s := range []struct {
		to    *server
		name  string
		extra []string
	}{
		{&w.source, "legacy", []string{"gtid_mode=OFF", "enforce_gtid_consistency=OFF"}},
		{&w.target, "target", likeTablet},
		{&w.replica, "replica", []string{"gtid_mode=OFF", "enforce_gtid_consistency=OFF", "log_replica_updates=ON"}},
	} {
		m, err := fleet.MySQL(ctx, s.name, s.extra...)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = m.Kill() })
		*s.to = open(b, m)
		do(b, s.to.db, "create database "+benchDatabase)
	}
	do(b, w.source.db,
		"create database _vifl", "create user vifl@'%' identified by '"+password+"'",
		"grant select, reload, lock tables, replication slave, replication client on *.* to vifl@'%'", "grant all on _vifl.* to vifl@'%'")
	w.tablet, err = fleet.AddLanding(ctx, benchLanding, benchDatabase, map[string]mysqlconn.Target{benchLanding: w.legacy()})
	if err != nil {
		b.Fatal(err)
	}
	w.landing = open(b, w.tablet.MySQL)
	for _, s := range []server{w.target, w.landing, w.replica} {
		// Servers of tests are small. A landing has room for what is written most.
		do(b, s.db, fmt.Sprintf("set global innodb_buffer_pool_size = %d", 512<<20), fmt.Sprintf("set global innodb_redo_log_capacity = %d", 512<<20))
	}
	if err := w.source.db.QueryRowContext(ctx, "select @@server_uuid").Scan(&w.uuid); err != nil {
		b.Fatal(err)
	}
	return w
}

// legacy is the source as the streams reach it.
func (w *applyBench) legacy() mysqlconn.Target { return legacyAt(w.source.Port()) }

func legacyAt(port int) mysqlconn.Target {
	return mysqlconn.Target{Name: "legacy", Host: "127.0.0.1", Port: port, Account: mysqlconn.Account{User: "vifl", Password: password}}
}

// measured is what an applier took.
type measured struct {
	wall time.Duration
	// all is the processor time of every process that had a part in it, the source too;
	// program that of the one that reads the binlog and writes SQL.
	all, program time.Duration
}

// run has one load applied by each, and prints what it took.
func (w *applyBench) run(b *testing.B, what string, transactions, rows int, statement func(i int) string) {
	for _, s := range []server{w.source, w.target, w.landing, w.replica} {
		do(b, s.db, "use "+benchDatabase, "drop table if exists t", benchTable)
	}
	ctx := within(b, benchPatience)
	from := w.end(b)
	id, err := shardid.Parse(benchShard)
	if err != nil {
		b.Fatal(err)
	}
	ours := binlog.New(func(context.Context) (*sql.DB, error) { return w.target.db, nil }, "bench", benchDatabase, w.dump())
	rival := vreplication.New(w.tablet.Landing, id, benchLanding, benchDatabase, w.uuid, vreplication.WithSource(w.legacy()))
	worker := w.startWorker(b)
	for _, s := range []stream.Stream{ours, rival} {
		if err := errors.Join(s.Start(ctx, from), s.Stop(ctx)); err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := s.Delete(ctx); err != nil {
				b.Error(err)
			}
		}()
	}
	account := mysqld.ReplicationAccount{User: "vifl", Password: password}
	if err := mysqld.Replicate(ctx, w.replica.Server, w.source.Server, account); err != nil {
		b.Fatal(err)
	}
	do(b, w.replica.db, "stop replica")
	defer do(b, w.replica.db, "stop replica", "reset replica all")

	w.write(ctx, b, transactions, statement)
	to := w.end(b)
	changes := transactions * rows
	servers := []int{w.source.Pid(), w.target.Pid(), w.landing.Pid(), w.replica.Pid()}
	measure := func(into server, program int, do func() error) (m measured) {
		var others []int
		for _, pid := range []int{w.target.Pid(), w.landing.Pid(), w.replica.Pid(), worker.pid(), w.tablet.Pid()} {
			if pid != into.Pid() && pid != program {
				others = append(others, pid)
			}
		}
		syscall.Sync()
		m.wall, m.all = childtest.Measure(b, func() {
			_, m.program = childtest.Measure(b, func() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}, append(servers, others...)...)
		}, others...)
		w.same(b, into)
		return m
	}
	b.ResetTimer()
	own := measure(w.target, worker.pid(), func() error { return ours.StopAt(ctx, to) })
	peak := worker.peak(b)
	vrepl := measure(w.landing, w.tablet.Pid(), func() error { return rival.StopAt(ctx, to) })
	native := measure(w.replica, 0, func() error {
		do(b, w.replica.db, "start replica")
		return mysqld.CaughtUp(ctx, w.replica.Server, w.source.Server)
	})
	b.StopTimer()

	var table strings.Builder
	fmt.Fprintf(&table, "\n%d %s, written by %d writers\n%-30s %9s %12s %12s %14s %14s\n", transactions, what, benchWriters,
		"", "seconds", "tx/s", "rows/s", "cpu s/M rows", "its program's")
	for _, l := range []struct {
		name string
		measured
	}{{"vifl's stream binlog", own}, {"VReplication", vrepl}, {"native replica, 4 workers", native}} {
		program := "-"
		if l.name != "native replica, 4 workers" {
			program = fmt.Sprintf("%.1f", l.program.Seconds()*1e6/float64(changes))
		}
		fmt.Fprintf(&table, "%-30s %9.2f %12.0f %12.0f %14.1f %14s\n", l.name, l.wall.Seconds(), float64(transactions)/l.wall.Seconds(),
			float64(changes)/l.wall.Seconds(), l.all.Seconds()*1e6/float64(changes), program)
	}
	fmt.Fprintf(&table, "the stream is %.2f times as fast as VReplication and %.2f times as fast as the replica; its worker's peak is %d MB",
		vrepl.wall.Seconds()/own.wall.Seconds(), native.wall.Seconds()/own.wall.Seconds(), peak>>20)
	fmt.Println(table.String()) // of what a benchmark logs only the beginning is shown
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(vrepl.wall.Seconds()/own.wall.Seconds(), "x-vreplication")
	b.ReportMetric(native.wall.Seconds()/own.wall.Seconds(), "x-replica")
	b.ReportMetric(float64(peak)/(1<<20), "worker-peak-MB")
}

func (w *applyBench) dump() dump.Source { return dump.Source{Target: w.legacy(), Server: w.uuid} }

func (w *applyBench) end(b *testing.B) position.FilePos {
	b.Helper()
	p, err := streamtest.End(within(b, time.Minute), w.source.db, w.uuid)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// write writes the binlog: each writer its share of the transactions, one statement each.
func (w *applyBench) write(ctx context.Context, b *testing.B, transactions int, statement func(i int) string) {
	var writers sync.WaitGroup
	for n := range benchWriters {
		writers.Go(func() {
			conn, err := w.source.db.Conn(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.ExecContext(ctx, "use "+benchDatabase); err != nil {
				b.Error(err)
				return
			}
			for i := range transactions*(n+1)/benchWriters - transactions*n/benchWriters {
				if _, err := conn.ExecContext(ctx, statement(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// same ends the benchmark unless a target holds the source's rows: what is fast and wrong
// has not won.
func (w *applyBench) same(b *testing.B, target server) {
	b.Helper()
	content := func(s server) (rows, sum int64) {
		ctx := within(b, benchPatience)
		var name string
		err := errors.Join(
			s.db.QueryRowContext(ctx, "select count(*) from "+benchDatabase+".t").Scan(&rows),
			s.db.QueryRowContext(ctx, "checksum table "+benchDatabase+".t extended").Scan(&name, &sum))
		if err != nil {
			b.Fatal(err)
		}
		return rows, sum
	}
	rows, sum := content(target)
	wantRows, wantSum := content(w.source)
	if rows != wantRows || sum != wantSum || rows == 0 {
		b.Fatalf("%s: found %d rows with checksum %d, expected %d with %d", target.Name(), rows, sum, wantRows, wantSum)
	}
}

// workerOf is what a worker in a process of its own needs to know.
type workerOf struct {
	Socket string
	Source int // its port
	Server string
}

// worker is a process that runs nothing but the stream's worker, so that its memory is told
// apart from the benchmark's.
type worker struct{ cmd *exec.Cmd }

func (w *applyBench) startWorker(b *testing.B) worker {
	of, err := json.Marshal(workerOf{Socket: w.target.Socket(), Source: w.source.Port(), Server: w.uuid})
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := worker{exec.Command(self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(of))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		if err := p.cmd.Wait(); err != nil {
			b.Errorf("the worker: %v", err)
		}
	})
	return p
}

func (p worker) pid() int { return p.cmd.Process.Pid }

// peak is the most memory that the process has had so far, in bytes.
func (p worker) peak(b *testing.B) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("the process has no VmHWM")
	return 0
}

// workerProcess is the main function of such a process. It ends with its parent.
func workerProcess() int {
	err := func() error {
		var o workerOf
		if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &o); err != nil {
			return err
		}
		db, err := mysqlconn.Open(mysqlconn.Target{Name: "target", Socket: o.Socket, Account: mysqlconn.Account{User: "root"}})
		if err != nil {
			return err
		}
		src := dump.Source{Server: o.Server, Target: legacyAt(o.Source)}
		s := binlog.New(func(context.Context) (*sql.DB, error) { return db, nil }, "bench", benchDatabase, src)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { // the parent holds the other end
			var b [1]byte
			_, _ = os.Stdin.Read(b[:])
			cancel()
		}()
		for ctx.Err() == nil { // the stream is not there at first
			if err := binlog.NewWorker(s, binlog.Options{}).Run(ctx); err != nil && !errors.Is(err, stream.ErrAbsent) {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func within(b *testing.B, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.Cleanup(cancel)
	return ctx
}

func open(b *testing.B, s *mysqld.Server) server {
	db, err := mysqlconn.Connect(within(b, time.Minute), s.Target(s.Name()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return server{s, db}
}

// do runs statements in one session.
func do(b *testing.B, db *sql.DB, statements ...string) {
	b.Helper()
	ctx := within(b, time.Minute)
	conn, err := db.Conn(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			b.Fatalf("%s: %v", q, err)
		}
	}
}
