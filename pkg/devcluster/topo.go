package devcluster

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/topo"
	_ "vitess.io/vitess/go/vt/topo/etcd2topo" // the implementation the fleet uses

	"github.com/vifl/vifl/pkg/mysqld"
)

// topoServer is the etcd inside the supervisor.
type topoServer struct {
	address string
	etcd    *embed.Etcd
	ts      *topo.Server
}

func (t *topoServer) Close() {
	t.ts.Close()
	t.etcd.Close()
}

// startTopo starts etcd and makes the cell.
func (c *cluster) startTopo(ctx context.Context) error {
	var e *embed.Etcd
	var err error
	for attempt := range portAttempts {
		// Somebody may take the ports between our choosing and etcd's binding.
		if e, err = c.startEtcd(attempt); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("etcd: %w%s", err, c.tail("etcd"))
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		e.Close()
		return fmt.Errorf("etcd: %w%s", err, c.tail("etcd"))
	case <-ctx.Done():
		e.Close()
		return fmt.Errorf("etcd: wait until it is ready: %w%s", ctx.Err(), c.tail("etcd"))
	}
	address := e.Clients[0].Addr().String()
	ts, err := topo.OpenServer("etcd2", address, topoRoot)
	if err != nil {
		e.Close()
		return fmt.Errorf("topo server at %s: %w", address, err)
	}
	c.etcd = &topoServer{address: address, etcd: e, ts: ts}
	cell := &topodatapb.CellInfo{ServerAddress: address, Root: "/vitess/" + Cell}
	if err := ts.CreateCellInfo(ctx, Cell, cell); err != nil {
		return fmt.Errorf("topo server at %s: make cell %s: %w", address, Cell, err)
	}
	return nil
}

func (c *cluster) startEtcd(attempt int) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = "dev"
	cfg.Dir = filepath.Join(c.o.Data, "etcd", fmt.Sprint(attempt))
	cfg.LogLevel, cfg.LogOutputs = "warn", []string{c.logFile("etcd")}
	// Its life is the supervisor's: nothing is ever read back.
	cfg.UnsafeNoFsync = true
	var urls [2]url.URL
	for i := range urls {
		port, err := mysqld.FreePort()
		if err != nil {
			return nil, err
		}
		urls[i] = url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls[:1], urls[:1]
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls[1:], urls[1:]
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 50, 500 // the only member elects itself that much sooner
	return embed.StartEtcd(cfg)
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
