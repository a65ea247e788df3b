package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/audit/querylog"
)

// benchLog is a general log of a chat product's queries, with values of their own in each line.
func benchLog(lines int) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	shapes := []func(channel, other int) string{
		func(c, _ int) string {
			return fmt.Sprintf("Query\tSELECT id, user_id, ts, text FROM messages WHERE channel_id = %d AND ts < '2026-01-%02d 10:00:00' ORDER BY ts DESC LIMIT 50", c, 1+c%28)
		},
		func(c, o int) string {
			return fmt.Sprintf("Query\tINSERT INTO messages (channel_id, user_id, client_id, ts, text) VALUES (%d, %d, 'c-%d-%d', NOW(6), 'It\\'s message %d of channel %d, and not a short one')", c, o, c, o, o, c)
		},
		func(c, o int) string {
			return fmt.Sprintf("Query\tSELECT message_id, name, COUNT(*) FROM reactions WHERE channel_id = %d AND message_id IN (%d, %d, %d, %d) GROUP BY message_id, name", c, o, o+1, o+2, o+3)
		},
		func(c, _ int) string {
			return fmt.Sprintf("Query\tSELECT user_id FROM channel_members WHERE channel_id = %d", c)
		},
		func(_, o int) string {
			return fmt.Sprintf("Query\tSELECT channel_id FROM channel_members WHERE user_id = %d", o)
		},
		func(c, o int) string {
			return fmt.Sprintf("Query\tUPDATE messages SET text = 'edited %d' WHERE channel_id = %d AND id = %d", o, c, o)
		},
		func(int, int) string { return "Query\tBEGIN" },
		func(int, int) string { return "Query\tCOMMIT" },
	}
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "2026-01-01T00:00:%02d.000000Z\t%5d %s\n", i/1000%60, 1+rnd.IntN(200), shapes[rnd.IntN(len(shapes))](rnd.IntN(1_000_000), rnd.IntN(1_000_000_000)))
	}
	return b.String()
}

// BenchmarkGeneralLog is the lines of a general log that one core audits in a second, with the
// shapes of all queries met before. The goal is 50,000.
func BenchmarkGeneralLog(b *testing.B) {
	const lines = 100_000
	log := benchLog(lines)
	a := New(Options{Planner: chatPlanner(b, 8)})
	run := func(log string) {
		if err := querylog.Read(context.Background(), strings.NewReader(log), querylog.General, func(e querylog.Event) error { return a.Observe(context.Background(), e) }); err != nil {
			b.Fatal(err)
		}
	}
	run(benchLog(200))
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		run(log)
	}
	b.ReportMetric(float64(b.N)*lines/b.Elapsed().Seconds(), "lines/s")
	if n := len(a.queries); n > 10 {
		b.Fatalf("%d distinct queries, expected those of the log only", n)
	}
}
