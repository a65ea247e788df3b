package devcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/vitess/serving"
)

// startVitess starts what a Vitess fleet has besides tablets.
func (c *cluster) startVitess(ctx context.Context) error {
	users, err := c.writeVtgateUsers()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return c.timed("vtctld", func() error {
			_, err := c.startDaemon(ctx, "vtctld", "vtctld", func(p ports) []string {
				return append([]string{
					"--cell", Cell, "--service-map", "grpc-vtctl,grpc-vtctld", "--grpc-port", fmt.Sprint(p.grpc), "--grpc-bind-address", "127.0.0.1",
				}, c.backupFlags()...)
			}, func(p ports) int { return p.grpc })
			return err
		})
	})
	g.Go(func() error {
		return c.timed("vtorc", func() error {
			_, err := c.startDaemon(ctx, "vtorc", "vtorc", func(ports) []string {
				return []string{"--cell", Cell, "--instance-poll-time", "1s", "--recovery-poll-duration", "1s", "--topo-information-refresh-duration", "15s"}
			}, func(p ports) int { return p.http })
			return err
		})
	})
	g.Go(func() error {
		return c.timed("vtgate", func() error {
			_, err := c.startDaemon(ctx, "vtgate", "vtgate", func(p ports) []string { return c.vtgateFlags(p, users) }, func(p ports) int { return p.mysql })
			if err != nil {
				return err
			}
			return c.waitVtgate(ctx)
		})
	})
	return g.Wait()
}

func (c *cluster) vtgateFlags(p ports, users string) []string {
	return append(serving.VtgateFlags(),
		"--cell", Cell, "--cells-to-watch", Cell, "--tablet-types-to-wait", "PRIMARY",
		"--service-map", "grpc-vtgateservice", "--grpc-port", fmt.Sprint(p.grpc), "--grpc-bind-address", "127.0.0.1",
		"--mysql-server-port", fmt.Sprint(p.mysql), "--mysql-server-bind-address", "127.0.0.1",
		"--mysql-auth-server-impl", "static", "--mysql-auth-server-static-file", users,
		// Landings come and go while vtgate runs.
		"--tablet-refresh-interval", "2s",
	)
}

func (c *cluster) backupFlags() []string {
	return []string{
		"--backup-storage-implementation", "file", "--file-backup-storage-root", c.backupRoot(),
	}
}

func (c *cluster) backupRoot() string { return filepath.Join(c.o.Data, "backups") }

// writeVtgateUsers writes the file of vtgate's accounts.
func (c *cluster) writeVtgateUsers() (string, error) {
	type user struct{ Password, UserData string }
	users := map[string][]user{
		"vifl": {{c.secrets[secretVtgate].Reveal(), "vifl"}},
		"app":  {{c.secrets[secretApp].Reveal(), "app"}},
	}
	raw, err := json.Marshal(users)
	if err != nil {
		return "", fmt.Errorf("vtgate: accounts: %w", err)
	}
	path := filepath.Join(c.o.Data, "vtgate-users.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return "", fmt.Errorf("vtgate: accounts: %w", err)
	}
	return path, nil
}

// waitVtgate waits until vtgate lets our account in.
func (c *cluster) waitVtgate(ctx context.Context) error {
	host, portText, err := net.SplitHostPort(c.vtgateAddress())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	db, err := mysqlconn.Open(mysqlconn.Target{Name: "vtgate", Host: host, Port: port, Account: c.account("vifl", secretVtgate)},
		// Nothing but the login: a vtgate that has never seen a keyspace can answer no
		// statement (its planner panics), and a SET it hands to a tablet, which there is none.
		func(cfg *mysql.Config) { cfg.Params, cfg.MaxAllowedPacket = nil, 1<<20 })
	if err != nil {
		return err
	}
	defer db.Close()
	var last error
	err = poll(ctx, "vtgate lets the account vifl in", func() (bool, error) {
		last = db.PingContext(ctx)
		if mysqlconn.IsAccessDenied(last) {
			return false, fmt.Errorf("vtgate: %w", last)
		}
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (last: %w)%s", err, last, c.tail("vtgate"))
	}
	return err
}

func (c *cluster) address(name string) string {
	c.started.Lock()
	defer c.started.Unlock()
	for _, d := range c.daemons {
		if d.name == name {
			return d.address
		}
	}
	return ""
}

func (c *cluster) vtgateAddress() string { return c.address("vtgate") }

func (c *cluster) vtctldAddress() string { return c.address("vtctld") }
