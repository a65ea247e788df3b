package binlog

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// plan is how the rows of one table are written.
type plan struct {
	table *schema.Table
	name  string
	key   []int // of the key that tells rows apart, numbers of the table's columns
	// written are the columns that values are given for: all but generated ones.
	written []int
	// unique says that another key than that one is unique.
	unique bool
	// exact says that two keys with other bytes are two keys to the server, too.
	exact bool
	auto  int // the AUTO_INCREMENT column; -1 for none

	insert, replace string
	// remove is a DELETE up to where its keys come, between are what stands between two of
	// them, behind what ends it.
	remove, between, behind string
	// names are the key's columns where each is compared by itself; nil where they are
	// compared as one.
	names []string
	wrap  [][2]string // around a key's value where it is compared
}

// fit refuses a target that has something in it that cannot be kept in step.
func (s *Stream) fit(tables *schema.Schema) error {
	if why := unfit(tables); len(why) > 0 {
		return dump.Permanent(s.errorf("found in database %q of the target: %s; expected nothing of the kind: change it on both sides and seed again, or leave the shard where it is", s.database, strings.Join(why, "; ")))
	}
	return nil
}

// unfit lists the tables that cannot be kept in step, and why.
func unfit(s *schema.Schema) []string {
	var out []string
	if len(s.Triggers) > 0 {
		out = append(out, "triggers ("+strings.Join(s.Triggers, ", ")+"): they would do again what the binlog already holds")
	}
	for _, t := range s.Tables {
		if why := misfit(t); why != "" {
			out = append(out, "table "+t.Name+": "+why)
		}
	}
	return out
}

func misfit(t *schema.Table) string {
	_, key := t.RowKey()
	if len(key) == 0 {
		return "no primary key, nor a unique one of columns that are NOT NULL, so that no row can be told from another"
	}
	if !strings.EqualFold(t.Engine, "InnoDB") {
		return "engine " + t.Engine + ", not InnoDB: what is not rolled back with the position is lost or doubled"
	}
	for _, k := range key {
		c := t.Column(k.Column)
		if c == nil || c.Generated != "" {
			return "a generated column in the primary key (or the unique one in its place), which cannot be written"
		}
	}
	for _, k := range t.ForeignKeys {
		if changesRows(k.DeleteRule) || changesRows(k.UpdateRule) {
			return "the foreign key " + k.Name + " changes rows by itself, which is in the binlog of some servers only"
		}
	}
	return ""
}

// changesRows tells the rules of foreign keys that do more than refuse.
func changesRows(rule string) bool {
	switch strings.ToUpper(rule) {
	case "NO ACTION", "RESTRICT":
		return false
	}
	return true
}

func newPlan(database string, t *schema.Table) (*plan, error) {
	if why := misfit(t); why != "" {
		return nil, fmt.Errorf("table %s: %s", t.Name, why)
	}
	p := &plan{table: t, name: schema.Quote(database) + "." + schema.Quote(t.Name), auto: -1, exact: true}
	number := map[string]int{}
	var names []string
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
	numbered := false
	index, key := t.RowKey()
	for _, k := range key {
		i := number[strings.ToLower(k.Column)]
		p.key = append(p.key, i)
		keys = append(keys, schema.Quote(k.Column))
		var wrap [2]string
		switch t.Columns[i].Type {
		case "tinyint", "smallint", "mediumint", "int", "bigint":
		case "float":
			// A FLOAT is not equal to the number that was stored in it, but to its float.
			wrap = [2]string{"CAST(", " AS FLOAT)"}
			p.exact = false
		case "enum", "set":
			numbered = true
			p.exact = false
		default:
			p.exact = false
		}
		p.wrap = append(p.wrap, wrap)
	}
	for _, ix := range t.Indexes {
		p.unique = p.unique || ix.Unique && ix.Name != index
	}
	p.insert = "INSERT INTO " + p.name + " (" + schema.QuoteAll(names) + ") VALUES "
	// Not INSERT … ON DUPLICATE KEY UPDATE: that leaves a JSON column as it is when the new
	// document is equal to the old one, as 1 is to 1.0.
	p.replace = "REPLACE" + strings.TrimPrefix(p.insert, "INSERT")
	p.remove = "DELETE FROM " + p.name + " WHERE "
	switch {
	case len(keys) == 1:
		p.remove += keys[0] + " IN ("
		p.between, p.behind = ",", ")"
	case numbered:
		// Inside a row the number of an ENUM or SET is compared as text, and equals nothing.
		p.names, p.between = keys, " OR "
	default:
		p.remove += "(" + strings.Join(keys, ",") + ") IN ("
		p.between, p.behind = ",", ")"
	}
	return p, nil
}

// split says that the table's rows may be written by several connections at a time: rows
// with other keys cannot get into each other's way.
func (p *plan) split() bool { return p.exact && !p.unique }
