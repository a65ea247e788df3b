package binlog

import (
	"context"

	"github.com/vifl/vifl/pkg/stream/transaction"
)

// large applies a transaction that is larger than the reader keeps in memory: part by part
// on one connection, in one transaction. next gives the parts; nil for none, which ends it
// with nothing applied. after is asked at the last part what to save.
//
// Between two parts every unique key is as it was at that place on the source, so each part
// is netted by itself.
func (a *applier) large(ctx context.Context, next func(context.Context) (*transaction.Part, error), after func(last *transaction.Part) (progress, bool)) error {
	return a.transact(ctx, 0, func(ctx context.Context, s *session) error {
		if err := a.c.fence(ctx, s.conn, "FOR UPDATE"); err != nil {
			return err
		}
		for {
			p, err := next(ctx)
			if err != nil {
				return err
			}
			n := newNet(a.plan)
			for i := range p.Changes {
				if err := n.add(&p.Changes[i]); err != nil {
					return asFinal(err)
				}
			}
			if err := a.write(ctx, s, queued(n.units()), false); err != nil {
				return err
			}
			if !p.Last {
				continue
			}
			progress, ok := after(p)
			if !ok {
				return errDropped
			}
			return a.c.save(ctx, s.conn, progress)
		}
	})
}
