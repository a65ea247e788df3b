package seed

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/vifl/vifl/pkg/child/childtest"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	seedcopy "github.com/vifl/vifl/pkg/seed/copy"
)

// BenchmarkFillAgainstDump fills a server with the chat product's tables, by copy and by
// mysqldump piped into mysql, from the same source into servers with the same settings, in
// one run. VIFL_BENCH_MB is the size (data and indexes; default 100). Run it with
// -benchtime 1x, as scripts/bench-seed.sh does.
func BenchmarkFillAgainstDump(b *testing.B) {
	mb := 100
	if v, err := strconv.Atoi(os.Getenv("VIFL_BENCH_MB")); err == nil {
		mb = v
	}
	ctx := context.Background()
	pool := fmt.Sprintf("innodb_buffer_pool_size=%dM", mb+mb/2+64)
	src := mysqldtest.Start(b, mysqldtest.Options{Name: "source", Extra: []string{pool, "innodb_redo_log_capacity=512M", "innodb_flush_log_at_trx_commit=0"}})
	mysqldtest.Exec(b, src, "CREATE DATABASE slack CHARACTER SET utf8mb4")
	t := src.Target("source")
	t.Database = "slack"
	db, err := mysqlconn.Connect(ctx, t)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := appschema.Populate(ctx, db, 1, appschema.SizeOf(int64(mb)<<20)); err != nil {
		b.Fatal(err)
	}
	if _, err := db.Exec("ANALYZE TABLE messages, reactions, files"); err != nil {
		b.Fatal(err)
	}
	scratch := func(name string) *mysqld.Server {
		return mysqldtest.Start(b, mysqldtest.Options{Name: name, Extra: append(loadSettings(int64(mb+mb/2+64)<<20), "gtid_mode=ON", "enforce_gtid_consistency=ON")})
	}
	for b.Loop() {
		dump := scratch("dumped into")
		dumpTime, dumpCPU := childtest.Measure(b, func() { pipe(b, src, dump) })
		_ = dump.Kill()
		filled := scratch("filled")
		var r *seedcopy.Result
		copyTime, copyCPU := childtest.Measure(b, func() {
			var snaps []*sql.Conn
			for range 4 {
				snaps = append(snaps, snapshot(b, db))
			}
			if r, err = seedcopy.Fill(ctx, seedcopy.Source{Name: "source", Database: "slack", Snapshots: snaps}, filled.Target("filled"), seedcopy.Options{Scratch: true}); err != nil {
				b.Fatal(err)
			}
			for _, c := range snaps {
				_ = c.Close()
			}
		})
		_ = filled.Kill()
		b.ReportMetric(dumpTime.Seconds(), "dump-s")
		b.ReportMetric(copyTime.Seconds(), "copy-s")
		b.ReportMetric(dumpCPU.Seconds(), "dump-cpu-s")
		b.ReportMetric(copyCPU.Seconds(), "copy-cpu-s")
		b.ReportMetric(dumpTime.Seconds()/copyTime.Seconds(), "x-faster")
		b.ReportMetric(float64(r.Bytes)/1e6/copyTime.Seconds(), "copy-MB/s")
		b.ReportMetric(float64(r.Rows)/copyTime.Seconds(), "copy-rows/s")
	}
}

func snapshot(b *testing.B, db *sql.DB) *sql.Conn {
	c, err := db.Conn(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.ExecContext(context.Background(), "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); err != nil {
		b.Fatal(err)
	}
	return c
}

// pipe is mysqldump | mysql.
func pipe(b *testing.B, src, into *mysqld.Server) {
	inst := mysqldtest.Installation(b, mysqldtest.Dir(b))
	dump := exec.Command(filepath.Join(inst.Root, "bin", "mysqldump"), "--no-defaults", "--user=root", "--socket="+src.Socket(), "--single-transaction", "--quick", "--set-gtid-purged=OFF", "--default-character-set=utf8mb4", "--databases", "slack")
	load := exec.Command(filepath.Join(inst.Root, "bin", "mysql"), "--no-defaults", "--user=root", "--socket="+into.Socket(), "--default-character-set=utf8mb4")
	out, err := dump.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	load.Stdin, dump.Stderr, load.Stderr = out, os.Stderr, os.Stderr
	if err := dump.Start(); err != nil {
		b.Fatal(err)
	}
	if err := load.Run(); err != nil {
		b.Fatal(err)
	}
	if err := dump.Wait(); err != nil {
		b.Fatal(err)
	}
}
