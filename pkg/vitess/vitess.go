// Package vitess owns what we ask of a Vitess fleet: its topo server, its vtctld, and the
// tablets of a landing.
//
// A landing is shard 0 of a keyspace of its own. The invariants kept here: a landing is
// fenced from birth (no client reaches it through vtgate before somebody opens it), every
// call has a deadline (Vitess' clients otherwise retry for ever when a server is away), and
// a shard lock that was taken is kept alive until it is given back or known to be lost.
//
// It does not decide when to fence, elect or delete: that is the workflow's.
package vitess

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"vitess.io/vitess/go/vt/log"
	"vitess.io/vitess/go/vt/topo"
	_ "vitess.io/vitess/go/vt/topo/etcd2topo" // the topo implementation that config names by default
	"vitess.io/vitess/go/vt/vtctl/grpcvtctldclient"
	"vitess.io/vitess/go/vt/vtctl/vtctldclient"
	"vitess.io/vitess/go/vt/vttablet/grpctmclient"
	"vitess.io/vitess/go/vt/vttablet/tmclient"

	"vitess.io/vitess/go/vt/grpcclient"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/vifl/vifl/pkg/config"
)

// shard is the only shard of a landing.
const shard = "0"

const (
	// callTimeout bounds one call to the topo server, vtctld or a tablet.
	callTimeout = 15 * time.Second
	// askTimeout bounds asking one tablet how it is: one that needs longer is as good as
	// down, and the others' answers should not wait for it.
	askTimeout = 5 * time.Second
	// electTimeout bounds a planned reparent, which waits for replicas to catch up.
	electTimeout = 60 * time.Second
)

// Fleet is one Vitess fleet.
type Fleet struct {
	ts      *topo.Server
	vtctld  vtctldclient.VtctldClient
	tablets tmclient.TabletManagerClient
	address string // of vtctld, for errors
}

// Open connects to the fleet's topo server and proves that it answers. vtctld and the
// tablets are connected to when they are first needed.
func Open(ctx context.Context, c *config.Config) (*Fleet, error) {
	hush()
	ts, err := topo.OpenServer(c.Topo.Implementation, c.Topo.Server, c.Topo.Root)
	if err != nil {
		return nil, fmt.Errorf("topo server %s at %s: cannot be reached: %w: check topo.server, and that it runs", c.Topo.Implementation, c.Topo.Server, err)
	}
	f := &Fleet{ts: ts, tablets: grpctmclient.NewClient(), address: c.Vtctld}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cells, err := ts.GetCellInfoNames(ctx)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("topo server at %s: reading the cells under %s: %w", c.Topo.Server, c.Topo.Root, err)
	}
	if len(cells) == 0 {
		f.Close()
		return nil, fmt.Errorf("topo server at %s: found no cell under %s, expected the fleet's: check topo.root", c.Topo.Server, c.Topo.Root)
	}
	f.vtctld, err = grpcvtctldclient.NewWithDialOpts(ctx, c.Vtctld, grpcclient.FailFast(true), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("vtctld at %s: %w", c.Vtctld, err)
	}
	return f, nil
}

// hush turns off what Vitess' and etcd's clients log to stderr by themselves: everything
// that matters comes back as an error, and the rest would bury the operator's own lines.
// Both only have process-wide switches.
func hush() {
	log.SwapLogger(slog.New(slog.DiscardHandler))
	if os.Getenv("ETCD_CLIENT_DEBUG") == "" {
		_ = os.Setenv("ETCD_CLIENT_DEBUG", "fatal")
	}
}

// Close closes the connections.
func (f *Fleet) Close() {
	if f.vtctld != nil {
		_ = f.vtctld.Close()
	}
	f.tablets.Close()
	f.ts.Close()
}

// Topo is the topo server, where vifl's own state is kept as well.
func (f *Fleet) Topo() *topo.Server { return f.ts }

// Landing is the landing with that keyspace's name, which may not exist yet.
func (f *Fleet) Landing(keyspace string) *Landing { return &Landing{f: f, keyspace: keyspace} }
