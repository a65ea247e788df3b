package vindexes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	querypb "vitess.io/vitess/go/vt/proto/query"
	vtgatepb "vitess.io/vitess/go/vt/proto/vtgate"
	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/shardid"
)

// byLookup is a legacy_shard of the test's own that asks mains: stale after 30 s, refreshed
// early after 15, with a second for a look-up, if more does not say otherwise.
func byLookup(t testing.TB, more ...string) vtvindexes.SingleColumn {
	t.Helper()
	params := map[string]string{"shards": servedByTests, "table": "mains.teams", "from": "team_id", "to": "shard"}
	for i := 0; i < len(more); i += 2 {
		params[more[i]] = more[i+1]
	}
	return create(t, "legacy_shard", t.Name(), params)
}

// shardOf is the legacy shard that the vindex routes a team to.
func shardOf(ctx context.Context, v vtvindexes.SingleColumn, vcursor vtvindexes.VCursor, team int64) (shardid.ID, error) {
	out, err := v.Map(ctx, vcursor, []sqltypes.Value{sqltypes.NewInt64(team)})
	if err != nil {
		return 0, err
	}
	ksid, ok := out[0].(key.DestinationKeyspaceID)
	if !ok {
		return 0, fmt.Errorf("found the destination %v", out[0])
	}
	return shardid.ID(binary.BigEndian.Uint16(ksid)), nil
}

func expectShard(t *testing.T, v vtvindexes.SingleColumn, vcursor vtvindexes.VCursor, team int64, want shardid.ID) {
	t.Helper()
	if got, err := shardOf(context.Background(), v, vcursor, team); err != nil || got != want {
		t.Fatalf("team %d at %s: found %s (%v), expected %s", team, time.Now().Format(time.TimeOnly), got, err, want)
	}
}

func expectCalls(t *testing.T, m *fakeMains, want int64) {
	t.Helper()
	if got := m.calls.Load(); got != want {
		t.Fatalf("found %d look-ups in mains, expected %d", got, want)
	}
}

func TestTheLookUpAsksMainsByName(t *testing.T) {
	m := newMains(knownTeams)
	v := byLookup(t)
	expectShard(t, v, m, 1, 123)
	if want := "select `team_id`, `shard` from `mains`.`teams` where `team_id` in ::teams"; m.last != want {
		t.Fatalf("found %q, expected %q", m.last, want)
	}
	if !v.NeedsVCursor() {
		t.Error("without a team map it cannot do without vtgate, and must say so")
	}
	if _, err := v.Map(context.Background(), nil, texts("1")); err == nil || !strings.Contains(err.Error(), "no vtgate here") {
		t.Errorf("without vtgate: found %v, expected an error", err)
	}
}

func TestOneLookUpInFlightForEachTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		m.fail(func(context.Context, []uint64) error { time.Sleep(100 * time.Millisecond); return nil })
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { expectShard(t, v, m, 1, 123) })
			all.Go(func() {
				// Lists that overlap wait for what others ask and ask for the rest.
				out, err := v.Map(context.Background(), m, texts("1", "2", "1", "2"))
				if err != nil || ksidOf(t, out[1])[1] != 124 || ksidOf(t, out[3])[1] != 124 {
					t.Errorf("found %v (%v)", out, err)
				}
			})
		}
		all.Wait()
		if n := m.calls.Load(); n != 1 && n != 2 {
			t.Fatalf("found %d look-ups of two teams, expected one or two", n)
		}
	})
}

func TestListsThatOverlapDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		m.fail(func(context.Context, []uint64) error { time.Sleep(10 * time.Millisecond); return nil })
		var all sync.WaitGroup
		for _, list := range [][]string{{"1", "2", "7"}, {"2", "7", "10"}, {"10", "1", "123"}, {"123", "2", "1"}} {
			all.Go(func() {
				if _, err := v.Map(context.Background(), m, texts(list...)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

func TestACachedTeamIsAskedForAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		expectShard(t, v, m, 1, 123)
		time.Sleep(14 * time.Second)
		expectShard(t, v, m, 1, 123)
		expectCalls(t, m, 1)
		m.set(1, 124)
		expectShard(t, v, m, 1, 123)
		time.Sleep(2 * time.Second) // past half the staleness: refreshed early
		expectShard(t, v, m, 1, 124)
		expectShard(t, v, m, 1, 124)
		expectCalls(t, m, 2)
		m.set(1, 123)
		time.Sleep(30 * time.Second) // nobody asked: it is stale
		expectShard(t, v, m, 1, 123)
		expectCalls(t, m, 3)
	})
}

// An answer is as old as the question: mains may change while the reply is on its way.
func TestAReplyThatWasOnItsWayDuringASwitchIsNotStaleForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t, "timeout", "40s")
		m.fail(func(context.Context, []uint64) error { return nil })
		slow := &lateReply{fakeMains: m, late: 20 * time.Second}
		done := make(chan struct{})
		go func() { expectShard(t, v, slow, 1, 123); close(done) }()
		time.Sleep(time.Second)
		m.set(1, 124)
		<-done                       // at 20 s
		time.Sleep(10 * time.Second) // 30 s after the question
		expectShard(t, v, m, 1, 124)
	})
}

// lateReply delivers mains' answer later than mains gave it.
type lateReply struct {
	*fakeMains
	late time.Duration
}

func (l *lateReply) Execute(ctx context.Context, method, query string, binds map[string]*querypb.BindVariable, rollback bool, co vtgatepb.CommitOrder) (*sqltypes.Result, error) {
	r, err := l.fakeMains.Execute(ctx, method, query, binds, rollback, co)
	time.Sleep(l.late)
	return r, err
}

func TestAQueryThatWaitedForACancelledOneAsksForItself(t *testing.T) {
	unavailable := vterrors.New(vtrpcpb.Code_PERMISSION_DENIED, "this client may not read mains")
	for name, leave := range map[string]func() (context.Context, func(context.Context) error){
		"its client went away": func() (context.Context, func(context.Context) error) {
			ctx, cancel := context.WithCancel(context.Background())
			return ctx, func(look context.Context) error {
				time.Sleep(100 * time.Millisecond)
				cancel()
				<-look.Done()
				return vterrors.Wrap(look.Err(), "rpc")
			}
		},
		"its own deadline was nearer": func() (context.Context, func(context.Context) error) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			_ = cancel
			return ctx, func(look context.Context) error { <-look.Done(); return look.Err() }
		},
		"a server noticed its deadline first": func() (context.Context, func(context.Context) error) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			_ = cancel
			return ctx, func(context.Context) error {
				time.Sleep(100 * time.Millisecond)
				return vterrors.New(vtrpcpb.Code_DEADLINE_EXCEEDED, "deadline")
			}
		},
		"it may not read mains": func() (context.Context, func(context.Context) error) {
			return context.Background(), func(context.Context) error { time.Sleep(100 * time.Millisecond); return unavailable }
		},
		"vtgate panicked in it": func() (context.Context, func(context.Context) error) {
			return context.Background(), func(context.Context) error { time.Sleep(100 * time.Millisecond); panic("of vtgate") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := byLookup(t)
				ctx, before := leave()
				gone := &session{fakeMains: newMains(knownTeams)}
				gone.fail(func(ctx context.Context, _ []uint64) error { return before(ctx) })
				waits := []*session{{fakeMains: newMains(knownTeams)}, {fakeMains: newMains(knownTeams)}, {fakeMains: newMains(knownTeams)}}
				for _, w := range waits {
					w.fail(func(context.Context, []uint64) error { time.Sleep(50 * time.Millisecond); return nil })
				}
				var all sync.WaitGroup
				all.Go(func() {
					defer func() { _ = recover() }()
					if shard, err := shardOf(ctx, v, gone, 1); err == nil {
						t.Errorf("found shard %s, expected the error of the query that was given up", shard)
					}
				})
				time.Sleep(10 * time.Millisecond)
				for _, w := range waits {
					all.Go(func() { expectShard(t, v, w, 1, 123) })
				}
				all.Wait()
				if n := waits[0].own.Load() + waits[1].own.Load() + waits[2].own.Load(); n != 1 || gone.own.Load() != 1 {
					t.Fatalf("found %d look-ups by those who waited and %d by the one that left, expected one each", n, gone.own.Load())
				}
			})
		})
	}
}

func TestAQueryThatWaitsCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		m.fail(func(context.Context, []uint64) error { time.Sleep(500 * time.Millisecond); return nil })
		var all sync.WaitGroup
		all.Go(func() { expectShard(t, v, m, 1, 123) })
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := shardOf(ctx, v, m, 1)
		if vterrors.RootCause(err) != context.DeadlineExceeded || time.Since(began) != 100*time.Millisecond {
			t.Errorf("found %v after %s, expected its own deadline after 100ms", err, time.Since(began))
		}
		all.Wait()
		expectCalls(t, m, 1)
	})
}

func TestMainsDownIsAnErrorThatIsNotRemembered(t *testing.T) {
	for _, unknown := range []string{"error", "none"} {
		t.Run("unknown="+unknown, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, v := newMains(knownTeams), byLookup(t, "unknown", unknown)
				down := vterrors.New(vtrpcpb.Code_UNAVAILABLE, "no healthy tablet")
				m.fail(func(context.Context, []uint64) error { time.Sleep(10 * time.Millisecond); return down })
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						_, err := shardOf(context.Background(), v, m, 1)
						if vterrors.Code(err) != vtrpcpb.Code_UNAVAILABLE || !strings.Contains(err.Error(), "looking up team 1 in mains.teams: no healthy tablet") {
							t.Errorf("found %v, expected that mains is down", err)
						}
					})
				}
				all.Wait()
				expectCalls(t, m, 1) // those who waited share the error …
				if _, err := v.Verify(context.Background(), m, texts("1"), [][]byte{{0}}); err == nil {
					t.Error("Verify: found no error")
				}
				expectCalls(t, m, 2) // … and the next asks again
				m.fail(nil)
				expectShard(t, v, m, 1, 123)
			})
		})
	}
}

func TestWhileATeamIsCachedNobodyNoticesThatMainsIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		expectShard(t, v, m, 1, 123)
		m.fail(func(context.Context, []uint64) error { return vterrors.New(vtrpcpb.Code_UNAVAILABLE, "down") })
		for range 29 {
			time.Sleep(time.Second)
			for range 10 {
				expectShard(t, v, m, 1, 123)
			}
		}
		// From 15 s on it is asked for early, each five timeouts.
		if n := m.calls.Load(); n < 3 || n > 5 {
			t.Errorf("found %d look-ups, expected the first and three early ones", n)
		}
		time.Sleep(time.Second)
		if shard, err := shardOf(context.Background(), v, m, 1); err == nil {
			t.Fatalf("found shard %s after the staleness, expected an error", shard)
		}
		m.fail(nil)
		expectShard(t, v, m, 1, 123)
	})
}

func TestWhileATeamIsCachedFewNoticeThatMainsHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		expectShard(t, v, m, 1, 123)
		m.fail(func(ctx context.Context, _ []uint64) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(16 * time.Second)
		var slow atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				began := time.Now()
				expectShard(t, v, m, 1, 123)
				if time.Since(began) > 0 {
					slow.Add(1)
				}
			})
		}
		all.Wait()
		if slow.Load() != 1 {
			t.Errorf("found %d queries of 100 that waited, expected one", slow.Load())
		}
	})
}

func TestMainsTooSlow(t *testing.T) {
	for name, hang := range map[string]func(context.Context, []uint64) error{
		"and lets go":          func(ctx context.Context, _ []uint64) error { <-ctx.Done(); return ctx.Err() },
		"and a server says so": func(context.Context, []uint64) error { return vterrors.New(vtrpcpb.Code_DEADLINE_EXCEEDED, "rpc") },
		"and does not let go":  func(context.Context, []uint64) error { time.Sleep(time.Minute); return errors.New("late") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, v := newMains(knownTeams), byLookup(t)
				m.fail(hang)
				var all sync.WaitGroup
				check := func(most time.Duration) {
					began := time.Now()
					_, err := shardOf(context.Background(), v, m, 1)
					if vterrors.Code(err) != vtrpcpb.Code_DEADLINE_EXCEEDED || !strings.Contains(err.Error(), "no answer within 1s") {
						t.Errorf("found %v, expected that mains is too slow", err)
					}
					if took := time.Since(began); took > most {
						t.Errorf("it took %s, expected %s or less", took, most)
					}
				}
				all.Go(func() { check(time.Minute) })
				synctest.Wait()
				for range 5 {
					all.Go(func() { check(time.Second) })
				}
				all.Wait()
				m.fail(nil)
				expectShard(t, v, m, 1, 123)
			})
		})
	}
}

func TestWrongAnswersOfMainsAreErrors(t *testing.T) {
	row := func(values ...string) []sqltypes.Value { return texts(values...) }
	null := []sqltypes.Value{sqltypes.NewInt64(1), sqltypes.NULL}
	for name, c := range map[string]struct {
		rows [][]sqltypes.Value
		want string
	}{
		"another team":             {[][]sqltypes.Value{row("2", "0123")}, "expected one that was asked for"},
		"a team of words":          {[][]sqltypes.Value{row("one", "0123")}, "expected one that was asked for"},
		"two shards":               {[][]sqltypes.Value{row("1", "0123"), row("1", "0124")}, "team 1 is on two shards"},
		"a shard that is not ours": {[][]sqltypes.Value{row("1", "0125")}, "shard 0125, which this keyspace does not serve"},
		"a shard that cannot be":   {[][]sqltypes.Value{row("1", "70000")}, "between 0 and 65535"},
		"a shard in hex":           {[][]sqltypes.Value{row("1", "0x7b")}, "decimal digits only"},
		"no shard":                 {[][]sqltypes.Value{null}, "shard number is empty"},
		"one column":               {[][]sqltypes.Value{row("1")}, "found 1 columns"},
		"three columns":            {[][]sqltypes.Value{row("1", "0123", "x")}, "found 3 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newMains(knownTeams), byLookup(t, "unknown", "none")
			m.answer = &sqltypes.Result{Rows: c.rows}
			_, err := shardOf(context.Background(), v, m, 1)
			if err == nil || !strings.Contains(err.Error(), "the answer of mains.teams is wrong: ") || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("found %v, expected %q", err, c.want)
			}
			m.answer = nil
			expectShard(t, v, m, 1, 123)
		})
	}
	t.Run("the same row twice is none", func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		m.answer = &sqltypes.Result{Rows: [][]sqltypes.Value{row("01", "123"), row("1", "00123")}}
		expectShard(t, v, m, 1, 123)
	})
}

func TestUnknownTeams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, v := newMains(knownTeams), byLookup(t)
		_, err := shardOf(context.Background(), v, m, 99)
		if vterrors.Code(err) != vtrpcpb.Code_NOT_FOUND || !strings.Contains(err.Error(), "team 99 is not in mains.teams") {
			t.Fatalf("found %v, expected that the team is not there", err)
		}
		if _, err := v.Map(context.Background(), m, texts("1", "99")); err == nil {
			t.Fatal("beside a known team: found no error")
		}
		none := create(t, "legacy_shard", t.Name()+" none", map[string]string{"shards": servedByTests, "table": "mains.teams", "from": "team_id", "to": "shard", "unknown": "none"})
		out, err := none.Map(context.Background(), m, texts("99", "1"))
		if err != nil || out[0] != (key.DestinationNone{}) || ksidOf(t, out[1])[1] != 123 {
			t.Fatalf("found %v (%v), expected no destination and 0123", out, err)
		}
		if ok, err := none.Verify(context.Background(), m, texts("99"), [][]byte{{1}}); err != nil || ok[0] {
			t.Fatalf("Verify: found %v (%v), expected false", ok, err)
		}
		m.set(99, 124) // a new team is seen at once
		expectShard(t, v, m, 99, 124)
		expectShard(t, none, m, 99, 124)

		// A team that was deleted, or moved away, is forgotten when it is asked for again.
		m.mu.Lock()
		delete(m.teams, 99)
		m.mu.Unlock()
		expectShard(t, v, m, 99, 124)
		time.Sleep(16 * time.Second)
		for range 2 {
			if _, err := shardOf(context.Background(), v, m, 99); vterrors.Code(err) != vtrpcpb.Code_NOT_FOUND {
				t.Fatalf("found %v, expected that the team is not there any more", err)
			}
		}
	})
}

// What a session on @replica reads of mains may be behind; a session on the primary must not
// be routed by it.
func TestWhatAReplicaOfMainsSaysStaysWithSessionsOnReplicas(t *testing.T) {
	m, v := newMains(knownTeams), byLookup(t)
	behind := onReplica{newMains(map[uint64]shardid.ID{1: 124})}
	expectShard(t, v, behind, 1, 124)
	expectShard(t, v, m, 1, 123)
	expectShard(t, v, behind, 1, 124)
	expectCalls(t, m, 1)
	expectCalls(t, behind.fakeMains, 1)
}

func TestTheCacheIsBounded(t *testing.T) {
	teams := map[uint64]shardid.ID{}
	for n := range uint64(20000) {
		teams[n] = shardid.ID(123 + n%2)
	}
	m, v := newMains(teams), byLookup(t, "cache_size", "1000")
	for range 2 {
		for n := range int64(20000) {
			expectShard(t, v, m, n, shardid.ID(123+n%2))
		}
	}
	s := v.(*legacyShard).lookup.primary.Load()
	if n := len(s.cache.table.Load().slots); n > 2048 || s.cache.count > 1000 {
		t.Errorf("found %d teams in %d slots, expected 1000 in 2048 at most", s.cache.count, n)
	}
	if len(s.flights) != 0 {
		t.Errorf("found %d look-ups on their way, expected none", len(s.flights))
	}
	// A working set well below the bound stays.
	before := m.calls.Load()
	for range 3 {
		for n := range int64(200) {
			expectShard(t, v, m, n, shardid.ID(123+n%2))
		}
	}
	if n := m.calls.Load() - before; n > 420 {
		t.Errorf("found %d look-ups for 200 teams, expected them to stay in a cache of 1000", n)
	}
}

func TestTheCacheOutlivesTheVindexAndNotItsParameters(t *testing.T) {
	m, v := newMains(knownTeams), byLookup(t)
	expectShard(t, v, m, 1, 123)
	again := byLookup(t) // as vtgate does on every change of the vschema
	expectShard(t, again, m, 1, 123)
	expectCalls(t, m, 1)
	other := byLookup(t, "staleness", "29s")
	expectShard(t, other, m, 1, 123)
	expectCalls(t, m, 2)
	runtime.KeepAlive(v)

	old := other.(*legacyShard).lookup.p.key()
	other = nil
	for range 100 {
		runtime.GC()
		lookups.Lock()
		gone := lookups.byParams[old].Value() == nil
		lookups.Unlock()
		if gone {
			runtime.KeepAlive(again)
			return
		}
	}
	t.Error("the cache of parameters that nobody uses any more is kept")
}

func TestLongListsAreAskedInParts(t *testing.T) {
	teams := map[uint64]shardid.ID{}
	ids := make([]sqltypes.Value, 2500)
	for n := range ids {
		teams[uint64(n)] = shardid.ID(123 + n%2)
		ids[n] = sqltypes.NewInt64(int64(n))
	}
	m, v := newMains(teams), byLookup(t)
	out, err := v.Map(context.Background(), m, ids)
	if err != nil {
		t.Fatal(err)
	}
	for n, d := range out {
		if got := ksidOf(t, d)[1]; got != byte(123+n%2) {
			t.Fatalf("team %d: found %d", n, got)
		}
	}
	if expectCalls(t, m, 3); m.most != 1000 {
		t.Errorf("found %d teams in one query, expected 1000", m.most)
	}
}

func TestLookUpsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMains(knownTeams)
		v := create(t, "legacy_shard", "counted.by.name", map[string]string{"shards": servedByTests, "table": "mains.teams", "from": "team_id", "to": "shard"})
		expectShard(t, v, m, 1, 123)
		expectShard(t, v, m, 1, 123)
		expectShard(t, v, m, 1, 123)
		_, _ = shardOf(context.Background(), v, m, 99)
		_, _ = shardOf(context.Background(), v, m, -1)
		time.Sleep(20 * time.Second)
		m.fail(func(context.Context, []uint64) error { return errors.New("down") })
		expectShard(t, v, m, 1, 123)
		_, _ = shardOf(context.Background(), v, m, 2)
		want := map[string]int64{outcomeFound: 1, outcomeUnknown: 1, outcomeError: 2, outcomeKept: 1}
		for outcome, n := range want {
			if got := lookupCounts.Counts()["counted_by_name."+outcome]; got != n {
				t.Errorf("%s: found %d, expected %d", outcome, got, n)
			}
		}
		if got := hitCounts.all()["counted_by_name"]; got != 3 {
			t.Errorf("found %d hits, expected 3", got)
		}
		if got := refusedValues.Counts()["counted_by_name"]; got != 1 {
			t.Errorf("found %d refused values, expected 1", got)
		}
		if got := lookupTimes.Counts()["counted_by_name"]; got != 4 {
			t.Errorf("found %d times, expected 4", got)
		}
	})
}
