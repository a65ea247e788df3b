package diff

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// BenchmarkDiff compares equal tables on two servers of this machine, in turns with the
// floor: one checksum statement per side, both at once, of the weak kind (a XOR of CRC32s
// over CONCAT_WS, which misses NULLs, shifts and swaps). "ratio" is the median of the diff
// over the median of the floor; "strong-ratio" is over one statement with the diff's own
// row hash.
//
// VIFL_DIFF_ROWS is the number of rows, default 1,000,000.
func BenchmarkDiff(b *testing.B) {
	rows := 1_000_000
	if s := os.Getenv("VIFL_DIFF_ROWS"); s != "" {
		var err error
		if rows, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	s := start(b, "innodb_buffer_pool_size = 768M", "innodb_flush_log_at_trx_commit = 0", "innodb_redo_log_capacity = 512M", "skip_log_bin", "tmp_table_size = 256M")
	const database = "bench"
	s.fresh(b, database)
	s.both(b, database,
		fmt.Sprintf("SET SESSION cte_max_recursion_depth = %d", rows+1),
		`CREATE TABLE messages (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, team_id BIGINT NOT NULL, channel_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
			ts DATETIME(6) NOT NULL, body TEXT, subtype VARCHAR(32), edited TIMESTAMP NULL, flags INT UNSIGNED NOT NULL DEFAULT 0)`,
		fmt.Sprintf(numbers, "messages (team_id, channel_id, user_id, ts, body, subtype, edited, flags)", rows,
			`i%1000, i%50000, i*7%9999, '2024-01-01' + INTERVAL i SECOND, CONCAT('message number ', i, ' ', SHA2(i,256), REPEAT(' lorem ipsum', i%8)), IF(i%5=0,'bot',NULL), IF(i%3=0,'2024-01-01',NULL), i%4`),
		"ANALYZE TABLE messages")
	side, other := snapshot(b, s.a, database, 2), snapshot(b, s.b, database, 2)
	sch := readSchema(b, side.Conns[0], database)
	tab, err := newTable(sch.Tables[0])
	if err != nil {
		b.Fatal(err)
	}
	floor := func(checksum string) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for _, sd := range []Side{side, other} {
			wg.Go(func() {
				var n uint64
				var x []byte
				if err := sd.Conns[0].QueryRowContext(context.Background(), "SELECT COUNT(*), "+checksum+" FROM "+database+".messages").Scan(&n, &x); err != nil || n != uint64(rows) {
					b.Errorf("%d rows, %v", n, err)
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	const weakSum = "BIT_XOR(CRC32(CONCAT_WS('#',id,team_id,channel_id,user_id,ts,body,subtype,edited,flags)))"
	strongSum := "BIT_XOR(IFNULL(" + tab.row + ",X'00'))"
	floor(weakSum) // warm
	floor(strongSum)
	var diffs, weak, strong []time.Duration
	b.ResetTimer()
	for b.Loop() {
		weak = append(weak, floor(weakSum))
		start := time.Now()
		r, err := Compare(context.Background(), side, []Side{other}, sch, Options{}, nil)
		if err != nil || !r.Equal() || r.Rows != uint64(rows) {
			b.Fatalf("%+v, %v", r, err)
		}
		diffs = append(diffs, time.Since(start))
		strong = append(strong, floor(strongSum))
	}
	d, w, g := median(diffs), median(weak), median(strong)
	b.ReportMetric(d.Seconds()/w.Seconds(), "ratio")
	b.ReportMetric(d.Seconds()/g.Seconds(), "strong-ratio")
	b.ReportMetric(float64(rows)/d.Seconds(), "rows/s")
	b.ReportMetric(d.Seconds(), "diff-s")
	b.ReportMetric(w.Seconds(), "floor-s")
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
