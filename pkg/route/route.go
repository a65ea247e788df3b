// Package route owns where a shard's traffic goes: reading it, and flipping it on condition
// of the shard's epoch. Direct is the switch of an application that looks its shard up in
// mains and connects there itself.
package route

import (
	"context"
	"fmt"

	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/shardid"
)

// Traffic is who takes a shard's writes.
type Traffic string

// The answers of a Switch. Other is neither, or some of each: somebody else changed it.
const (
	Legacy Traffic = "legacy"
	Vitess Traffic = "vitess"
	Other  Traffic = "other"
)

// Switch says where a shard is served and changes it.
type Switch interface {
	// Served reads it. It has no side effect.
	Served(ctx context.Context, id shardid.ID) (Traffic, error)
	// Flip sends the traffic there if the shard's epoch is still the caller's
	// (mains.ErrEpoch otherwise). Flipping to where it is already is fine. On
	// mains.ErrUnknownOutcome read Served before deciding.
	Flip(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error
}

// Direct is the switch by mains.
type Direct struct {
	mains          *mains.Mains
	legacy, vitess []mains.Place
}

var _ Switch = (*Direct)(nil)

// NewDirect makes the switch of one shard, whose places these are.
func NewDirect(m *mains.Mains, legacy, vitess []mains.Place) *Direct {
	return &Direct{mains: m, legacy: legacy, vitess: vitess}
}

// Served compares what mains says with the two places that the shard can have.
func (d *Direct) Served(ctx context.Context, id shardid.ID) (Traffic, error) {
	got, err := d.mains.Where(ctx, id)
	if err != nil {
		return Other, err
	}
	switch {
	case mains.Same(got, d.legacy):
		return Legacy, nil
	case mains.Same(got, d.vitess):
		return Vitess, nil
	}
	return Other, nil
}

// Flip changes mains.
func (d *Direct) Flip(ctx context.Context, id shardid.ID, epoch uint64, to Traffic) error {
	switch to {
	case Legacy:
		return d.mains.Switch(ctx, id, epoch, d.legacy)
	case Vitess:
		return d.mains.Switch(ctx, id, epoch, d.vitess)
	}
	return fmt.Errorf("shard %s: traffic cannot be flipped to %q", id, to)
}
