package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqld"
)

const (
	tabletHTTP = 15100
	tabletGRPC = 16100
)

// What a tablet is doing, for its health check.
const (
	stateWaiting = "waiting for a seed"
	stateRunning = "running"
	stateEnding  = "ending"
)

// errReseeded says that the backup whose data a tablet has is gone: the landing was given up, or
// was seeded again.
var errReseeded = errors.New("the backup that its data came from is gone")

// tablet is a mysqld with its vttablet, in one container: vttablet starts the mysqld, restores
// the seed into it, and only a mysqld on the same machine can be restored.
type tablet struct {
	cell, host, keyspace, database, topo, data, backups, secrets string
	uid                                                          uint
	extra                                                        []string
}

// runTablet waits until the landing's seed is in the backup storage, has it restored, and runs the tablet.
// It must not start vttablet earlier: that would make the keyspace itself, open, and vifl seed
// would take it for somebody else's. When the seed's backup goes (an abort, another seed), the
// tablet ends, its data is removed, and it waits again.
func runTablet(ctx context.Context, args []string) error {
	var t tablet
	f := flag.NewFlagSet("dock tablet", flag.ContinueOnError)
	f.StringVar(&t.cell, "cell", "", "the tablet's cell")
	f.UintVar(&t.uid, "uid", 0, "its number, one in the fleet")
	f.StringVar(&t.host, "host", "", "the name that others know it by")
	f.StringVar(&t.keyspace, "keyspace", "", "the landing")
	f.StringVar(&t.database, "database", "", "the legacy shard's database")
	f.StringVar(&t.topo, "topo", "", "etcd, host:port")
	f.StringVar(&t.data, "data", defaultData, "VTDATAROOT")
	f.StringVar(&t.backups, "backups", "/backups", "the backup storage")
	f.StringVar(&t.secrets, "secrets", "/run/vifl", "folder of the external connections")
	if err := parse(f, args, "cell", "host", "keyspace", "database", "topo"); err != nil {
		return err
	}
	if t.uid == 0 {
		return fmt.Errorf("%w: dock tablet: --uid is missing", errUsage)
	}
	t.extra = f.Args()
	for {
		err := t.life(ctx)
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
			return nil
		case errors.Is(err, errReseeded):
			say("%s: %v: its data is removed", t.name(), err)
			if err := os.RemoveAll(t.dir()); err != nil {
				return fmt.Errorf("%s: %w", t.name(), err)
			}
		case err != nil:
			return fmt.Errorf("%s: %w", t.name(), err)
		}
	}
}

func (t *tablet) name() string { return fmt.Sprintf("%s-%010d", t.cell, t.uid) }

func (t *tablet) dir() string { return filepath.Join(t.data, fmt.Sprintf("vt_%010d", t.uid)) }

// seedOf is the file that names the backup which the data came from.
func (t *tablet) seedOf() string { return filepath.Join(t.dir(), "dock.seed") }

func statePath(data string) string { return filepath.Join(data, "dock.state") }

func (t *tablet) state(s string) {
	if err := os.WriteFile(statePath(t.data), []byte(s+"\n"), 0o600); err != nil {
		say("%s: its state: %v", t.name(), err)
	}
}

// life is one from the seed to the end of the tablet.
func (t *tablet) life(ctx context.Context) error {
	seed, err := t.restoredFrom()
	if err != nil {
		return err
	}
	if seed != "" && !t.complete(seed) {
		return errReseeded
	}
	if seed == "" {
		if seed, err = t.waitForSeed(ctx); err != nil {
			return err
		}
		if err := t.prepare(ctx, seed); err != nil {
			return err
		}
	} else if err := t.startMySQL(ctx); err != nil {
		return err
	}
	t.state(stateRunning)
	err = t.vttablet(ctx, seed)
	t.state(stateEnding)
	return errors.Join(err, t.stopMySQL())
}

// restoredFrom is the backup of the data that is there; empty when there is none, or less than
// a whole one.
func (t *tablet) restoredFrom() (string, error) {
	// vttablet removes this file when a restore is complete.
	if _, err := os.Stat(filepath.Join(t.dir(), restoreState)); err == nil {
		return "", nil
	}
	raw, err := os.ReadFile(t.seedOf())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("its data: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// complete says whether a backup is whole: its MANIFEST is written last. A storage that does not
// answer is no reason to throw data away.
func (t *tablet) complete(seed string) bool {
	_, err := os.Stat(filepath.Join(t.backups, t.keyspace, "0", seed, "MANIFEST"))
	return !errors.Is(err, os.ErrNotExist)
}

func (t *tablet) waitForSeed(ctx context.Context) (string, error) {
	t.state(stateWaiting)
	say("%s waits for a seed of %s in %s", t.name(), t.keyspace, t.backups)
	for {
		found, err := filepath.Glob(filepath.Join(t.backups, t.keyspace, "0", "*", "MANIFEST"))
		if err != nil {
			return "", fmt.Errorf("backup storage: %w", err)
		}
		if len(found) > 0 {
			// Their names begin with the time, and Glob sorts: vttablet takes the last too.
			return filepath.Base(filepath.Dir(found[len(found)-1])), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// restoreState is the file by which vttablet knows that a data folder is an unfinished
// restore's; without it, it would refuse to restore into the folders that init_config made.
const restoreState = "restore_in_progress"

// prepare makes the folders and settings, no data: the restore brings that.
func (t *tablet) prepare(ctx context.Context, seed string) error {
	say("%s restores %s", t.name(), seed)
	if err := os.RemoveAll(t.dir()); err != nil {
		return err
	}
	if err := t.mysqlctl(ctx, "init_config"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.dir(), restoreState), nil, 0o640); err != nil {
		return err
	}
	return writeFile(t.seedOf(), []byte(seed+"\n"))
}

func (t *tablet) startMySQL(ctx context.Context) error {
	// A container that was killed leaves them; the numbers in them are another process' by now.
	for _, left := range []string{"mysql.sock.lock", "mysql.sock", "mysql.pid"} {
		if err := os.Remove(filepath.Join(t.dir(), left)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return t.mysqlctl(ctx, "start")
}

// mysqlctl runs Vitess' mysqlctl for the tablet's server.
func (t *tablet) mysqlctl(ctx context.Context, verb string) error {
	inst, err := mysqld.Find(mysqlRoot)
	if err != nil {
		return err
	}
	settings, err := mysqld.Settings(inst)
	if err != nil {
		return err
	}
	extra := filepath.Join(t.data, "tablet.cnf")
	if err := writeFile(extra, []byte(settings+"\nmax_connections = 500\n")); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mysqlctl", "--tablet-uid", strconv.Itoa(int(t.uid)), "--mysql-port", strconv.Itoa(mysqlPort), "--log-format", "text", verb)
	cmd.Env = append(os.Environ(), "VTDATAROOT="+t.data, "VT_MYSQL_ROOT="+mysqlRoot, "EXTRA_MY_CNF="+extra)
	log, err := os.CreateTemp(t.data, "mysqlctl-*.log")
	if err != nil {
		return err
	}
	defer func() {
		_ = log.Close()
		_ = os.Remove(log.Name())
	}()
	// Not a pipe: the server that mysqlctl leaves behind would hold it open.
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mysqlctl %s: %w%s", verb, err, child.Tail(log.Name()))
	}
	return nil
}

func (t *tablet) flags() []string {
	return append([]string{
		"--port", strconv.Itoa(tabletHTTP), "--grpc-port", strconv.Itoa(tabletGRPC), "--log-format", "text",
		"--service-map", "grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
		"--topo-implementation", "etcd2", "--topo-global-server-address", t.topo, "--topo-global-root", topoRoot,
		"--tablet-path", t.name(), "--tablet-hostname", t.host,
		"--init-keyspace", t.keyspace, "--init-shard", "0", "--init-tablet-type", "replica",
		// The landing's database keeps the legacy's name: nothing is renamed.
		"--init-db-name-override", t.database,
		"--restore-from-backup", "--compression-engine-name", "zstd",
		"--backup-storage-implementation", "file", "--file-backup-storage-root", t.backups,
		"--tablet-config", filepath.Join(t.secrets, externalName(t.keyspace)),
		"--db-charset", "utf8mb4",
		"--health-check-interval", "1s", "--enable-replication-reporter", "--degraded-threshold", "5s",
		"--shutdown-grace-period", "1s", "--vreplication-retry-delay", "1s",
		// The defaults (10,000 rows, 20 transactions, 30 s) are below what applications do on a
		// MySQL of their own.
		"--queryserver-config-max-result-size", "1000000",
		"--queryserver-config-transaction-cap", "300", "--queryserver-config-pool-size", "64",
		"--queryserver-config-query-timeout", "60s", "--queryserver-config-transaction-timeout", "60s",
	}, t.extra...)
}

// vttablet runs it until it ends, we are told to, or its seed is gone.
func (t *tablet) vttablet(ctx context.Context, seed string) error {
	cmd := exec.Command("vttablet", t.flags()...)
	cmd.Env = append(os.Environ(), "VTDATAROOT="+t.data, "VT_MYSQL_ROOT="+mysqlRoot, "EXTRA_MY_CNF="+filepath.Join(t.data, "tablet.cnf"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	p, err := child.Start("vttablet", cmd, "")
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.Exited():
			return p.ExitError()
		case <-ctx.Done():
			return t.end(p)
		case <-tick.C:
			if !t.complete(seed) {
				return errors.Join(t.end(p), errReseeded)
			}
		}
	}
}

// end lets vttablet leave the topo server in order.
func (t *tablet) end(p *child.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit/2)
	defer cancel()
	return p.Stop(ctx)
}

// stopMySQL ends the tablet's server in order: killed, it would have to recover at its next start.
func (t *tablet) stopMySQL() error {
	raw, err := os.ReadFile(filepath.Join(t.dir(), "mysql.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return fmt.Errorf("its server's pid file: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("end its server: %w", err)
	}
	for end := time.Now().Add(stopLimit / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return nil
		}
	}
	return fmt.Errorf("its server, process %d, has not ended within %s", pid, stopLimit/2)
}
