package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// BenchmarkApply applies transactions that are already in the binlog: with the stream, and
// in the same run with a native replica of the server's own defaults (four workers). Each is
// measured once, whatever -benchtime says.
func BenchmarkApply(b *testing.B) {
	transactions := 50_000
	if s := os.Getenv("VIFL_BENCH_TRANSACTIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		transactions = n
	}
	const table = "create table t (id bigint auto_increment primary key, team int, n int, v varchar(100), changed timestamp default current_timestamp, key (team))"
	b.Run("one row", func(b *testing.B) {
		benchmark(b, transactions, table, func(ctx context.Context, conn *sql.Conn, worker, count int) error {
			for i := range count {
				q := fmt.Sprintf("insert into t (team, n, v) values (%d, %d, repeat('v', 60))", i%50, i)
				if i%3 == 2 {
					q = fmt.Sprintf("update t set n = n + 1, v = concat('u', %d) where id = last_insert_id()", i)
				}
				if _, err := conn.ExecContext(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("bulk of 1,000 rows", func(b *testing.B) {
		benchmark(b, transactions/100, table, func(ctx context.Context, conn *sql.Conn, worker, count int) error {
			for range count {
				q := "insert into t (team, n, v) with recursive c as (select 1 i union all select i + 1 from c where i < 1000) select i % 50, i, repeat('v', 60) from c"
				if _, err := conn.ExecContext(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func benchmark(b *testing.B, transactions int, table string, load func(ctx context.Context, conn *sql.Conn, worker, count int) error) {
	const writers = 4
	r := begun(b, options(), table)
	if err := r.stream.Stop(within(b, time.Minute)); err != nil {
		b.Fatal(err)
	}
	replica := mysqldtest.Start(b, mysqldtest.Options{Name: "replica"})
	mysqldtest.Exec(b, replica, "create database "+database, "use "+database, table)
	ctx := within(b, 20*time.Minute)
	if err := mysqld.Replicate(ctx, replica, world.source, mysqld.ReplicationAccount{User: "root"}); err != nil {
		b.Fatal(err)
	}
	mysqldtest.Exec(b, replica, "stop replica")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			conn, err := world.legacy.Conn(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			defer discard(conn)
			if _, err := conn.ExecContext(ctx, "use "+database); err != nil {
				b.Error(err)
				return
			}
			if err := load(ctx, conn, w, transactions/writers); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	p := end(b)
	b.ResetTimer()
	before, began := cpu(b), time.Now()
	if err := r.stream.StopAt(ctx, p); err != nil {
		b.Fatal(err)
	}
	ours := time.Since(began)
	used := cpu(b) - before
	began = time.Now()
	mysqldtest.Exec(b, replica, "start replica")
	if err := mysqld.CaughtUp(ctx, replica, world.source); err != nil {
		b.Fatal(err)
	}
	native := time.Since(began)
	b.StopTimer()
	same(b, "t")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(transactions)/ours.Seconds(), "stream-tx/s")
	b.ReportMetric(float64(transactions)/native.Seconds(), "replica-tx/s")
	b.ReportMetric(native.Seconds()/ours.Seconds(), "x-replica")
	b.ReportMetric(used.Seconds()*1e6/float64(transactions), "worker-cpu-s/Mtx")
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
