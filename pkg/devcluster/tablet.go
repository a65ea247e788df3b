package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/shardid"
)

func (c *cluster) tabletDir(t *tablet) string {
	return filepath.Join(c.o.Data, "vt", fmt.Sprintf("vt_%010d", t.uid))
}

func (c *cluster) tabletFlags(l Landing, t *tablet, external string) []string {
	return append([]string{
		"--tablet-path", t.name(), "--tablet-hostname", "127.0.0.1",
		"--init-keyspace", l.Keyspace, "--init-shard", "0", "--init-tablet-type", "replica",
		// The landing's database keeps the legacy's name: nothing is renamed.
		"--init-db-name-override", l.Database,
		"--grpc-port", strconv.Itoa(t.ports.grpc), "--grpc-bind-address", "127.0.0.1",
		"--service-map", "grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
		"--restore-from-backup", "--compression-engine-name", "zstd",
		"--tablet-config", external,
		"--db-charset", "utf8mb4",
		"--health-check-interval", "1s", "--enable-replication-reporter", "--degraded-threshold", "5s",
		"--shutdown-grace-period", "1s",
		// The defaults (10,000 rows, 20 transactions, 30 s) are below what applications do
		// on a MySQL of their own.
		"--queryserver-config-max-result-size", "1000000",
		"--queryserver-config-transaction-cap", "300", "--queryserver-config-pool-size", "64",
		"--queryserver-config-query-timeout", "60s", "--queryserver-config-transaction-timeout", "60s",
		"--vreplication-retry-delay", "1s",
	}, c.backupFlags()...)
}

// writeTabletCnf writes the settings that landings' servers have besides Vitess' own.
func (c *cluster) writeTabletCnf() (string, error) {
	settings, err := mysqld.Settings(c.programs.mysql)
	if err != nil {
		return "", fmt.Errorf("settings of landings' servers: %w", err)
	}
	path := filepath.Join(c.o.Data, "tablet.cnf")
	settings += "\nbind-address = 127.0.0.1\nmax_connections = 500\n"
	if err := writeOnce(path, []byte(settings), 0o640); err != nil {
		return "", fmt.Errorf("settings of landings' servers: %w", err)
	}
	return path, nil
}

// writeExternal writes the tablets' configuration: how they reach both sides of the legacy
// shard. It holds a password, so only the servers' user can read it. vttablet reads it once,
// at its start. Streams read with the user filtered, the schema engine with allprivs.
func (c *cluster) writeExternal(l Landing) (string, error) {
	id, err := shardid.Parse(l.Shard)
	if err != nil {
		return "", fmt.Errorf("landing %s: %w", l.Keyspace, err)
	}
	type user struct {
		User     string `yaml:"user"`
		Password string `yaml:"password"`
	}
	connections := map[string]any{}
	for _, side := range sideNames {
		s, ok := c.side(id, side)
		if !ok {
			return "", fmt.Errorf("landing %s: the local fleet has no legacy shard %s", l.Keyspace, id)
		}
		u := user{"vifl_stream", c.secrets[secretStream].Reveal()}
		connections["legacy_"+id.String()+"_"+side] = map[string]any{
			"host": "127.0.0.1", "port": s.Port(), "flavor": "FilePos", "dbName": l.Database, "charset": "utf8mb4",
			"app": u, "dba": u, "filtered": u, "repl": u, "allprivs": u, "appdebug": u,
		}
	}
	raw, err := yaml.Marshal(map[string]any{"externalConnections": connections})
	if err != nil {
		return "", fmt.Errorf("landing %s: tablets' configuration: %w", l.Keyspace, err)
	}
	path := filepath.Join(c.o.Data, "external-"+l.Keyspace+".yaml")
	if err := writeOnce(path, raw, 0o600); err != nil {
		return "", fmt.Errorf("landing %s: tablets' configuration: %w", l.Keyspace, err)
	}
	return path, nil
}

// writeOnce writes a file so that readers see all of it or the one before.
func writeOnce(path string, content []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path))
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// mysqlPid is the process of the tablet's mysqld, 0 when it does not run.
func (c *cluster) mysqlPid(t *tablet) int {
	raw, err := os.ReadFile(filepath.Join(c.tabletDir(t), "mysql.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || !isMember(pid, []byte(markerEnv+"="+c.o.Data)) {
		return 0
	}
	return pid
}

// endMySQL kills what runs of the tablet's mysqld.
func (c *cluster) endMySQL(ctx context.Context, t *tablet) error {
	return poll(ctx, "the mysqld of "+t.name()+" is gone", func() (bool, error) {
		pid := c.mysqlPid(t)
		if pid == 0 {
			return true, nil
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
			_ = p.Release()
		}
		return false, nil
	})
}

// deprovision ends the landing's tablets and removes their data and their records. A
// landing without tablets is fine.
func (c *cluster) deprovision(ctx context.Context, l Landing) error {
	if !keyspaceName.MatchString(l.Keyspace) {
		return fmt.Errorf("landing: found keyspace %q, expected letters, digits and _ (VIFL_KEYSPACE)", l.Keyspace)
	}
	c.landings.mu.Lock()
	defer c.landings.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	for _, t := range c.tabletsOf(l.Keyspace) {
		if t.proc != nil {
			if err := t.proc.Kill(); err != nil {
				return err
			}
		}
		if err := c.endMySQL(ctx, t); err != nil {
			return err
		}
		if err := os.RemoveAll(c.tabletDir(t)); err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		if err := c.etcd.ts.DeleteTablet(ctx, t.alias()); err != nil && !topo.IsErrType(err, topo.NoNode) {
			return fmt.Errorf("%s: delete its record in the topo server: %w", t.name(), err)
		}
	}
	c.landings.list.Lock()
	kept := c.landings.tablets[:0]
	for _, t := range c.landings.tablets {
		if t.keyspace != l.Keyspace {
			kept = append(kept, t)
		}
	}
	c.landings.tablets = kept
	c.landings.list.Unlock()
	if err := os.Remove(filepath.Join(c.o.Data, "external-"+l.Keyspace+".yaml")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("landing %s: %w", l.Keyspace, err)
	}
	return c.writeState()
}
