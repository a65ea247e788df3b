package legacy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// BenchmarkCut makes cuts while four clients write about 1,000 rows a second, and reports
// how long writers were held up by each: p50 and p99 in milliseconds, and the rate of writes
// that was reached meanwhile.
func BenchmarkCut(b *testing.B) {
	const cuts = 50
	srv := mysqldtest.Start(b, mysqldtest.Options{Name: "cut"})
	mysqldtest.Exec(b, srv, "CREATE DATABASE slack", "CREATE TABLE slack.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100))")
	s, err := Open(b.Context(), srv.Target("side a"), 123, "a", "slack")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var writes atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if _, err := s.DB().ExecContext(ctx, "INSERT INTO slack.t (v) VALUES (REPEAT('x', 100))"); err == nil {
					writes.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	var blocked []time.Duration
	start := time.Now()
	for b.Loop() {
		for range cuts {
			cut, err := s.Cut(ctx, 4, 500*time.Millisecond)
			if err != nil {
				b.Fatal(err)
			}
			blocked = append(blocked, cut.Blocked)
			_ = cut.Close()
		}
	}
	took := time.Since(start)
	stop()
	wg.Wait()
	slices.Sort(blocked)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(blocked[len(blocked)/2]), "p50-ms")
	b.ReportMetric(ms(blocked[len(blocked)*99/100]), "p99-ms")
	b.ReportMetric(float64(writes.Load())/took.Seconds(), "writes/s")
}
