package devcluster

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/shardid"
)

// legacySettings are those of the fleets that vifl is for.
var legacySettings = []string{
	"gtid_mode = OFF", "enforce_gtid_consistency = OFF", "binlog_format = ROW", "binlog_row_image = FULL",
	"log_replica_updates = ON", "max_connections = 400", "auto_increment_increment = 2",
}

var sideNames = [2]string{"a", "b"}

// startLegacy starts mains and all pairs and fills them.
func (c *cluster) startLegacy(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	mainsUp := make(chan struct{})
	g.Go(func() error {
		return c.timed("mains", func() error {
			defer close(mainsUp)
			var err error
			c.mains, err = c.startMySQL(ctx, "mains", 11, []string{"gtid_mode = OFF", "enforce_gtid_consistency = OFF", "max_connections = 400"})
			if err != nil {
				return err
			}
			return execute(ctx, c.mains, "", c.mainsAccounts()...)
		})
	})
	c.legacy = make([]*legacyShard, len(shardNumbers))
	for i, id := range shardNumbers {
		g.Go(func() error {
			sh := &legacyShard{id: id}
			c.legacy[i] = sh
			if err := c.timed("legacy "+id.String()+" a, b", func() error { return c.startPair(ctx, sh, uint32(100*(i+1))) }); err != nil {
				return err
			}
			select {
			case <-mainsUp:
			case <-ctx.Done():
				return ctx.Err()
			}
			return c.timed("data of "+id.String(), func() error { return c.populate(ctx, sh) })
		})
	}
	return g.Wait()
}

func (c *cluster) startMySQL(ctx context.Context, name string, serverID uint32, extra []string) (*mysqld.Server, error) {
	return mysqld.Start(ctx, c.programs.mysql, mysqld.Options{
		Dir: filepath.Join(c.o.Data, "my", name), ServerID: serverID, Extra: extra, Name: name, Template: c.programs.template,
	})
}

// startPair starts both sides with their accounts and lets each follow the other.
func (c *cluster) startPair(ctx context.Context, sh *legacyShard, serverID uint32) error {
	g, gctx := errgroup.WithContext(ctx)
	for i, side := range sideNames {
		g.Go(func() error {
			extra := append(append([]string{}, legacySettings...), fmt.Sprintf("auto_increment_offset = %d", i+1))
			s, err := c.startMySQL(gctx, sh.id.String()+side, serverID+uint32(i)+1, extra)
			if err != nil {
				return err
			}
			sh.sides[i] = s
			return execute(gctx, s, "", c.legacyAccounts()...)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	repl := c.account("repl", secretRepl)
	if err := mysqld.Replicate(ctx, sh.sides[0], sh.sides[1], repl); err != nil {
		return err
	}
	if err := mysqld.Replicate(ctx, sh.sides[1], sh.sides[0], repl); err != nil {
		return err
	}
	return execute(ctx, sh.sides[0], "", "CREATE DATABASE `"+Database+"`")
}

// populate fills side a, tells mains, and waits until side b has it all.
func (c *cluster) populate(ctx context.Context, sh *legacyShard) error {
	a, b := sh.sides[0], sh.sides[1]
	target := a.Target(a.Name())
	target.Database = Database
	db, err := mysqlconn.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := appschema.Populate(ctx, db, appschema.FirstTeam(sh.id), c.o.Size); err != nil {
		return fmt.Errorf("%s: %w", a.Name(), err)
	}
	target = c.mains.Target("mains")
	target.Database = mainsDatabase
	mains, err := mysqlconn.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer mains.Close()
	places := make([]appschema.Place, 0, 2)
	for i, s := range sh.sides {
		places = append(places, appschema.Place{Side: sideNames[i], Host: "127.0.0.1", Port: s.Port(), Database: Database})
	}
	if err := appschema.MainsRows(ctx, mains, sh.id, appschema.Teams(sh.id, c.o.Size.Teams), places); err != nil {
		return err
	}
	// The servers do not sync every commit to disk (mysqld's own settings; preflight warns):
	// with seven of them on one small disk a pair would lag by minutes, and a killed mysqld
	// loses nothing by it, only a killed machine.
	return mysqld.CaughtUp(ctx, b, a)
}

// legacyAccounts are made on each side by itself, not through the binlog: an account must
// be there before replication can be. docs/accounts.md says what each grant is for.
func (c *cluster) legacyAccounts() []string {
	user := func(name, secret string) string {
		return fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s'", name, c.secrets[secret].Reveal())
	}
	return []string{
		"SET sql_log_bin = 0",
		user("repl", secretRepl),
		"GRANT REPLICATION SLAVE ON *.* TO repl@'%'",
		"GRANT CONNECTION_ADMIN ON *.* TO repl@'%'",
		user("vifl", secretLegacy) + " REQUIRE SSL",
		"GRANT SELECT, RELOAD, LOCK TABLES, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER, EVENT ON *.* TO vifl@'%'",
		"GRANT BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.* TO vifl@'%'",
		"GRANT ALL ON `_vifl`.* TO vifl@'%'",
		"GRANT INSERT, UPDATE, DELETE, CREATE, ALTER ON `" + Database + "`.* TO vifl@'%'",
		user("vifl_stream", secretStream),
		"GRANT SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO vifl_stream@'%'",
		user("app", secretApp),
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON `" + Database + "`.* TO app@'%'",
	}
}

const mainsDatabase = "mains"

func (c *cluster) mainsAccounts() []string {
	return []string{
		"CREATE DATABASE `" + mainsDatabase + "`",
		"USE `" + mainsDatabase + "`",
		fmt.Sprintf("CREATE USER vifl@'%%' IDENTIFIED BY '%s'", c.secrets[secretMains].Reveal()),
		fmt.Sprintf("CREATE USER app@'%%' IDENTIFIED BY '%s'", c.secrets[secretApp].Reveal()),
		"GRANT SELECT ON mains.* TO app@'%'",
		"GRANT SELECT ON mains.* TO vifl@'%'",
		"GRANT UPDATE, CREATE ON mains.shards TO vifl@'%'",
		"GRANT ALL ON `_vifl`.* TO vifl@'%'",
	}
}

// execute runs statements as root, in one session.
func execute(ctx context.Context, s *mysqld.Server, database string, statements ...string) error {
	target := s.Target(s.Name())
	target.Database = database
	db, err := mysqlconn.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer db.Close()
	return inSession(ctx, db, s.Name(), statements)
}

func inSession(ctx context.Context, db *sql.DB, name string, statements []string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer conn.Close()
	for i, q := range statements {
		// The statement itself may hold a password, so it is named by its place.
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: statement %d of its set-up: %w", name, i+1, err)
		}
	}
	return nil
}

func serverAddress(s *mysqld.Server) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port()))
}

// side finds the address of a shard's side.
func (c *cluster) side(id shardid.ID, side string) (*mysqld.Server, bool) {
	for _, sh := range c.legacy {
		for i, name := range sideNames {
			if sh.id == id && name == side {
				return sh.sides[i], true
			}
		}
	}
	return nil, false
}
