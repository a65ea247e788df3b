package vindexes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/teammap"
)

func writeMap(t testing.TB, path string, created time.Time, teams map[uint64]shardid.ID) *teammap.Map {
	t.Helper()
	var b teammap.Builder
	for team, shard := range teams {
		b.Add(team, shard)
	}
	m, err := b.Build(created)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	return m
}

func byFile(t testing.TB, path string, more ...string) vtvindexes.SingleColumn {
	t.Helper()
	params := map[string]string{"shards": servedByTests, "file": path}
	for i := 0; i < len(more); i += 2 {
		params[more[i]] = more[i+1]
	}
	return create(t, "legacy_shard", t.Name(), params)
}

// look makes the next use look at the file, which otherwise happens once a second.
func look(path string) { teamFileAt(path).nextLook.Store(0) }

// eventually waits for the map to be read anew, beside the queries.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: did not happen in 10 s", what)
}

func TestATeamMapIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams.map")
	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 123, 2: 124})
	v := byFile(t, path)
	if v.NeedsVCursor() {
		t.Error("with a team map it can do without vtgate, and must say so")
	}
	expectShard(t, v, nil, 1, 123)
	loaded := teamFileAt(path).current.Load()

	look(path)
	expectShard(t, v, nil, 1, 123)
	if teamFileAt(path).current.Load() != loaded {
		t.Error("a map that did not change was read again")
	}

	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 124, 2: 124})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 4 { // nobody waits, and nobody finds a team missing
		readers.Go(func() {
			for !stop.Load() {
				if shard, err := shardOf(context.Background(), v, nil, 1); err != nil || (shard != 123 && shard != 124) {
					t.Errorf("while it is read: found %s (%v)", shard, err)
					return
				}
			}
		})
	}
	eventually(t, "the new map", func() bool {
		shard, err := shardOf(context.Background(), v, nil, 1)
		return err == nil && shard == 124
	})
	stop.Store(true)
	readers.Wait()
}

func TestADamagedOrAbsentNewMapLeavesTheOldOneInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "teams.map")
	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 123})
	v := byFile(t, path)
	expectShard(t, v, nil, 1, 123)
	failures := func() int64 {
		return mapLoads.Counts()[strings.ReplaceAll(path, ".", "_")+".failed"]
	}
	for name, harm := range map[string]func() error{
		"cut short": func() error { return os.WriteFile(path, []byte("viflteam"), 0o600) },
		"gone":      func() error { return os.Remove(path) },
		"a folder":  func() error { return os.Mkdir(path, 0o700) },
	} {
		before := failures()
		_ = os.Remove(path)
		if name == "gone" {
			_ = os.WriteFile(path, nil, 0o600)
		}
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		look(path)
		eventually(t, name+": the failure is counted", func() bool {
			expectShard(t, v, nil, 1, 123)
			return failures() > before
		})
	}
	_ = os.Remove(path)
	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 124})
	eventually(t, "the repaired map", func() bool {
		look(path)
		shard, err := shardOf(context.Background(), v, nil, 1)
		return err == nil && shard == 124
	})
}

func TestWithoutAnyMapThereIsAnErrorUntilThereIsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams.map")
	for _, unknown := range []string{"error", "none"} {
		v := byFile(t, path, "unknown", unknown)
		_ = os.Remove(path)
		teamFileAt(path).current.Store(nil)
		for range 2 {
			_, err := shardOf(context.Background(), v, nil, 1)
			if vterrors.Code(err) != vtrpcpb.Code_UNAVAILABLE || !strings.Contains(err.Error(), "vifl mains export") {
				t.Fatalf("unknown=%s: found %v, expected that there is no map, and how to write one", unknown, err)
			}
		}
		writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 123})
		expectShard(t, v, nil, 1, 123)
	}
}

func TestATeamMapThatIsTooOldIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams.map")
	writeMap(t, path, time.Now().Add(-2*time.Hour), map[uint64]shardid.ID{1: 123})
	expectShard(t, byFile(t, path), nil, 1, 123)
	expectShard(t, byFile(t, path, "file_max_age", "3h"), nil, 1, 123)
	_, err := shardOf(context.Background(), byFile(t, path, "file_max_age", "1h"), nil, 1)
	if err == nil || !strings.Contains(err.Error(), "is 2h0m0s old, expected 1h0m0s or less") {
		t.Fatalf("found %v, expected that the map is too old", err)
	}
}

func TestTeamsThatAMapDoesNotHaveOrHasElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams.map")
	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 123, 5: 200})
	v := byFile(t, path)
	if _, err := shardOf(context.Background(), v, nil, 5); err == nil || !strings.Contains(err.Error(), "shard 0200, which this keyspace does not serve") {
		t.Errorf("found %v, expected that 0200 is not served", err)
	}
	if _, err := shardOf(context.Background(), v, nil, 6); vterrors.Code(err) != vtrpcpb.Code_NOT_FOUND {
		t.Errorf("found %v, expected that the team is not there", err)
	}
	out, err := byFile(t, path, "unknown", "none").Map(context.Background(), nil, []sqltypes.Value{sqltypes.NewInt64(6)})
	if err != nil || out[0].String() != "DestinationNone()" {
		t.Errorf("unknown=none: found %v (%v), expected no destination", out, err)
	}
}

// In vtgate mains is asked although there is a map: the map may be older.
func TestWithBothMainsIsAskedWhereItCanBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teams.map")
	writeMap(t, path, time.Now(), map[uint64]shardid.ID{1: 123})
	m := newMains(map[uint64]shardid.ID{1: 124})
	v := byFile(t, path, "table", "mains.teams", "from", "team_id", "to", "shard")
	expectShard(t, v, nil, 1, 123)
	expectShard(t, v, m, 1, 124)
	m.fail(func(context.Context, []uint64) error { return vterrors.New(vtrpcpb.Code_UNAVAILABLE, "down") })
	if shard, err := shardOf(context.Background(), v, m, 2); err == nil {
		t.Errorf("mains is down: found shard %s of the map, expected an error", shard)
	}
}
