package shardmove

import (
	"context"
	"fmt"

	"github.com/vifl/vifl/pkg/state"
)

// KeepAudit keeps the outcome of an audit of the shard's queries, in place of the one before;
// preflight shows it. It is allowed in every phase, and while another verb's owner is at work it
// waits for its end.
func (m *Move) KeepAudit(ctx context.Context, a state.Audit) error {
	lctx, lease, err := m.store.Acquire(ctx, m.id, m.keyspace, "audit", leaseWait, func(s string) { m.reporter.Note("%s", s) })
	if err != nil {
		return err
	}
	defer lease.Release()
	phase := lease.Doc().Phase
	if err := lease.Update(lctx, func(d *state.Shard) { d.Audit = &a }); err != nil {
		return err
	}
	what := fmt.Sprintf("%d calls of %d queries, %d finding(s) that break", a.Calls, a.Queries, len(a.Breaks))
	return lease.Record(lctx, state.Event{Verb: "audit", From: phase, To: phase, What: what})
}
