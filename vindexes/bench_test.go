package vindexes

import (
	"context"
	"sync"
	"testing"
	"time"

	"vitess.io/vitess/go/sqltypes"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	"github.com/vifl/vifl/pkg/shardid"
)

// benchTeams is how many teams the benchmarks' queries are about, in no order.
const benchTeams = 1 << 14

func benchIDs(form func(n uint64) sqltypes.Value) []sqltypes.Value {
	ids := make([]sqltypes.Value, benchTeams)
	for i := range ids {
		ids[i] = form(uint64(1_000_000 + i*3))
	}
	return ids
}

// timeMap is what one Map of one id takes, in nanoseconds: the best of many short rounds.
// Whatever else runs on the machine only ever makes a round longer.
func timeMap(b *testing.B, v vtvindexes.SingleColumn, vcursor vtvindexes.VCursor, ids []sqltypes.Value, goroutines int) float64 {
	b.Helper()
	const (
		calls  = 16_000 // of all goroutines in a round: about a millisecond
		rounds = 100
	)
	ctx := context.Background()
	best := time.Duration(1 << 62)
	at := 0
	for range rounds {
		var all sync.WaitGroup
		run := func(at int) {
			for range calls / goroutines {
				at = (at + 12289) & (benchTeams - 1)
				if _, err := v.Map(ctx, vcursor, ids[at:at+1]); err != nil {
					b.Error(err)
					return
				}
			}
		}
		at += calls
		began := time.Now()
		for g := range goroutines - 1 {
			all.Go(func() { run(at + g*7919) })
		}
		run(at)
		all.Wait()
		best = min(best, time.Since(began))
	}
	return float64(best) / calls
}

// BenchmarkMap prints our vindexes beside Vitess' xxhash, of one run: nanoseconds for one id
// by one goroutine and by eight, the ratios, and allocations. Reach: entity_id at most 1.5
// times, legacy_shard cached at most 2 times, and no allocation beyond the result.
func BenchmarkMap(b *testing.B) {
	ctx := context.Background()
	decimal := benchIDs(sqltypes.NewUint64)
	public := benchIDs(func(n uint64) sqltypes.Value { return sqltypes.NewVarChar("C" + upper36(n)) })
	teams := make(map[uint64]shardid.ID, benchTeams)
	for i := range uint64(benchTeams) {
		teams[1_000_000+i*3] = shardid.ID(i % 1000)
	}
	theirs, err := vtvindexes.CreateVindex("xxhash", "xxhash", nil)
	if err != nil {
		b.Fatal(err)
	}
	xxhash, ok := theirs.(vtvindexes.SingleColumn)
	if !ok {
		b.Fatalf("found %T", theirs)
	}
	path := b.TempDir() + "/teams.map"
	writeMap(b, path, time.Now(), teams)
	served := "0000-0999"
	lookup := create(b, "legacy_shard", "bench lookup", map[string]string{"shards": served, "table": "mains.teams", "from": "team_id", "to": "shard", "staleness": "1h"})
	file := create(b, "legacy_shard", "bench file", map[string]string{"shards": served, "file": path})
	entity := create(b, "entity_id", "bench entity", nil)
	cursor := newMains(teams)
	if _, err := lookup.Map(ctx, cursor, decimal); err != nil {
		b.Fatal(err)
	}
	rivals := []struct {
		name    string
		v       vtvindexes.SingleColumn
		vcursor vtvindexes.VCursor
		ids     []sqltypes.Value
	}{
		{"entity_id", entity, nil, decimal}, {"entity_id-public", entity, nil, public},
		{"legacy_shard-cached", lookup, cursor, decimal}, {"legacy_shard-file", file, nil, decimal},
	}
	allocations := func(v vtvindexes.SingleColumn, vcursor vtvindexes.VCursor, ids []sqltypes.Value) float64 {
		return testing.AllocsPerRun(1000, func() { _, _ = v.Map(ctx, vcursor, ids[:1]) })
	}
	floor := allocations(xxhash, nil, decimal)
	for _, r := range rivals {
		b.Run(r.name, func(b *testing.B) {
			for range b.N {
				theirs, ours := timeMap(b, xxhash, nil, decimal, 1), timeMap(b, r.v, r.vcursor, r.ids, 1)
				theirs8, ours8 := timeMap(b, xxhash, nil, decimal, 8), timeMap(b, r.v, r.vcursor, r.ids, 8)
				b.ReportMetric(ours, "ns/id")
				b.ReportMetric(ours/theirs, "x-xxhash")
				b.ReportMetric(ours8, "ns/id-8goroutines")
				b.ReportMetric(ours8/theirs8, "x-xxhash-8goroutines")
				b.ReportMetric(ours/ours8, "x-speedup-8goroutines")
				b.ReportMetric(allocations(r.v, r.vcursor, r.ids)-floor, "allocs-beyond-xxhash")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	before := cursor.calls.Load()
	if before > benchTeams/teamsAQuery+1 {
		b.Errorf("found %d look-ups, expected those that filled the cache only", before)
	}
}

func upper36(n uint64) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var buf []byte
	for ; n > 0; n /= 36 {
		buf = append([]byte{digits[n%36]}, buf...)
	}
	return string(buf)
}

// The numbers that BenchmarkMap prints vary with the machine; allocations do not.
func TestACachedMapAllocatesTheResultOnly(t *testing.T) {
	ctx := context.Background()
	m, v := newMains(knownTeams), byLookup(t)
	entity := create(t, "entity_id", t.Name(), nil)
	file := byFile(t, teamMapFile(t, knownTeams))
	for _, ids := range [][]sqltypes.Value{{sqltypes.NewInt64(1)}, {sqltypes.NewInt64(1), sqltypes.NewInt64(2), sqltypes.NewInt64(10)}, texts("4614570057")} {
		if _, err := v.Map(ctx, m, ids); err != nil {
			t.Fatal(err)
		}
		// The list, the bytes, which for one id are one, and each id's interface.
		want := float64(2 + len(ids))
		if len(ids) == 1 {
			want = 2
		}
		for name, run := range map[string]func(){
			"entity_id":           func() { _, _ = entity.Map(ctx, nil, ids) },
			"legacy_shard cached": func() { _, _ = v.Map(ctx, m, ids) },
			"legacy_shard file":   func() { _, _ = file.Map(ctx, nil, ids) },
		} {
			if got := testing.AllocsPerRun(1000, run); got != want {
				t.Errorf("%s of %d ids: found %v allocations, expected %v", name, len(ids), got, want)
			}
		}
	}
	public := texts("C" + upper36(1<<64-1))
	if got := testing.AllocsPerRun(1000, func() { _, _ = entity.Map(ctx, nil, public) }); got != 2 {
		t.Errorf("public form: found %v allocations, expected 2", got)
	}
}
