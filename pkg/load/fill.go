package load

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
)

// FillOptions says what new legacy shards are filled with.
type FillOptions struct {
	// Config names mains and the shards. What mains.data_teams finds on side a is what mains
	// is told.
	Config *config.Config
	// Owner may make databases, tables and rows on side a of every shard and on mains.
	Owner mysqlconn.Account
	// Size of the application's own data; not used with Schema.
	Size appschema.Size
	// Schema is an SQL script of another application's tables, and rows if it has any, run on
	// side a instead: statements that end with ";" at a line's end, no DELIMITER.
	Schema string
	// Wait is how long the servers may take to let Owner in: they may be coming up.
	Wait time.Duration
	// Say is called with a line for each shard.
	Say func(string)
}

// Fill makes the tables and the data of every shard of the configuration that mains does not
// know yet, on its side a, and then tells mains where the shard is served. A shard that mains
// knows is left alone: it may have been moved since. Mains is told last, so a fill that was cut
// short is noticed: the error says to empty the servers.
func Fill(ctx context.Context, o FillOptions) error {
	target, err := o.Config.MainsTarget()
	if err != nil {
		return err
	}
	target.Account, target.Database = o.Owner, ""
	mains, err := openDatabase(ctx, o, target, o.Config.Mains.Database)
	if err != nil {
		return err
	}
	defer func() { _ = mains.Close() }()
	if err := appschema.CreateMains(ctx, mains); err != nil {
		return err
	}
	for _, s := range o.Config.Shards {
		known, err := readPlaces(ctx, mains, s.Number.ID)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			o.Say(fmt.Sprintf("%s: mains knows it, nothing to do", s.Number))
			continue
		}
		if err := fillShard(ctx, o, s, mains); err != nil {
			return fmt.Errorf("fill %s: %w", s.Number, err)
		}
	}
	return nil
}

func fillShard(ctx context.Context, o FillOptions, s config.Shard, mains *sql.DB) error {
	target, err := o.Config.SideTarget(s, config.SideA)
	if err != nil {
		return err
	}
	target.Account, target.Database = o.Owner, ""
	db, err := openDatabase(ctx, o, target, s.Database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ?", s.Database).Scan(&tables); err != nil {
		return fmt.Errorf("%s: %w", target.Name, err)
	}
	if tables > 0 {
		return fmt.Errorf("%s: found %d tables in %s, and mains without the shard, expected an empty database: an earlier fill was cut short, or the server is somebody's: empty it", target, tables, s.Database)
	}
	if o.Schema != "" {
		err = appschema.Script(ctx, db, o.Schema)
	} else {
		err = appschema.Populate(ctx, db, appschema.FirstTeam(s.Number.ID), o.Size)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", target.Name, err)
	}
	teams, err := readIDs(ctx, db, o.Config.Mains.DataTeams)
	if err != nil {
		return fmt.Errorf("%s: mains.data_teams: %w", target.Name, err)
	}
	var places []appschema.Place
	for _, side := range []string{config.SideA, config.SideB} {
		address, ok := s.Sides[side]
		if !ok {
			continue
		}
		host, port, err := config.SplitAddress(address)
		if err != nil {
			return err
		}
		places = append(places, appschema.Place{Side: side, Host: host, Port: port, Database: s.Database})
	}
	if err := appschema.MainsRows(ctx, mains, s.Number.ID, teams, places); err != nil {
		return err
	}
	o.Say(fmt.Sprintf("%s: %d teams", s.Number, len(teams)))
	return nil
}

// openDatabase connects, and makes the database when it is missing.
func openDatabase(ctx context.Context, o FillOptions, t mysqlconn.Target, database string) (*sql.DB, error) {
	db, err := connectWithin(ctx, o, t)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `"+database+"`")
	_ = db.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: make database %s: %w", t, database, err)
	}
	t.Database = database
	return mysqlconn.Connect(ctx, t)
}

// connectWithin connects as soon as the server lets us in. Any error may pass, that of a name
// without an address and of an account without a password too: a server in a container gets its
// name, its port and its accounts one after the other.
func connectWithin(ctx context.Context, o FillOptions, t mysqlconn.Target) (*sql.DB, error) {
	end := time.Now().Add(o.Wait)
	said := time.Now()
	for {
		db, err := mysqlconn.Connect(ctx, t)
		if err == nil {
			return db, nil
		}
		if ctx.Err() != nil || !time.Now().Before(end) {
			return nil, fmt.Errorf("not let in within %s: %w", o.Wait, err)
		}
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			o.Say(fmt.Sprintf("waiting for %s: %v", t, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func readIDs(ctx context.Context, db *sql.DB, query string) ([]int64, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}
