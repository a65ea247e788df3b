// Package route owns where a shard's traffic goes and the change of it: the switch.
//
// It does not own the protocol around a change (freezing, catching up, killing connections:
// workflows), nor how mains is laid out (mains).
package route

import (
	"context"
	"fmt"

	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/shardid"
)

// Traffic is the side that takes a shard's writes.
type Traffic string

const (
	Legacy Traffic = "legacy"
	Vitess Traffic = "vitess"
	// Mixed is neither: part of it here and part there, or at an address that is none of
	// both. A person has to look.
	Mixed Traffic = "mixed"
)

// ErrUnknownOutcome and ErrEpoch are what a Flip can end with beside failing: see mains.
var (
	ErrUnknownOutcome = mains.ErrUnknownOutcome
	ErrEpoch          = mains.ErrEpoch
)

// Switch says where a shard is served, and changes it. Implementations pass
// routetest.Conformance.
type Switch interface {
	// Served reads where the shard is served now. It changes nothing and waits for nothing
	// but the answer.
	Served(ctx context.Context, id shardid.ID) (Traffic, error)
	// Flip makes the shard served there, on condition of the epoch. It is idempotent, and
	// touches no other shard. On ErrUnknownOutcome it may or may not have happened: call
	// Served before anything else. On every other error nothing was changed.
	Flip(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error
	// Rehearse proves that a Flip would succeed now, and changes nothing. It takes the locks
	// of a Flip for the moment that it needs.
	Rehearse(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error
}

// Places is where a shard is served when one side has it.
type Places func(shardid.ID) ([]mains.Place, error)

// Direct is the switch of fleets whose application looks its shard up in mains and connects
// to what it finds there.
type Direct struct {
	mains          *mains.Mains
	legacy, vitess Places
}

var _ Switch = (*Direct)(nil)

// NewDirect makes a Direct. Both Places must give every side of the shard.
func NewDirect(m *mains.Mains, legacy, vitess Places) *Direct {
	return &Direct{mains: m, legacy: legacy, vitess: vitess}
}

// Served compares what mains says with both.
func (d *Direct) Served(ctx context.Context, id shardid.ID) (Traffic, error) {
	now, err := d.mains.Where(ctx, id)
	if err != nil {
		return "", err
	}
	for _, side := range []Traffic{Legacy, Vitess} {
		want, err := d.places(id, side)
		if err != nil {
			return "", err
		}
		if mains.Same(now, want) {
			return side, nil
		}
	}
	return Mixed, nil
}

// Flip changes mains.
func (d *Direct) Flip(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error {
	want, err := d.places(id, to)
	if err != nil {
		return err
	}
	return d.mains.Switch(ctx, id, epoch, want)
}

// Rehearse changes mains and rolls it back.
func (d *Direct) Rehearse(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error {
	want, err := d.places(id, to)
	if err != nil {
		return err
	}
	return d.mains.Rehearse(ctx, id, epoch, want)
}

func (d *Direct) places(id shardid.ID, side Traffic) ([]mains.Place, error) {
	switch side {
	case Legacy:
		return d.legacy(id)
	case Vitess:
		return d.vitess(id)
	}
	return nil, fmt.Errorf("shard %s: traffic to %q: expected %s or %s", id, side, Legacy, Vitess)
}
