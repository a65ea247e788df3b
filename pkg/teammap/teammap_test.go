package teammap

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

var readAt = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

func build(t testing.TB, teams map[uint64]shardid.ID) *Map {
	t.Helper()
	var b Builder
	for team, shard := range teams {
		b.Add(team, shard)
	}
	m, err := b.Build(readAt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	sets := map[string]map[uint64]shardid.ID{
		"one":      {7: 123},
		"extremes": {0: 0, 1: 65535, math.MaxUint64: 123, math.MaxUint64 - 1: 83},
		"dense":    {},
		"sparse":   {},
		"clumped":  {},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(5000) {
		sets["dense"][i+100] = shardid.ID(i % 700)
		sets["sparse"][random.Uint64()] = shardid.ID(i % 700)
		sets["clumped"][1<<40+i*3] = shardid.ID(i % 700)
	}
	sets["clumped"][5] = 9
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			written := build(t, set)
			path := filepath.Join(t.TempDir(), "teams")
			if err := written.Write(path); err != nil {
				t.Fatal(err)
			}
			m, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if m.Count() != len(set) || m.Digest() != written.Digest() || !m.Created().Equal(readAt) {
				t.Fatalf("found %d teams, digest %s, of %s; expected %d, %s, %s", m.Count(), m.Digest(), m.Created(), len(set), written.Digest(), readAt)
			}
			if info, err := os.Stat(path); err != nil || info.Size() != m.Size() || info.Mode().Perm() != 0o644 {
				t.Fatalf("found %v bytes with mode %v (%v), expected %d and 0644", info.Size(), info.Mode(), err, m.Size())
			}
			for team, shard := range set {
				if found, ok := m.Lookup(team); !ok || found != shard {
					t.Fatalf("team %d: found %s (%v), expected %s", team, found, ok, shard)
				}
				for _, near := range []uint64{team - 1, team + 1, team ^ 1<<63} {
					want, known := set[near]
					if found, ok := m.Lookup(near); ok != known || found != want {
						t.Fatalf("team %d: found %s (%v), expected %s (%v)", near, found, ok, want, known)
					}
				}
			}
		})
	}
}

func TestAMapWithoutTeamsKnowsNobody(t *testing.T) {
	m := build(t, nil)
	if _, ok := m.Lookup(0); ok || m.Count() != 0 {
		t.Fatal("found a team in an empty map")
	}
}

func TestATeamThatIsThereTwiceIsAnError(t *testing.T) {
	for _, second := range []shardid.ID{123, 124} {
		var b Builder
		b.Add(2, 123)
		b.Add(1, 5)
		b.Add(2, second)
		if _, err := b.Build(readAt); err == nil || !strings.Contains(err.Error(), "team 2 is there twice") {
			t.Fatalf("found %v, expected that team 2 is there twice", err)
		}
	}
}

// The digest was computed by another program: a change of it, or of the order of the bytes,
// is a new version.
func TestTheFormatIsPinned(t *testing.T) {
	m := build(t, map[uint64]shardid.ID{1: 123, 2: 124})
	path := filepath.Join(t.TempDir(), "teams")
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := "viflteam\x00\x00\x00\x01\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x02"
	tail := "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x7b\x00\x7c"
	if got := string(raw[:24]); got != head {
		t.Errorf("header: found %x, expected %x", got, head)
	}
	if got := string(raw[64:]); got != tail {
		t.Errorf("body: found %x, expected %x", got, tail)
	}
	if want := "61d435d0fbdb209621361079f57c8ce990fc8d9d5a44be576a7cea7b8985d7c0"; m.Digest() != want {
		t.Errorf("digest: found %s, expected %s", m.Digest(), want)
	}
}

// Every single changed, missing or added byte is found.
func TestADamagedFileIsAnError(t *testing.T) {
	m := build(t, map[uint64]shardid.ID{1: 123, 2: 124, 300: 123})
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	if err := m.Write(whole); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what string, content []byte) {
		t.Helper()
		path := filepath.Join(dir, "damaged")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: found %v, expected that the map is not whole", what, err)
		}
	}
	for i := range raw {
		for bit := range 8 {
			changed := append([]byte{}, raw...)
			changed[i] ^= 1 << bit
			damaged("a changed bit", changed)
		}
		damaged("cut short", raw[:i])
	}
	damaged("a byte more", append(append([]byte{}, raw...), 0))
	if _, err := Read(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrDamaged) {
		t.Fatalf("no file: found %v, expected that it does not exist", err)
	}
}

func TestWritingLeavesTheOldMapOrTheNewOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "teams")
	maps := []*Map{build(t, map[uint64]shardid.ID{1: 1}), build(t, map[uint64]shardid.ID{1: 2, 2: 2})}
	if err := maps[0].Write(path); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for i := range 50 {
			if err = maps[i%2].Write(path); err != nil {
				break
			}
		}
		done <- err
	}()
	for reads := 0; ; reads++ {
		m, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := m.Digest(); d != maps[0].Digest() && d != maps[1].Digest() {
			t.Fatalf("found a map with the digest %s, which nobody wrote", d)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 1 {
				t.Fatalf("found %v (%v), expected only the map", left, err)
			}
			return
		default:
		}
	}
}

func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "teams")
	if err := os.Mkdir(path, 0o755); err != nil { // a folder cannot be renamed over
		t.Fatal(err)
	}
	if err := build(t, map[uint64]shardid.ID{1: 1}).Write(path); err == nil {
		t.Fatal("found no error, expected that a folder is in the way")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("found %v (%v), expected only the folder", left, err)
	}
	if err := build(t, nil).Write(filepath.Join(dir, "no", "such")); err == nil {
		t.Fatal("found no error, expected that the folder does not exist")
	}
}

// million10 is a map of ten million teams with gaps, as ids from an auto-increment have.
func million10(tb testing.TB) *Map {
	const n = 10_000_000
	b := Builder{teams: make([]uint64, 0, n), shards: make([]uint16, 0, n)}
	random := rand.New(rand.NewPCG(3, 4))
	for team := uint64(0); len(b.teams) < n; {
		team += 1 + random.Uint64N(4)
		b.Add(team, shardid.ID(team%1000))
	}
	m, err := b.Build(readAt)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestTenMillionTeamsFitInBoundedMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams")
	if err := million10(t).Write(path); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	m, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	used := heap() - before
	t.Logf("%d teams: %.1f MB in memory, %.1f MB on disk", m.Count(), float64(used)/1e6, float64(m.Size())/1e6)
	if used > 105_000_000 {
		t.Errorf("found %d bytes, expected 105 MB or less", used)
	}
	runtime.KeepAlive(m)
}

func BenchmarkLookupTenMillion(b *testing.B) {
	m := million10(b)
	random := rand.New(rand.NewPCG(5, 6))
	b.ResetTimer()
	for b.Loop() {
		m.Lookup(random.Uint64N(25_000_000))
	}
}
