package seed

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"vitess.io/vitess/config"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
)

// open is a pool of connections as an account without a password that write no
// binlog.
func (s *scratch) open(ctx context.Context, user string) (*sql.DB, error) {
	return mysqlconn.Connect(ctx, s.target(user, ""), mysqlconn.WithParam("sql_log_bin", "0"), func(c *mysql.Config) { c.MultiStatements = true })
}

// landingGrants are what vifl may do on a landing's server: read everything, its binlog too,
// write its own database, and the shard's rows, which its own stream does; pin an instant of
// a replica, and freeze the primary for a rollback. docs/accounts.md lists them.
var landingGrants = []string{
	"GRANT SELECT, PROCESS, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW ON *.* TO %s",
	"GRANT SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.* TO %s",
	"GRANT ALL ON `_vifl`.* TO %s",
}

// makeAccounts makes Vitess' accounts, by its own script, and vifl's. The script also
// removes anonymous accounts and root over the network.
func (s *scratch) makeAccounts(ctx context.Context, admin, database string, landing mysqlconn.Account) error {
	db, err := s.open(ctx, admin)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	defer conn.Close()
	// The script has several results; the driver reads them all before it returns.
	if _, err := conn.ExecContext(ctx, config.DefaultInitDB); err != nil {
		return fmt.Errorf("%s: make Vitess' accounts: %w", s.name, err)
	}
	account := quoteText(landing.User) + "@'%'"
	statements := []string{"SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 0", "DROP USER IF EXISTS " + account, "CREATE USER " + account + " IDENTIFIED BY " + quoteText(landing.Password.Reveal())}
	for _, g := range landingGrants {
		statements = append(statements, fmt.Sprintf(g, account))
	}
	// In the name of a database in a GRANT, _ and % stand for others.
	pattern := schema.Quote(strings.NewReplacer(`\`, `\\`, "_", `\_`, "%", `\%`).Replace(database))
	statements = append(statements, "GRANT INSERT, UPDATE, DELETE, TRIGGER ON "+pattern+".* TO "+account)
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: make the account %s: %w", s.name, landing.User, err)
		}
	}
	return nil
}

// quoteText makes a string literal for any sql_mode without ANSI_QUOTES. Backslashes are
// doubled: NO_BACKSLASH_ESCAPES is never set on our connections.
func quoteText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", `\0`).Replace(s) + "'"
}
