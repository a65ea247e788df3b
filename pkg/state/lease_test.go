package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/etcd"
	"github.com/vifl/vifl/pkg/shardid"
)

const (
	shard    = shardid.ID(123)
	keyspace = "legacy_0123"
)

// topoServer is a real etcd for a test's stores.
func topoServer(t *testing.T) *topo.Server {
	t.Helper()
	dir := t.TempDir()
	e, err := etcd.Start(t.Context(), dir, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ts, err := e.Topo(t.Context(), "/vitess/global", "zone1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.Close)
	return ts
}

func open(t *testing.T, ts *topo.Server) *Store {
	t.Helper()
	s, err := Open(t.Context(), ts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func acquire(t *testing.T, s *Store, wait time.Duration) (context.Context, *Lease, error) {
	t.Helper()
	return s.Acquire(t.Context(), shard, keyspace, "test", wait, func(string) {})
}

func TestOneOwnerAtATimeAndTheEpochGrows(t *testing.T) {
	ts := topoServer(t)
	s := open(t, ts)
	if doc, version, err := s.Load(t.Context(), shard, keyspace); err != nil || version != nil || doc.Phase != New {
		t.Fatalf("a shard that was never touched: %+v, %v, %v", doc, version, err)
	}
	_, first, err := acquire(t, s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if first.Epoch() != 1 {
		t.Errorf("epoch %d of the first owner, expected 1", first.Epoch())
	}
	began := time.Now()
	_, _, err = acquire(t, s, time.Second)
	if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("a second owner: %v, expected ErrHeld with the name of the first", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("waited %s instead of a second", took)
	}
	first.Release()
	_, second, err := acquire(t, s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if second.Epoch() != 2 {
		t.Errorf("epoch %d of the second owner, expected 2", second.Epoch())
	}
	if names, err := s.List(t.Context()); err != nil || len(names) != 1 || names[0] != keyspace {
		t.Errorf("list %v, %v", names, err)
	}
}

// The lease is taken away as it is when its keep-alives fail, by an owner's death or a topo
// server that does not answer: the old owner's context must end, and what it still writes
// must not pass.
func TestAnOwnerWithoutItsLeaseIsStoppedAndFenced(t *testing.T) {
	ts := topoServer(t)
	s := open(t, ts)
	ctx, old, err := acquire(t, s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.lock.Unlock(t.Context()); err != nil { // behind the owner's back
		t.Fatal(err)
	}
	_, next, err := acquire(t, s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Release()
	// At once, long before it notices: the document's version has moved.
	if err := old.Update(t.Context(), func(d *Shard) { d.Phase = Completed }); !errors.Is(err, ErrConflict) {
		t.Errorf("a former owner's write: %v, expected ErrConflict", err)
	}
	if old.Doc().Phase != New {
		t.Errorf("a write that was refused changed the copy in memory: %s", old.Doc().Phase)
	}
	select {
	case <-ctx.Done():
	case <-time.After(leaseTTL + 2*time.Second):
		t.Error("the former owner's context goes on")
	}
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "was lost") {
		t.Errorf("its cause is %v", cause)
	}
	if err := next.Update(t.Context(), func(d *Shard) { d.Phase = Preflighted }); err != nil {
		t.Errorf("the new owner's write: %v", err)
	}
}

func TestHistoryKeepsItsOrderAndSurvivesEqualTimes(t *testing.T) {
	s := open(t, topoServer(t))
	at := time.Now()
	for i := range 3 {
		if err := s.Append(t.Context(), keyspace, Event{At: at, What: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(t.Context(), keyspace, Event{At: at.Add(-time.Hour), What: "before"}); err != nil {
		t.Fatal(err)
	}
	events, err := s.History(t.Context(), keyspace)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, e.What)
	}
	if fmt.Sprint(got) != "[before 0 1 2]" {
		t.Errorf("history %v", got)
	}
}

// A document that this program does not understand, or that is another shard's, must not be
// written over.
func TestForeignDocumentsAreRefused(t *testing.T) {
	ts := topoServer(t)
	s := open(t, ts)
	for name, doc := range map[string]Shard{
		"newer format":  {Format: format + 1, Shard: shard, Keyspace: keyspace},
		"another shard": {Format: format, Shard: 4567, Keyspace: keyspace},
	} {
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		file := dir(keyspace) + "/state"
		if _, err := s.conn.Update(t.Context(), file, raw, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := acquire(t, s, time.Second); err == nil {
			t.Errorf("%s: taken", name)
		}
		if now, _, err := s.conn.Get(t.Context(), file); err != nil || string(now) != string(raw) {
			t.Errorf("%s: changed to %s, %v", name, now, err)
		}
	}
}

// Two verbs that were started at once found nobody to wait for, and the later one stood still
// without a word.
func TestAWaitForAnOwnerWhoWasJustQuickerIsNotSilent(t *testing.T) {
	s := open(t, topoServer(t))
	if _, first, err := acquire(t, s, time.Second); err != nil {
		t.Fatal(err)
	} else {
		first.Release() // the shard's folder is there from now on
	}
	type outcome struct {
		lease *Lease
		err   error
		told  []string
	}
	outcomes := make(chan outcome, 2)
	for _, verb := range []string{"seed", "abort"} {
		go func() {
			var mu sync.Mutex
			var o outcome
			_, o.lease, o.err = s.Acquire(t.Context(), shard, keyspace, verb, 4*time.Second, func(text string) {
				mu.Lock()
				defer mu.Unlock()
				o.told = append(o.told, text)
			})
			mu.Lock()
			defer mu.Unlock()
			outcomes <- o
		}()
	}
	winner := <-outcomes
	if winner.err != nil {
		t.Fatal(winner.err)
	}
	defer winner.lease.Release()
	loser := <-outcomes
	if !errors.Is(loser.err, ErrHeld) || len(loser.told) != 1 || !strings.Contains(loser.told[0], "held by") {
		t.Errorf("the later one: %v, told %q, expected ErrHeld after one word about whom it waits for", loser.err, loser.told)
	}
}
