package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
)

const (
	mysqlRoot   = "/opt/mysql" // where the images have it
	mysqlPort   = 3306
	startLimit  = 2 * time.Minute
	stopLimit   = 50 * time.Second // below the grace period that compose.yaml gives
	readyMark   = "/tmp/dock.ready"
	defaultData = "/var/lib/vifl"
)

// runTemplate initialises a data folder into the image, of which every new server is a copy:
// initialising takes seconds of a core, and a fleet has five servers.
func runTemplate(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: dock template takes no argument", errUsage)
	}
	inst, err := mysqld.Find(mysqlRoot)
	if err != nil {
		return err
	}
	_, err = mysqld.Template(ctx, inst, runas.User{})
	return err
}

// legacyServer is a server of the old world: mains, or a side of a pair.
type legacyServer struct {
	data, host, accounts, secrets, database, from string
	serverID                                      uint
	settings                                      lines
}

// runMySQL runs such a server, and gives it its accounts and its replication when it comes up
// for the first time. It ends when the server does.
func runMySQL(ctx context.Context, args []string) error {
	var l legacyServer
	f := flag.NewFlagSet("dock mysqld", flag.ContinueOnError)
	f.StringVar(&l.data, "data", defaultData, "folder of the server")
	f.StringVar(&l.host, "host", "", "the name that others know it by")
	f.UintVar(&l.serverID, "server-id", 0, "server_id")
	f.StringVar(&l.accounts, "accounts", "", "legacy or mains")
	f.StringVar(&l.secrets, "secrets", "/run/vifl", "folder of the passwords")
	f.StringVar(&l.database, "database", "", "the application's database")
	f.StringVar(&l.from, "replicate-from", "", "the other side")
	f.Var(&l.settings, "set", "a line for my.cnf, such as gtid_mode=OFF")
	if err := parse(f, args, "host", "accounts", "database"); err != nil {
		return err
	}
	if l.serverID == 0 || (l.accounts != "legacy" && l.accounts != "mains") {
		return fmt.Errorf("%w: dock mysqld: found --server-id %d --accounts %q, expected a number from 1 on, and legacy or mains", errUsage, l.serverID, l.accounts)
	}
	return l.run(ctx)
}

func (l *legacyServer) run(ctx context.Context) error {
	_ = os.Remove(readyMark)
	inst, err := mysqld.Find(mysqlRoot)
	if err != nil {
		return err
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	// A copy of the data folder that was cut short looks like a whole one: it is made beside
	// and renamed.
	if err := l.newData(startCtx, inst); err != nil {
		return fmt.Errorf("%s: %w", l.host, err)
	}
	s, err := mysqld.Start(startCtx, inst, mysqld.Options{
		Dir: l.data, Port: mysqlPort, Host: l.host, ServerID: uint32(l.serverID), Name: l.host, Extra: l.settings,
	})
	if err != nil {
		return err
	}
	err = l.setUp(startCtx, s)
	if err == nil {
		err = os.WriteFile(readyMark, []byte(s.Socket()+"\n"), 0o600)
	}
	if err != nil {
		return errors.Join(err, stopServer(s))
	}
	say("%s is up", l.host)
	select {
	case <-s.Exited():
		return fmt.Errorf("%s: the server has ended; its log is %s", l.host, s.LogFile())
	case <-ctx.Done():
		return stopServer(s)
	}
}

func stopServer(s *mysqld.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return s.Stop(ctx)
}

func (l *legacyServer) newData(ctx context.Context, inst *mysqld.Installation) error {
	data, half := filepath.Join(l.data, "data"), filepath.Join(l.data, "data.half")
	if _, err := os.Stat(data); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data folder: %w: is the volume of an older run, or of another user's?", err)
	}
	template, err := mysqld.Template(ctx, inst, runas.User{})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := mysqld.CopyTree(template, half, false); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := os.Rename(half, data); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// setUp gives a new server its accounts and its replication. A server that has them is left as
// it is: after a cutover it takes no write.
func (l *legacyServer) setUp(ctx context.Context, s *mysqld.Server) error {
	db, err := mysqlconn.Connect(ctx, s.Target(l.host))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", l.host, err)
	}
	defer func() { _ = conn.Close() }()
	if err := l.makeAccounts(ctx, conn); err != nil {
		return err
	}
	if l.from == "" {
		return nil
	}
	return l.replicate(ctx, conn)
}

// lastAccount is made last: where it is, all are.
const lastAccount = "app"

func (l *legacyServer) makeAccounts(ctx context.Context, conn *sql.Conn) error {
	var found int
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM mysql.user WHERE user = ?", lastAccount).Scan(&found); err != nil {
		return fmt.Errorf("%s: its accounts: %w", l.host, err)
	}
	if found > 0 {
		return nil
	}
	statements, err := l.accountStatements()
	if err != nil {
		return fmt.Errorf("%s: %w", l.host, err)
	}
	for i, q := range statements {
		// The statement may hold a password, so it is named by its place.
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: statement %d of its accounts: %w", l.host, i+1, err)
		}
	}
	return nil
}

// accountStatements make the accounts; docs/accounts.md says what each grant is for. They go to
// no binlog: each side has its own, and one must be there before replication can be.
func (l *legacyServer) accountStatements() ([]string, error) {
	all := []string{"SET sql_log_bin = 0"}
	var failed error
	add := func(user, secret string, grants ...string) {
		password, err := readSecret(l.secrets, secret)
		failed = errors.Join(failed, err)
		all = append(all, fmt.Sprintf("CREATE USER IF NOT EXISTS %s@'%%' IDENTIFIED BY '%s'", user, password))
		for _, g := range grants {
			all = append(all, fmt.Sprintf("GRANT %s TO %s@'%%'", g, user))
		}
	}
	own := "`" + strings.ReplaceAll(l.database, "`", "") + "`.*"
	if l.accounts == "mains" {
		add("vifl", secretMains, "SELECT, UPDATE ON "+own, "ALL ON `_vifl`.*")
		add("owner", secretOwner, "ALL ON "+own)
		add(lastAccount, secretApp, "SELECT ON "+own)
	} else {
		add("repl", secretRepl, "REPLICATION SLAVE, CONNECTION_ADMIN ON *.*")
		add("vifl", secretLegacy,
			"SELECT, RELOAD, LOCK TABLES, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER, EVENT ON *.*",
			"BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.*",
			"ALL ON `_vifl`.*", "INSERT, UPDATE, DELETE, CREATE, ALTER ON "+own)
		add("vifl_stream", secretStream, "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
		add("owner", secretOwner, "ALL ON "+own)
		add(lastAccount, secretApp, "SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON "+own)
	}
	return append(all, "SET sql_log_bin = 1"), failed
}

// replicate makes a new server follow the other side from the first event of its binlog on:
// nothing was written there before, so neither waits for the other to be up.
func (l *legacyServer) replicate(ctx context.Context, conn *sql.Conn) error {
	var found int
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM performance_schema.replication_connection_configuration WHERE host <> ''").Scan(&found); err != nil {
		return fmt.Errorf("%s: its replication: %w", l.host, err)
	}
	if found > 0 {
		return nil
	}
	password, err := readSecret(l.secrets, secretRepl)
	if err != nil {
		return fmt.Errorf("%s: %w", l.host, err)
	}
	if _, err := conn.ExecContext(ctx, `CHANGE REPLICATION SOURCE TO SOURCE_HOST = ?, SOURCE_PORT = ?, SOURCE_USER = 'repl', SOURCE_PASSWORD = ?,
		SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = 4, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400, SOURCE_HEARTBEAT_PERIOD = 1,
		GET_SOURCE_PUBLIC_KEY = 1`, l.from, mysqlPort, password); err != nil {
		return fmt.Errorf("%s: follow %s: %w", l.host, l.from, err)
	}
	if _, err := conn.ExecContext(ctx, "START REPLICA"); err != nil {
		return fmt.Errorf("%s: follow %s: %w", l.host, l.from, err)
	}
	return nil
}

// serverAnswers is the health of a legacy server: it has been set up and answers.
func serverAnswers(ctx context.Context, mark string) error {
	raw, err := os.ReadFile(mark)
	if err != nil {
		return fmt.Errorf("health: the server is not set up: %w", err)
	}
	db, err := mysqlconn.Connect(ctx, mysqlconn.Target{Name: "the server", Socket: strings.TrimSpace(string(raw)), Account: mysqlconn.Account{User: "root"}})
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	return db.Close()
}
