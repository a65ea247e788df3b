package diff

import (
	"context"
	"database/sql"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Pool is a server read as it is now, without a common instant.
type Pool struct {
	// Name is what errors and reports call it.
	Name     string
	Database string
	DB       *sql.DB
}

// open takes n connections out of each pool, fewer where a pool is bounded. close gives
// them back.
func openPools(ctx context.Context, pools []Pool, n int) (sides []Side, closeAll func(), err error) {
	n = max(n, 1)
	for _, p := range pools {
		if bound := p.DB.Stats().MaxOpenConnections; bound > 0 {
			n = min(n, bound) // to wait for a connection that we hold ourselves never ends
		}
	}
	sides = make([]Side, len(pools))
	closeAll = func() {
		for _, s := range sides {
			for _, c := range s.Conns {
				if c != nil {
					_ = c.Close()
				}
			}
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range pools {
		sides[i] = Side{Name: p.Name, Database: p.Database, Conns: make([]*sql.Conn, n)}
		for k := range n {
			g.Go(func() error {
				c, err := p.DB.Conn(ctx)
				if err != nil {
					return fmt.Errorf("%s: connect for comparing: %w", p.Name, err)
				}
				sides[i].Conns[k] = c
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		closeAll()
		return nil, nil, err
	}
	return sides, closeAll, nil
}
