package legacy

import (
	"context"
	"regexp"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Grants are the privileges of an account, as SHOW GRANTS lists them with its roles.
type Grants struct {
	// global and per database (`db`.*), by upper-case privilege.
	global   map[string]bool
	database map[string]map[string]bool
}

// Grants reads the privileges of our own account.
func (s *Server) Grants(ctx context.Context) (*Grants, error) {
	g, err := ReadGrants(ctx, s.db, "")
	if err != nil {
		return nil, s.failed("reading our own grants", err)
	}
	return g, nil
}

// GrantsOf reads the privileges of all accounts with a user name, by 'user'@'host'. None is
// an empty map. What an account has by a role is not in it. Needs SELECT on mysql.*.
func (s *Server) GrantsOf(ctx context.Context, user string) (map[string]*Grants, error) {
	accounts, err := mysqlconn.Maps(ctx, s.db, "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) AS account FROM mysql.user WHERE user = ? ORDER BY 1", user)
	if err != nil {
		return nil, s.failed("looking for accounts of "+user, err)
	}
	all := map[string]*Grants{}
	for _, row := range accounts {
		g, err := ReadGrants(ctx, s.db, row["account"])
		if err != nil {
			return nil, s.failed("reading the grants of "+row["account"], err)
		}
		all[row["account"]] = g
	}
	return all, nil
}

// Account is our own account as the server matched it, 'user'@'host'.
func (s *Server) Account(ctx context.Context) (string, error) {
	var account string
	err := s.db.QueryRowContext(ctx, "SELECT CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))").Scan(&account)
	if err != nil {
		return "", s.failed("reading our own account's name", err)
	}
	return account, nil
}

// ReadGrants reads the privileges of an account, quoted as 'user'@'host', on any server; ""
// is the account of the connection.
func ReadGrants(ctx context.Context, q mysqlconn.Queryer, account string) (*Grants, error) {
	query := "SHOW GRANTS"
	if account != "" {
		query += " FOR " + account
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	g := &Grants{global: map[string]bool{}, database: map[string]map[string]bool{}}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		g.add(line)
	}
	return g, rows.Err()
}

var grantLine = regexp.MustCompile("^GRANT (.+) ON (?:`((?:[^`]|``)+)`|(\\*))\\.\\* TO ")

func (g *Grants) add(line string) {
	m := grantLine.FindStringSubmatch(line)
	if m == nil {
		return // a role, PROXY, or a grant on one table: not what we look for
	}
	into := g.global
	if m[3] != "*" {
		// A database in a grant is a LIKE pattern: `_vifl` is written `\_vifl`.
		name := strings.ReplaceAll(strings.ReplaceAll(m[2], "``", "`"), `\`, "")
		if g.database[name] == nil {
			g.database[name] = map[string]bool{}
		}
		into = g.database[name]
	}
	for _, p := range strings.Split(m[1], ",") {
		into[strings.ToUpper(strings.TrimSpace(p))] = true
	}
}

// Global reports a privilege on *.*. SHOW GRANTS spells out what ALL means there.
func (g *Grants) Global(privilege string) bool {
	return g.global[privilege] || g.global["ALL PRIVILEGES"]
}

// On reports a privilege on a database, or on *.*.
func (g *Grants) On(database, privilege string) bool {
	if g.Global(privilege) {
		return true
	}
	d := g.database[database]
	return d[privilege] || d["ALL PRIVILEGES"]
}
