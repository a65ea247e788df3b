package clone

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// keptDatabases are MySQL's own.
var keptDatabases = []string{"mysql", "sys", "information_schema", "performance_schema"}

// grantTables hold accounts and what they may do; own is the column with the user's name.
var grantTables = []struct{ table, own string }{
	{"user", "user"}, {"db", "user"}, {"tables_priv", "user"}, {"columns_priv", "user"}, {"procs_priv", "user"}, {"global_grants", "user"},
	{"proxies_priv", "user"}, {"password_history", "user"}, {"default_roles", "user"}, {"role_edges", "to_user"}, {"role_edges", "from_user"},
}

// Convert takes out of a cloned server what belongs to the donor: every account but the
// server's own, plugins, components and loadable functions (their libraries need not be
// there where the tablets run), replication, and databases other than the shard's. It leaves
// root at localhost without a password, as a new server has it. The names of what was
// dropped are returned, without the accounts.
//
// The connection must be to a server that was started with --skip-grant-tables and
// --skip-networking, and must not log to the binlog; afterwards the grants are in force.
func Convert(ctx context.Context, c *sql.Conn, database string) (dropped []string, err error) {
	run := func(q string) error {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("convert the clone: %.80s: %w", q, err)
		}
		return nil
	}
	for _, q := range []string{"SET GLOBAL super_read_only=0", "SET GLOBAL read_only=0", "SET SESSION foreign_key_checks=0"} {
		if err := run(q); err != nil {
			return nil, err
		}
	}
	databases, err := list(ctx, c, "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('"+strings.Join(keptDatabases, "','")+"') ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("convert the clone: %w", err)
	}
	found := false
	for _, d := range databases {
		if d == database {
			found = true
			continue
		}
		if err := run("DROP DATABASE " + schema.Quote(d)); err != nil {
			return nil, err
		}
		dropped = append(dropped, "database "+d)
	}
	if !found {
		return nil, fmt.Errorf("convert the clone: it has no database %q: was the right server cloned?", database)
	}
	for _, x := range []struct{ what, column, table string }{{"plugin", "name", "plugin"}, {"component", "component_urn", "component"}, {"function", "name", "func"}} {
		names, err := list(ctx, c, "SELECT "+x.column+" FROM mysql."+x.table)
		if err != nil {
			return nil, fmt.Errorf("convert the clone: %w", err)
		}
		for _, n := range names {
			dropped = append(dropped, x.what+" "+n)
		}
		if err := run("DELETE FROM mysql." + x.table); err != nil {
			return nil, err
		}
	}
	for _, g := range grantTables {
		if err := run("DELETE FROM mysql." + g.table + " WHERE " + g.own + " NOT LIKE 'mysql.%'"); err != nil {
			return nil, err
		}
	}
	for _, q := range []string{
		"FLUSH PRIVILEGES",
		"CREATE USER root@localhost",
		"GRANT ALL ON *.* TO root@localhost WITH GRANT OPTION",
		// GRANT PROXY can only be given by who has it; a new server's root has it by this row.
		"INSERT INTO mysql.proxies_priv (host, user, proxied_host, proxied_user, with_grant, grantor, timestamp) VALUES ('localhost','root','','',1,'boot@',NOW())",
		"FLUSH PRIVILEGES",
	} {
		if err := run(q); err != nil {
			return nil, err
		}
	}
	return dropped, nil
}
