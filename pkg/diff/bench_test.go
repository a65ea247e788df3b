package diff

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/schema"
)

// benchRows is VIFL_DIFF_ROWS.
func benchRows(b *testing.B, def int) int {
	s := os.Getenv("VIFL_DIFF_ROWS")
	if s == "" {
		return def
	}
	rows, err := strconv.Atoi(s)
	if err != nil {
		b.Fatalf("VIFL_DIFF_ROWS: %v", err)
	}
	return rows
}

const (
	benchDatabase = "bench"
	benchTable    = `CREATE TABLE messages (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, team_id BIGINT NOT NULL, channel_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
			ts DATETIME(6) NOT NULL, body TEXT, subtype VARCHAR(32), edited TIMESTAMP NULL, flags INT UNSIGNED NOT NULL DEFAULT 0)`
	benchColumns = "team_id, channel_id, user_id, ts, body, subtype, edited, flags"
	benchValues  = `i%1000, i%50000, i*7%9999, '2024-01-01' + INTERVAL i SECOND, CONCAT('message number ', i, ' ', SHA2(i,256), REPEAT(' lorem ipsum', i%8)), IF(i%5=0,'bot',NULL), IF(i%3=0,'2024-01-01',NULL), i%4`
	// weakSum misses NULLs, shifts and swaps.
	weakSum = "BIT_XOR(CRC32(CONCAT_WS('#',id,team_id,channel_id,user_id,ts,body,subtype,edited,flags)))"
)

// benchPair is the table of messages, with the same rows, on two servers of this machine.
type benchPair struct {
	servers
	rows        int
	side, other Side
	schema      *schema.Schema
}

func newBenchPair(b *testing.B, rows int) *benchPair {
	p := &benchPair{servers: start(b, "innodb_buffer_pool_size = 768M", "innodb_flush_log_at_trx_commit = 0", "innodb_redo_log_capacity = 512M", "skip_log_bin", "tmp_table_size = 256M"), rows: rows}
	p.fresh(b, benchDatabase)
	p.both(b, benchDatabase, fmt.Sprintf("SET SESSION cte_max_recursion_depth = %d", rows+1), benchTable,
		fmt.Sprintf(numbers, "messages ("+benchColumns+")", rows, benchValues), "ANALYZE TABLE messages")
	p.open(b)
	p.schema = readSchema(b, p.side.Conns[0], benchDatabase)
	return p
}

// open takes new snapshots.
func (p *benchPair) open(b *testing.B) {
	closeSide(p.side)
	closeSide(p.other)
	p.side, p.other = snapshot(b, p.a, benchDatabase, 2), snapshot(b, p.b, benchDatabase, 2)
}

// floor is one checksum statement on each side, both at once.
func (p *benchPair) floor(b *testing.B, checksum string) time.Duration {
	return floorOf(b, p.rows, checksum, p.side.Conns[0], p.other.Conns[0])
}

func floorOf(b *testing.B, rows int, checksum string, conns ...*sql.Conn) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() {
			var n uint64
			var x []byte
			if err := c.QueryRowContext(context.Background(), "SELECT COUNT(*), "+checksum+" FROM "+benchDatabase+".messages").Scan(&n, &x); err != nil || n != uint64(rows) {
				b.Errorf("%d rows, %v", n, err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// diff is the time of a comparison that finds so many rows.
func (p *benchPair) diff(b *testing.B, differing uint64) time.Duration {
	start := time.Now()
	r, err := Compare(context.Background(), p.side, []Side{p.other}, p.schema, Options{}, nil)
	if err != nil || r.Differing() != differing || r.Rows != uint64(p.rows) {
		b.Fatalf("%+v, %v", r, err)
	}
	return time.Since(start)
}

// BenchmarkDiff compares equal tables on two servers of this machine, in turns with the
// floor: one checksum statement per side, both at once, of the weak kind (a XOR of CRC32s
// over CONCAT_WS). "ratio" is the median of the diff over the median of the floor;
// "strong-ratio" is over one statement with the diff's own row hash. "one-row-ratio" is the
// time to find and show one row that differs in the middle, over that of the equal run, and
// "MB" what the test's process had from the system in the end.
//
// VIFL_DIFF_ROWS is the number of rows, default 1,000,000.
func BenchmarkDiff(b *testing.B) {
	p := newBenchPair(b, benchRows(b, 1_000_000))
	tab, err := newTable(p.schema.Tables[0])
	if err != nil {
		b.Fatal(err)
	}
	strongSum := "BIT_XOR(IFNULL(" + tab.row + ",X'00'))"
	p.floor(b, weakSum) // warm
	p.floor(b, strongSum)
	var diffs, weak, strong, one []time.Duration
	b.ResetTimer()
	for b.Loop() {
		for range 3 {
			weak = append(weak, p.floor(b, weakSum))
			diffs = append(diffs, p.diff(b, 0))
			strong = append(strong, p.floor(b, strongSum))
		}
		b.StopTimer()
		change := "UPDATE messages SET flags = flags ^ 1 WHERE id = (SELECT m FROM (SELECT id AS m FROM messages ORDER BY id LIMIT 1 OFFSET " + strconv.Itoa(p.rows/2) + ") d)"
		script(b, p.b, benchDatabase, []string{change})
		p.open(b)
		for range 3 {
			one = append(one, p.diff(b, 1))
		}
		script(b, p.b, benchDatabase, []string{change})
		p.open(b)
		b.StartTimer()
	}
	d, w, g, o := median(diffs), median(weak), median(strong), median(one)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(d.Seconds()/w.Seconds(), "ratio")
	b.ReportMetric(d.Seconds()/g.Seconds(), "strong-ratio")
	b.ReportMetric(o.Seconds()/d.Seconds(), "one-row-ratio")
	b.ReportMetric(float64(p.rows)/d.Seconds(), "rows/s")
	b.ReportMetric(d.Seconds(), "diff-s")
	b.ReportMetric(w.Seconds(), "floor-s")
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MB")
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
