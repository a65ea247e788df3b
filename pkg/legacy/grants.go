package legacy

import (
	"context"
	"regexp"
	"strings"
)

// Grants are the privileges of an account, as SHOW GRANTS lists them with its roles.
type Grants struct {
	// global and per database (`db`.*), by upper-case privilege.
	global   map[string]bool
	database map[string]map[string]bool
}

// Grants reads the privileges of our own account.
func (s *Server) Grants(ctx context.Context) (*Grants, error) {
	return s.grants(ctx, "SHOW GRANTS")
}

func (s *Server) grants(ctx context.Context, query string, args ...any) (*Grants, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.failed("reading grants", err)
	}
	defer rows.Close()
	g := &Grants{global: map[string]bool{}, database: map[string]map[string]bool{}}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, s.failed("reading grants", err)
		}
		g.add(line)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed("reading grants", err)
	}
	return g, nil
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
