package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/shardid"
)

// Landing says for which landing tablets are asked for. The values are those that vifl
// gives its provision hook.
type Landing struct {
	Keyspace string `json:"keyspace"`
	Database string `json:"database"`
	Shard    string `json:"shard"`
	// Empty asks for tablets without any data instead of a backup's, as every new shard of
	// Vitess has them: what another way of moving a shard starts from.
	Empty bool `json:"empty,omitempty"`
}

// tabletsPerLanding is the least that can fail over under semi_sync.
const tabletsPerLanding = 3

// landings are the landings that have tablets here.
type landings struct {
	mu sync.Mutex // one provision at a time

	list    sync.Mutex // guards the rest, and ports and proc of each tablet
	tablets []*tablet
	nextUID int
}

// tablet is a mysqld with its vttablet.
type tablet struct {
	keyspace string
	uid      int
	ports    ports
	proc     *child.Process // vttablet
}

func (t *tablet) name() string { return fmt.Sprintf("%s-%010d", Cell, t.uid) }

func (t *tablet) alias() *topodatapb.TabletAlias {
	return &topodatapb.TabletAlias{Cell: Cell, Uid: uint32(t.uid)}
}

var keyspaceName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

func (l Landing) validate() error {
	if !keyspaceName.MatchString(l.Keyspace) {
		return fmt.Errorf("landing: found keyspace %q, expected letters, digits and _ (VIFL_KEYSPACE)", l.Keyspace)
	}
	if l.Database == "" || strings.ContainsAny(l.Database, "`'\"/\\ \n") {
		return fmt.Errorf("landing %s: found database %q, expected a plain name (VIFL_DATABASE)", l.Keyspace, l.Database)
	}
	if _, err := shardid.Parse(l.Shard); err != nil {
		return fmt.Errorf("landing %s: %w (VIFL_SHARD)", l.Keyspace, err)
	}
	return nil
}

// provision brings up the landing's tablets, each from the backup in the fleet's storage,
// and returns when all are up as REPLICA (or more). Tablets that are up are left alone, so
// it can be run again; a tablet that died is started again, one whose restore broke off
// starts over.
func (c *cluster) provision(ctx context.Context, l Landing, say func(string)) error {
	if err := l.validate(); err != nil {
		return err
	}
	c.landings.mu.Lock()
	defer c.landings.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), provisionTimeout)
	defer cancel()
	if _, err := c.etcd.ts.GetShard(ctx, l.Keyspace, "0"); err != nil {
		return fmt.Errorf("landing %s: its shard 0 is not in the topo server: %w: vifl seed makes it", l.Keyspace, err)
	}
	manifests, err := filepath.Glob(filepath.Join(c.backupRoot(), l.Keyspace, "0", "*", "MANIFEST"))
	if !l.Empty && (err != nil || len(manifests) == 0) {
		return fmt.Errorf("landing %s: no complete backup below %s, tablets would start empty: seed first", l.Keyspace, filepath.Join(c.backupRoot(), l.Keyspace, "0"))
	}
	external, err := c.writeExternal(l)
	if err != nil {
		return err
	}
	tablets := c.tabletsOf(l.Keyspace)
	c.landings.list.Lock()
	for len(tablets) < tabletsPerLanding {
		if c.landings.nextUID == 0 {
			c.landings.nextUID = 101
		}
		t := &tablet{keyspace: l.Keyspace, uid: c.landings.nextUID}
		c.landings.nextUID++
		c.landings.tablets = append(c.landings.tablets, t)
		tablets = append(tablets, t)
	}
	c.landings.list.Unlock()
	g, gctx := errgroup.WithContext(ctx)
	for _, t := range tablets {
		g.Go(func() error {
			begin := time.Now()
			how, err := c.startTablet(gctx, l, t, external)
			if err != nil {
				return fmt.Errorf("landing %s: %w", l.Keyspace, err)
			}
			say(fmt.Sprintf("  %-22s %s %5.1f s", t.name(), how, time.Since(begin).Seconds()))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.writeState()
}

const provisionTimeout = 20 * time.Minute

func (c *cluster) tabletsOf(keyspace string) []*tablet {
	c.landings.list.Lock()
	defer c.landings.list.Unlock()
	var found []*tablet
	for _, t := range c.landings.tablets {
		if t.keyspace == keyspace {
			found = append(found, t)
		}
	}
	return found
}

// startTablet brings one tablet up, if it is not, and waits until it serves.
func (c *cluster) startTablet(ctx context.Context, l Landing, t *tablet, external string) (how string, err error) {
	if t.proc != nil && t.proc.Running() {
		return "is up", c.waitTablet(ctx, t)
	}
	dir := c.tabletDir(t)
	_, restoring := os.Stat(filepath.Join(dir, restoreState))
	if _, err := os.Stat(filepath.Join(dir, "my.cnf")); err == nil && errors.Is(restoring, os.ErrNotExist) {
		return "again up", c.restartTablet(ctx, l, t, external)
	}
	for attempt := 1; ; attempt++ {
		err := c.newTablet(ctx, l, t, external)
		if err == nil && l.Empty {
			return "empty", nil
		}
		if err == nil {
			return "restored", nil
		}
		if attempt == portAttempts || ctx.Err() != nil || !c.portTaken(t, err) {
			return "", err
		}
	}
}

// restoreState is the file by which vttablet knows that a data folder is an unfinished
// restore's; without it, it would refuse to restore into the folders that init_config made.
const restoreState = "restore_in_progress"

// newTablet makes the folders and settings, no data: the restore brings that, and building
// a data folder only to throw it away would double the time. Only an empty tablet gets a
// data folder, and its server, before it starts.
func (c *cluster) newTablet(ctx context.Context, l Landing, t *tablet, external string) error {
	dir := c.tabletDir(t)
	if err := c.endMySQL(ctx, t); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("%s: %w", t.name(), err)
	}
	p, err := newPorts()
	if err != nil {
		return fmt.Errorf("%s: %w", t.name(), err)
	}
	c.landings.list.Lock()
	t.ports = p
	c.landings.list.Unlock()
	if l.Empty {
		if err := c.mysqlctl(ctx, t, "init"); err != nil {
			return err
		}
		return c.runTablet(ctx, l, t, external)
	}
	if err := c.mysqlctl(ctx, t, "init_config"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, restoreState), nil, 0o640); err != nil {
		return fmt.Errorf("%s: %w", t.name(), err)
	}
	return c.runTablet(ctx, l, t, external)
}

// restartTablet starts a tablet again that has its data.
func (c *cluster) restartTablet(ctx context.Context, l Landing, t *tablet, external string) error {
	if c.mysqlPid(t) == 0 {
		// mysqlctl takes a killed server that nobody has waited for yet for a running one.
		if err := os.Remove(filepath.Join(c.tabletDir(t), "mysql.sock.lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		if err := c.mysqlctl(ctx, t, "start"); err != nil {
			return err
		}
	}
	return c.runTablet(ctx, l, t, external)
}

func (c *cluster) runTablet(ctx context.Context, l Landing, t *tablet, external string) error {
	d := &daemon{name: t.name()}
	if err := c.runDaemon(ctx, d, "vttablet", t.ports, c.tabletFlags(l, t, external)); err != nil {
		return err
	}
	c.landings.list.Lock()
	t.proc = d.proc
	c.landings.list.Unlock()
	return c.waitTablet(ctx, t)
}

// waitTablet waits until the tablet says in the topo server that it is a replica or the
// primary; during a restore it says RESTORE.
func (c *cluster) waitTablet(ctx context.Context, t *tablet) error {
	err := poll(ctx, t.name()+" has restored the backup and is a REPLICA", func() (bool, error) {
		if !t.proc.Running() {
			return false, t.proc.ExitError()
		}
		info, err := c.etcd.ts.GetTablet(ctx, t.alias())
		if err != nil {
			if topo.IsErrType(err, topo.NoNode) || ctx.Err() != nil {
				return false, nil
			}
			return false, fmt.Errorf("%s: %w", t.name(), err)
		}
		// Its record gets the port of its mysqld a little later: until then nobody can
		// connect to it.
		up := info.Type == topodatapb.TabletType_REPLICA || info.Type == topodatapb.TabletType_PRIMARY
		return up && info.MysqlPort > 0, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w%s", err, c.tail(t.name()))
	}
	return err
}

func (c *cluster) portTaken(t *tablet, err error) bool {
	if strings.Contains(err.Error(), "address already in use") {
		return true
	}
	raw, readErr := os.ReadFile(filepath.Join(c.tabletDir(t), "error.log"))
	return readErr == nil && strings.Contains(string(raw), "Bind on TCP/IP port")
}

// mysqlctl runs Vitess' mysqlctl for a tablet.
func (c *cluster) mysqlctl(ctx context.Context, t *tablet, verb string) error {
	extra, err := c.writeTabletCnf()
	if err != nil {
		return err
	}
	name := t.name() + "-mysqlctl"
	cmd, out, err := c.command("mysqlctl", name, "--tablet-uid", strconv.Itoa(t.uid), "--mysql-port", strconv.Itoa(t.ports.mysql), "--log-format", "text", verb)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Env = append(cmd.Env, "EXTRA_MY_CNF="+extra)
	p, err := child.Start(name, cmd, c.logFile(name))
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("%s: mysqlctl %s: %w%s", t.name(), verb, ctx.Err(), c.tail(name))
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: mysqlctl %s: %w", t.name(), verb, p.ExitError())
	}
	return nil
}
