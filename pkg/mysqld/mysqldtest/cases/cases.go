// Package cases holds the SQL cases: small schemas, rows and changes that tools which move
// data get wrong, each with what must come out. Packages run those that concern them.
//
// A file has a head of one-line comments (case, about, engine, expect), then sections in
// this order: schema, rows, changes, tamper, check. A statement ends with ; at the end of a
// line. Run each section on a new connection with SET NAMES utf8mb4 and the server's default
// sql_mode.
package cases

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// Case is one file.
type Case struct {
	// Name is the file's, without .sql; its first three digits are Number.
	Name   string
	Number int
	About  string
	// Engine is mysql, mariadb or both: the source's.
	Engine string
	// Expect is the file's own text: equal, refuse TEXT, differ TABLE N.
	Expect string
	// Sections are the statements, without their semicolons.
	Sections map[string][]string
}

// All are all cases, in order.
func All() ([]Case, error) {
	entries, err := files.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	var out []Case
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("sql", e.Name()))
		if err != nil {
			return nil, err
		}
		c, err := parse(strings.TrimSuffix(e.Name(), ".sql"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		out = append(out, c)
	}
	return out, nil
}

// MySQL reports a case whose source may be MySQL.
func (c *Case) MySQL() bool { return c.Engine == "mysql" || c.Engine == "both" }

// Equal reports a case at whose end both sides are the same.
func (c *Case) Equal() bool { return c.Expect == "equal" }

// Refuse is the text that the refusal must contain; ok is false when the case expects none.
func (c *Case) Refuse() (text string, ok bool) { return strings.CutPrefix(c.Expect, "refuse ") }

// Differ is the table and how many of its rows the comparison must report; ok is false when
// the case expects no difference.
func (c *Case) Differ() (table string, rows uint64, ok bool) {
	f := strings.Fields(c.Expect)
	if len(f) != 3 || f[0] != "differ" {
		return "", 0, false
	}
	rows, err := strconv.ParseUint(f[2], 10, 64)
	return f[1], rows, err == nil
}

func parse(name, text string) (Case, error) {
	c := Case{Name: name, Sections: map[string][]string{}}
	number, _, _ := strings.Cut(name, "-")
	var err error
	if c.Number, err = strconv.Atoi(number); err != nil {
		return c, err
	}
	section, statement := "", ""
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "-- section: "); ok {
			section = rest
			continue
		}
		if section == "" {
			c.head(line)
			continue
		}
		if statement += line + "\n"; strings.HasSuffix(line, ";") {
			c.Sections[section] = append(c.Sections[section], strings.TrimSuffix(strings.TrimSpace(statement), ";"))
			statement = ""
		}
	}
	_, refuse := c.Refuse()
	_, _, differ := c.Differ()
	if strings.TrimSpace(statement) != "" || len(c.Sections["schema"]) == 0 || !c.Equal() && !refuse && !differ {
		return c, fmt.Errorf("a statement without an end, no schema, or an expectation that is not known: %q", c.Expect)
	}
	return c, nil
}

func (c *Case) head(line string) {
	for prefix, into := range map[string]*string{"-- about: ": &c.About, "-- engine: ": &c.Engine, "-- expect: ": &c.Expect} {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			*into = rest
		}
	}
}
