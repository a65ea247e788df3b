// Package etcd owns an etcd of one member inside our own process: the topo server of local
// fleets and of tests. It never reads back what it wrote: its life is the process's.
package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/topo"
	_ "vitess.io/vitess/go/vt/topo/etcd2topo" // the implementation that speaks to it

	"github.com/vifl/vifl/pkg/mysqld"
)

// attempts is how often ports are chosen anew: somebody may take one between our choosing
// and etcd's binding.
const attempts = 4

// Server is a running etcd.
type Server struct {
	// Address is host:port of the client side.
	Address string
	etcd    *embed.Etcd
}

// Start starts one on free ports of the loopback interface and waits until it serves. Its
// data goes into new folders below dir, what it says to logFile (warnings and errors only).
func Start(ctx context.Context, dir, logFile string) (*Server, error) {
	var err error
	for range attempts {
		var s *Server
		if s, err = try(ctx, dir, logFile); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("etcd: %w", err)
}

func try(ctx context.Context, dir, logFile string) (*Server, error) {
	cfg := embed.NewConfig()
	cfg.Name = "vifl"
	var err error
	if cfg.Dir, err = os.MkdirTemp(dir, "etcd"); err != nil {
		return nil, err
	}
	cfg.LogLevel, cfg.LogOutputs = "warn", []string{logFile}
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 50, 500 // the only member elects itself that much sooner
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
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return &Server{Address: e.Clients[0].Addr().String(), etcd: e}, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = fmt.Errorf("wait until it is ready: %w", ctx.Err())
	}
	e.Close()
	return nil, err
}

// Topo makes it the topo server of a fleet with one cell. The caller closes what it gets.
func (s *Server) Topo(ctx context.Context, root, cell string) (*topo.Server, error) {
	ts, err := topo.OpenServer("etcd2", s.Address, root)
	if err != nil {
		return nil, fmt.Errorf("topo server at %s: %w", s.Address, err)
	}
	info := &topodatapb.CellInfo{ServerAddress: s.Address, Root: "/vitess/" + cell}
	if err := ts.CreateCellInfo(ctx, cell, info); err != nil {
		ts.Close()
		return nil, fmt.Errorf("topo server at %s: make cell %s: %w", s.Address, cell, err)
	}
	return ts, nil
}

// Close stops it.
func (s *Server) Close() { s.etcd.Close() }
