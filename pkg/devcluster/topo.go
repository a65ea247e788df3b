package devcluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/etcd"
)

// topoServer is the etcd inside the supervisor.
type topoServer struct {
	*etcd.Server
	ts *topo.Server
}

func (t *topoServer) Close() {
	t.ts.Close()
	t.Server.Close()
}

// startTopo starts etcd and makes the cell.
func (c *cluster) startTopo(ctx context.Context) error {
	e, err := etcd.Start(ctx, filepath.Join(c.o.Data, "etcd"), c.logFile("etcd"))
	if err != nil {
		return fmt.Errorf("%w%s", err, c.tail("etcd"))
	}
	ts, err := e.Topo(ctx, topoRoot, Cell)
	if err != nil {
		e.Close()
		return err
	}
	c.etcd = &topoServer{Server: e, ts: ts}
	return nil
}

// portAttempts is how often ports are chosen anew.
const portAttempts = 4

// poll asks until f is content, fails for good, or ctx ends.
func poll(ctx context.Context, what string, f func() (done bool, err error)) error {
	for {
		done, err := f()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
