package vitess

import (
	"context"

	tabletmanagerdatapb "vitess.io/vitess/go/vt/proto/tabletmanagerdata"
)

// ExecuteAsDBA runs one statement on the primary as Vitess' own administrator: what vifl's
// account on a landing must not be able to do by itself. It is written to the binlog and
// reaches the replicas.
func (l *Landing) ExecuteAsDBA(ctx context.Context, stmt string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := l.primaryRecord(ctx)
	if err != nil {
		return err
	}
	if _, err := l.f.tablets.ExecuteFetchAsDba(ctx, r, false, &tabletmanagerdatapb.ExecuteFetchAsDbaRequest{Query: []byte(stmt)}); err != nil {
		return l.errorf("primary %s: %w", fromRecord(r).Alias, err)
	}
	return nil
}
