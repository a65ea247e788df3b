package vitesstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.yaml.in/yaml/v3"

	vtconfig "vitess.io/vitess/config"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/vitess"
)

// Tablet is the only tablet of a landing or of another shard, its primary.
type Tablet struct {
	// Landing is the landing that the tablet is of; nil for AddKeyspace's.
	Landing *vitess.Landing
	// MySQL is its server; its root may do everything.
	MySQL *mysqld.Server
	Alias string

	f        *Fleet
	uid      int
	keyspace string
	shard    string
	database string
	external string
	process  *child.Process
}

// AddLanding makes a landing (durability none) with one tablet whose database has the given
// name, and elects it. external are the connections that its tablet knows by name.
func (f *Fleet) AddLanding(ctx context.Context, keyspace, database string, external map[string]mysqlconn.Target) (*Tablet, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := f.newTablet(keyspace, "0", database)
	t.Landing = f.Landing(keyspace)
	if err := t.Landing.Create(ctx, "none"); err != nil {
		return nil, err
	}
	if err := t.start(ctx, external); err != nil {
		return nil, err
	}
	var err error
	for {
		if err = t.Landing.Elect(ctx, t.Alias); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	return t, t.ready(ctx)
}

// newTablet is a tablet that Stop ends, once it runs.
func (f *Fleet) newTablet(keyspace, shard, database string) *Tablet {
	f.adding.Lock()
	defer f.adding.Unlock()
	t := &Tablet{f: f, uid: 101 + len(f.landings), keyspace: keyspace, shard: shard, database: database}
	t.Alias = fmt.Sprintf("%s-%010d", Cell, t.uid)
	f.landings = append(f.landings, t)
	return t
}

// start starts the tablet's server and vttablet.
func (t *Tablet) start(ctx context.Context, external map[string]mysqlconn.Target) (err error) {
	t.MySQL, err = t.f.MySQL(ctx, fmt.Sprintf("vt_%010d", t.uid), "gtid_mode=ON", "enforce_gtid_consistency=ON", "binlog_format=ROW",
		"log_replica_updates=ON", "super_read_only=OFF", fmt.Sprintf("server_id=%d", t.uid))
	if err != nil {
		return err
	}
	if err := t.accounts(ctx); err != nil {
		return err
	}
	if err := t.writeExternal(external); err != nil {
		return err
	}
	return t.run(ctx)
}

// accounts runs what Vitess itself initialises a tablet's server with.
func (t *Tablet) accounts(ctx context.Context) error {
	db, err := mysqlconn.Connect(ctx, t.MySQL.Target(t.Alias), func(c *mysql.Config) { c.MultiStatements = true })
	if err != nil {
		return err
	}
	defer db.Close()
	script := strings.ReplaceAll(vtconfig.DefaultInitDB, "'ON'), 'ON')", "'ON'), 'OFF')")
	if _, err := db.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("%s: Vitess' accounts: %w", t.Alias, err)
	}
	for _, q := range []string{"set global super_read_only=off", "set global read_only=off", "set sql_log_bin=0; create database if not exists `" + t.database + "`"} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", t.Alias, err)
		}
	}
	return nil
}

func (t *Tablet) writeExternal(external map[string]mysqlconn.Target) error {
	connections := map[string]any{}
	for name, target := range external {
		user := map[string]string{"user": target.User, "password": target.Password.Reveal()}
		connections[name] = map[string]any{
			"host": target.Host, "port": target.Port, "flavor": "FilePos", "dbName": t.database, "charset": "utf8mb4",
			"app": user, "dba": user, "filtered": user, "repl": user, "allprivs": user, "appdebug": user,
		}
	}
	raw, err := yaml.Marshal(map[string]any{"externalConnections": connections})
	if err != nil {
		return err
	}
	t.external = filepath.Join(t.f.dir, t.Alias+".yaml")
	return errors.Join(os.WriteFile(t.external, raw, 0o600), t.f.user.Chown(t.external))
}

// run starts the vttablet beside the server, which it does not manage.
func (t *Tablet) run(ctx context.Context) error {
	dir := filepath.Dir(t.MySQL.DataDir())
	cnf := filepath.Join(dir, "tablet.cnf")
	settings := fmt.Sprintf("server-id = %d\nport = %d\nsocket = %s\ndatadir = %s\nlog-error = %s\nlog-bin = %s\ntmpdir = %s\npid-file = %s\n",
		t.uid, t.MySQL.Port(), t.MySQL.Socket(), t.MySQL.DataDir(), t.MySQL.LogFile(), filepath.Join(t.MySQL.DataDir(), "binlog"), filepath.Join(dir, "tmp"), filepath.Join(dir, "mysqld.pid"))
	if err := errors.Join(os.WriteFile(cnf, []byte(settings), 0o640), t.f.user.Chown(cnf)); err != nil {
		return err
	}
	var err error
	t.process, err = t.f.daemon(ctx, "vttablet", t.Alias, func() ([]string, error) {
		grpc, err := mysqld.FreePort()
		return []string{
			"--tablet-path", t.Alias, "--tablet-hostname", "127.0.0.1", "--init-keyspace", t.keyspace, "--init-shard", t.shard,
			"--init-tablet-type", "replica", "--init-db-name-override", t.database, "--mycnf-file", cnf,
			"--grpc-port", fmt.Sprint(grpc), "--grpc-bind-address", "127.0.0.1",
			"--service-map", "grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
			"--tablet-config", t.external, "--db-charset", "utf8mb4", "--health-check-interval", "1s",
			"--shutdown-grace-period", "1s", "--vreplication-retry-delay", "1s",
		}, err
	})
	return err
}

// ready waits until the primary takes orders for streams.
func (t *Tablet) ready(ctx context.Context) error {
	for {
		_, err := t.Landing.VReplicationExec(ctx, "select id from _vt.vreplication")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Restart kills the vttablet, as a power cut would, and starts it again. A landing's takes orders
// for streams when it returns; another shard's is up, and may not serve yet.
func (t *Tablet) Restart(ctx context.Context) error {
	if err := t.process.Kill(); err != nil {
		return err
	}
	if err := t.run(ctx); err != nil || t.Landing == nil {
		return err
	}
	return t.ready(ctx)
}

// Pid is the vttablet's process, which another one follows after a Restart.
func (t *Tablet) Pid() int { return t.process.Pid() }

// Kill kills the vttablet, and leaves its server.
func (t *Tablet) Kill() error { return t.process.Kill() }

// Stall stops the vttablet without ending it: its connections stay open and say nothing more, as
// those of a host whose disk hangs. Resume lets it go on.
func (t *Tablet) Stall() error { return syscall.Kill(t.process.Pid(), syscall.SIGSTOP) }

// Resume lets a stalled vttablet go on.
func (t *Tablet) Resume() error { return syscall.Kill(t.process.Pid(), syscall.SIGCONT) }

// Log is the end of the vttablet's log.
func (t *Tablet) Log() string { return child.Tail(filepath.Join(t.f.dir, t.Alias+".log")) }

func (t *Tablet) kill() error {
	var errs []error
	if t.process != nil {
		errs = append(errs, t.process.Kill())
	}
	if t.MySQL != nil {
		errs = append(errs, t.MySQL.Kill())
	}
	return errors.Join(errs...)
}
