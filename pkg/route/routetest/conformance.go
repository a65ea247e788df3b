// Package routetest holds the tests that every implementation of route.Switch passes.
package routetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/shardid"
)

// Fixture is a switch with two shards, both on the legacy.
type Fixture struct {
	Switch     route.Switch
	Shard      shardid.ID
	Other      shardid.ID
	RaiseEpoch func(ctx context.Context, id shardid.ID, to uint64) error
	// Scatter leaves the shard half here and half there.
	Scatter func(ctx context.Context, id shardid.ID) error
}

// Conformance runs the tests, each on a fixture of its own.
func Conformance(t *testing.T, fresh func(t *testing.T) Fixture) {
	served := func(t *testing.T, f Fixture, id shardid.ID, want route.Traffic) {
		t.Helper()
		if got, err := f.Switch.Served(bounded(t), id); err != nil || got != want {
			t.Errorf("%s is served by %q, expected %q, %v", id, got, want, err)
		}
	}
	raise := func(t *testing.T, f Fixture, to uint64) {
		t.Helper()
		if err := f.RaiseEpoch(bounded(t), f.Shard, to); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("there and back, twice each", func(t *testing.T) {
		f := fresh(t)
		raise(t, f, 1)
		served(t, f, f.Shard, route.Legacy)
		for _, to := range []route.Traffic{route.Vitess, route.Vitess, route.Legacy, route.Legacy} {
			if err := f.Switch.Flip(bounded(t), f.Shard, 1, to); err != nil {
				t.Fatalf("flip to %s: %v", to, err)
			}
			served(t, f, f.Shard, to)
			served(t, f, f.Other, route.Legacy)
		}
	})
	t.Run("an epoch that is not the present one", func(t *testing.T) {
		f := fresh(t)
		if err := f.Switch.Flip(bounded(t), f.Shard, 1, route.Vitess); !errors.Is(err, route.ErrEpoch) {
			t.Errorf("before any: %v", err)
		}
		raise(t, f, 3)
		for _, epoch := range []uint64{0, 2, 4} {
			if err := f.Switch.Flip(bounded(t), f.Shard, epoch, route.Vitess); !errors.Is(err, route.ErrEpoch) {
				t.Errorf("epoch %d where 3 is: %v", epoch, err)
			}
		}
		served(t, f, f.Shard, route.Legacy)
	})
	t.Run("rehearsed only", func(t *testing.T) {
		f := fresh(t)
		raise(t, f, 1)
		if err := f.Switch.Rehearse(bounded(t), f.Shard, 1, route.Vitess); err != nil {
			t.Errorf("%v", err)
		}
		served(t, f, f.Shard, route.Legacy)
		if err := f.Switch.Rehearse(bounded(t), f.Shard, 2, route.Vitess); !errors.Is(err, route.ErrEpoch) {
			t.Errorf("an epoch that is not the present one: %v", err)
		}
	})
	t.Run("half here and half there", func(t *testing.T) {
		f := fresh(t)
		raise(t, f, 1)
		if err := f.Scatter(bounded(t), f.Shard); err != nil {
			t.Fatal(err)
		}
		served(t, f, f.Shard, route.Mixed)
		if err := f.Switch.Flip(bounded(t), f.Shard, 1, route.Vitess); err != nil {
			t.Errorf("on from there: %v", err)
		}
		served(t, f, f.Shard, route.Vitess)
	})
	t.Run("to nowhere", func(t *testing.T) {
		f := fresh(t)
		raise(t, f, 1)
		if err := f.Switch.Flip(bounded(t), f.Shard, 1, route.Mixed); err == nil {
			t.Error("flipped to mixed")
		}
		served(t, f, f.Shard, route.Legacy)
	})
	t.Run("a context that has ended", func(t *testing.T) {
		f := fresh(t)
		raise(t, f, 1)
		ctx, cancel := context.WithCancel(bounded(t))
		cancel()
		if err := f.Switch.Flip(ctx, f.Shard, 1, route.Vitess); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		served(t, f, f.Shard, route.Legacy)
	})
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
