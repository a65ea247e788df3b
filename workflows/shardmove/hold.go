package shardmove

import (
	"context"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/state"
)

// Hold forbids a cutover of the shard until Unhold. It is allowed in every phase and while
// another verb's owner is at work it waits for its end.
func (m *Move) Hold(ctx context.Context, why string) error {
	return m.setHold(ctx, "hold", why, &state.Hold{Who: state.Whoami(), Why: why, At: time.Now().UTC()})
}

// Unhold takes a hold back.
func (m *Move) Unhold(ctx context.Context, why string) error {
	return m.setHold(ctx, "unhold", why, nil)
}

func (m *Move) setHold(ctx context.Context, verb, why string, hold *state.Hold) error {
	lctx, lease, err := m.store.Acquire(ctx, m.id, m.keyspace, verb, leaseWait, func(s string) { m.reporter.Note("%s", s) })
	if err != nil {
		return err
	}
	defer lease.Release()
	doc := lease.Doc()
	if hold == nil && doc.Hold == nil {
		return fmt.Errorf("shard %s: there is no hold on it", m.show)
	}
	if err := lease.Update(lctx, func(d *state.Shard) { d.Hold = hold }); err != nil {
		return err
	}
	return lease.Record(lctx, state.Event{Verb: verb, From: doc.Phase, To: doc.Phase, What: why})
}

// History is the shard's history, oldest first.
func (m *Move) History(ctx context.Context) ([]state.Event, error) {
	return m.store.History(ctx, m.keyspace)
}

// Document is the shard's state as it is written.
func (m *Move) Document(ctx context.Context) (*state.Shard, error) {
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	return doc, err
}
