package vitess_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"vitess.io/vitess/go/vt/topo"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"

	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

func fenced(t *testing.T, l *vitess.Landing) bool {
	t.Helper()
	closed, err := l.Fenced(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return closed
}

func TestCreateIsFencedFromBirthAndIdempotent(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	l := fleet.Landing("legacy_0001")
	for range 2 {
		if err := l.Create(ctx, "semi_sync"); err != nil {
			t.Fatal(err)
		}
		if !fenced(t, l) {
			t.Fatal("the landing is not fenced")
		}
	}
	if err := l.Create(ctx, "none"); err == nil || !strings.Contains(err.Error(), "semi_sync") {
		t.Errorf("Create with another policy: %v", err)
	}
	if err := l.Create(ctx, "nonsense"); err == nil {
		t.Error("Create with an unknown policy succeeded")
	}
	for range 2 {
		if err := l.Delete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := l.Exists(ctx); err != nil || there {
		t.Errorf("after Delete: exists %v, %v", there, err)
	}
}

// A Create that was killed after its first write left a keyspace without a shard.
func TestCreateCompletesWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	if err := fleet.Topo().CreateKeyspace(ctx, "legacy_0002", &topodatapb.Keyspace{DurabilityPolicy: "none"}); err != nil {
		t.Fatal(err)
	}
	l := fleet.Landing("legacy_0002")
	if err := l.Create(ctx, "none"); err != nil || !fenced(t, l) {
		t.Fatal(err)
	}
}

func TestCreateRefusesKeyspacesOfOthers(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	for name, shards := range map[string][]string{"serving": {"0"}, "sharded": {"-80", "80-"}} {
		if err := fleet.Topo().CreateKeyspace(ctx, name, &topodatapb.Keyspace{DurabilityPolicy: "none"}); err != nil {
			t.Fatal(err)
		}
		for _, shard := range shards {
			if err := fleet.Topo().CreateShard(ctx, name, shard); err != nil {
				t.Fatal(err)
			}
		}
		if err := fleet.Landing(name).Create(ctx, "none"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Create on a keyspace that is %s: %v", name, err)
		}
		for _, shard := range shards {
			si, err := fleet.Topo().GetShard(ctx, name, shard)
			if err != nil || !si.IsPrimaryServing {
				t.Errorf("%s/%s was changed: %v", name, shard, err)
			}
		}
	}
	if err := fleet.Landing("serving").Delete(ctx); err == nil {
		t.Error("a keyspace that serves was deleted")
	}
}

// The whole of a switch runs under the shard lock, so the fence must work under it; the
// flag without the rebuilt graph must not count as a fence.
func TestFence(t *testing.T) {
	ctx := within(t, time.Minute)
	l := tablet.Landing
	if !fenced(t, l) {
		t.Fatal("the landing is not fenced from birth")
	}
	locked, unlock, err := l.Lock(ctx, "test of the fence")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetFence(locked, false); err != nil {
		t.Fatal(err)
	}
	if fenced(t, l) {
		t.Error("the fence is closed after it was opened")
	}
	if _, err := fleet.Topo().UpdateShardFields(ctx, "legacy_0123", "0", func(si *topo.ShardInfo) error { si.IsPrimaryServing = false; return nil }); err != nil {
		t.Fatal(err)
	}
	if fenced(t, l) {
		t.Error("the flag alone counts as a fence")
	}
	for range 2 {
		if err := l.SetFence(locked, true); err != nil {
			t.Fatal(err)
		}
		if !fenced(t, l) {
			t.Error("the fence is open after it was closed")
		}
	}
	var failure error
	if unlock(&failure); failure != nil {
		t.Fatal(failure)
	}
	if err := tablet.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if !fenced(t, l) {
		t.Error("the fence is open after the tablet started again")
	}
}

func TestLockSaysWhoHoldsItAndDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	l := fleet.Landing("legacy_0003")
	if err := l.Create(ctx, "none"); err != nil {
		t.Fatal(err)
	}
	locked, unlock, err := l.Lock(ctx, "holding still")
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := l.Automation(ctx, 0); err == nil {
		t.Errorf("a landing without a primary was asked for its streams: %v", lines)
	}
	began := time.Now()
	if _, _, err := l.Lock(ctx, "too late"); err == nil || !strings.Contains(err.Error(), "holding still") {
		t.Errorf("a second lock: %v", err)
	}
	if waited := time.Since(began); waited > 25*time.Second {
		t.Errorf("waited %s for the lock", waited)
	}
	// Vitess' lease lives 30 s and is not kept alive by Vitess.
	time.Sleep(time.Until(began.Add(36 * time.Second)))
	if err := l.Locked(locked); err != nil {
		t.Errorf("the lock did not outlive its lease: %v", err)
	}
	if holder, err := l.LockHolder(ctx); err != nil || !strings.Contains(holder, "holding still") {
		t.Errorf("holder %q, %v", holder, err)
	}
	var failure error
	if unlock(&failure); failure != nil {
		t.Fatal(failure)
	}
	if holder, err := l.LockHolder(ctx); err != nil || holder != "" {
		t.Errorf("holder after unlocking: %q, %v", holder, err)
	}
	if locked.Err() == nil {
		t.Error("the lock's context outlives the lock")
	}
}

// When the topo server drops the lease, whoever works under the lock must notice.
func TestLockThatIsLostEndsItsContext(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	l := fleet.Landing("legacy_0004")
	if err := l.Create(ctx, "none"); err != nil {
		t.Fatal(err)
	}
	locked, unlock, err := l.Lock(ctx, "to be lost")
	if err != nil {
		t.Fatal(err)
	}
	if err := revokeAll(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-locked.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the context still lives 20 s after the lease was revoked")
	}
	if cause := context.Cause(locked); !errors.Is(cause, vitess.ErrLockLost) {
		t.Errorf("cause %v, expected ErrLockLost", cause)
	}
	var failure error
	unlock(&failure)
	if failure == nil {
		t.Error("unlocking a lost lock says nothing")
	}
}

// After an abort the records of the tablets, the primary's too, go with the keyspace.
func TestDeleteRemovesTheRecordsOfTablets(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	l := fleet.Landing("legacy_0005")
	if err := l.Create(ctx, "none"); err != nil {
		t.Fatal(err)
	}
	alias := &topodatapb.TabletAlias{Cell: vitesstest.Cell, Uid: 555}
	record := &topodatapb.Tablet{Alias: alias, Keyspace: "legacy_0005", Shard: "0", Type: topodatapb.TabletType_PRIMARY, Hostname: "127.0.0.1", PortMap: map[string]int32{"grpc": 1}}
	if err := fleet.Topo().CreateTablet(ctx, record); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Topo().UpdateShardFields(ctx, "legacy_0005", "0", func(si *topo.ShardInfo) error { si.PrimaryAlias = alias; return nil }); err != nil {
		t.Fatal(err)
	}
	if tablets, err := l.Tablets(ctx); err != nil || len(tablets) != 1 || tablets[0].Problem == "" {
		t.Errorf("found %+v, %v, expected one tablet that does not answer", tablets, err)
	}
	if _, err := l.Primary(ctx); err == nil || !strings.Contains(err.Error(), "zone1-0000000555") {
		t.Errorf("a primary that does not answer: %v", err)
	}
	if err := l.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Topo().GetTablet(ctx, alias); !topo.IsErrType(err, topo.NoNode) {
		t.Errorf("the tablet's record: %v, expected it to be gone", err)
	}
}
