package binlog

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// plan is how the rows of one table are written.
type plan struct {
	table *schema.Table
	name  string
	key   []int // of the primary key, numbers of the table's columns
	// written are the columns that values are given for: all but generated ones.
	written []int
	// unique says that another key than the primary one is unique.
	unique bool
	// exact says that two keys with other bytes are two keys to the server, too.
	exact bool
	auto  int // the AUTO_INCREMENT column; -1 for none

	insert, onDuplicate, remove string
	wrap                        [][2]string // around a key's value where it is compared
}

// unfit lists the tables that cannot be kept in step, and why.
func unfit(s *schema.Schema) []string {
	var out []string
	for _, t := range s.Tables {
		if why := misfit(t); why != "" {
			out = append(out, t.Name+": "+why)
		}
	}
	return out
}

func misfit(t *schema.Table) string {
	if len(t.PrimaryKey) == 0 {
		return "no primary key, so that no row can be told from another"
	}
	if !strings.EqualFold(t.Engine, "InnoDB") {
		return "engine " + t.Engine + " has no transactions"
	}
	for _, k := range t.PrimaryKey {
		c := t.Column(k.Column)
		if c == nil || c.Generated != "" {
			return "a generated column in the primary key"
		}
	}
	return ""
}

func newPlan(database string, t *schema.Table) (*plan, error) {
	if why := misfit(t); why != "" {
		return nil, fmt.Errorf("table %s: %s", t.Name, why)
	}
	p := &plan{table: t, name: schema.Quote(database) + "." + schema.Quote(t.Name), auto: -1, exact: true}
	number := map[string]int{}
	var names, assign []string
	for i, c := range t.Columns {
		number[strings.ToLower(c.Name)] = i
		if c.Generated != "" {
			continue
		}
		p.written = append(p.written, i)
		names = append(names, c.Name)
		if c.AutoIncrement {
			p.auto = i
		}
	}
	var keys []string
	isKey := map[int]bool{}
	for _, k := range t.PrimaryKey {
		i := number[strings.ToLower(k.Column)]
		p.key = append(p.key, i)
		isKey[i] = true
		keys = append(keys, schema.Quote(k.Column))
		var wrap [2]string
		switch t.Columns[i].Type {
		case "tinyint", "smallint", "mediumint", "int", "bigint":
		case "float":
			// A FLOAT is not equal to the number that was stored in it, but to its float.
			wrap = [2]string{"CAST(", " AS FLOAT)"}
			p.exact = false
		default:
			p.exact = false
		}
		p.wrap = append(p.wrap, wrap)
	}
	for _, i := range p.written {
		// Where 'A' and 'a' are one key, the row that is there may have the other spelling.
		if !isKey[i] || !p.exact {
			c := schema.Quote(t.Columns[i].Name)
			assign = append(assign, c+"=vifl_new."+c)
		}
	}
	if len(assign) == 0 {
		c := schema.Quote(t.Columns[p.key[0]].Name)
		assign = append(assign, c+"=vifl_new."+c)
	}
	for _, ix := range t.Indexes {
		p.unique = p.unique || ix.Unique
	}
	p.insert = "INSERT INTO " + p.name + " (" + schema.QuoteAll(names) + ") VALUES "
	p.onDuplicate = " AS vifl_new ON DUPLICATE KEY UPDATE " + strings.Join(assign, ",")
	p.remove = "DELETE FROM " + p.name + " WHERE "
	if len(keys) == 1 {
		p.remove += keys[0] + " IN ("
	} else {
		p.remove += "(" + strings.Join(keys, ",") + ") IN ("
	}
	return p, nil
}

// split says that the table's rows may be written by several connections at a time: rows
// with other keys cannot get into each other's way.
func (p *plan) split() bool { return p.exact && !p.unique }
