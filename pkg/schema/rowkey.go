package schema

import (
	"cmp"
	"slices"
	"strings"
)

// RowKey is the key that tells a table's rows apart, with the name of its index: the primary
// key; without one, a unique key of nothing but whole columns that are NOT NULL. Of several
// of these it is one without generated columns, if there is one, and the first in the order
// of the table's definition, by which InnoDB stores its rows. parts is nil when there is none:
// a unique key that allows NULL holds any number of rows with it.
func (t *Table) RowKey() (index string, parts []KeyPart) {
	if len(t.PrimaryKey) > 0 {
		return "PRIMARY", t.PrimaryKey
	}
	var usable []Index
	for _, ix := range t.Indexes {
		if t.tellsRows(ix) {
			usable = append(usable, ix)
		}
	}
	if len(usable) == 0 {
		return "", nil
	}
	best := slices.MinFunc(usable, func(a, b Index) int {
		if c := cmp.Compare(t.computed(a.Parts), t.computed(b.Parts)); c != 0 {
			return c
		}
		if c := cmp.Compare(t.place(a), t.place(b)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return best.Name, best.Parts
}

// tellsRows: an index that is not visible is left out because no statement can be told to
// use it.
func (t *Table) tellsRows(ix Index) bool {
	if !ix.Unique || !ix.Visible || ix.Type != "BTREE" || len(ix.Parts) == 0 {
		return false
	}
	for _, p := range ix.Parts {
		c := t.Column(p.Column)
		if p.Column == "" || p.Prefix != 0 || c == nil || c.Nullable {
			return false
		}
	}
	return true
}

// computed counts the generated columns of a key.
func (t *Table) computed(parts []KeyPart) (n int) {
	for _, p := range parts {
		if c := t.Column(p.Column); c != nil && c.Generated != "" {
			n++
		}
	}
	return n
}

// place is where an index stands in the table's definition. Nothing else in there begins a
// line like that: line breaks in comments and defaults are escaped.
func (t *Table) place(ix Index) int {
	return strings.Index(t.Create, "\n  UNIQUE KEY "+Quote(ix.Name)+" (")
}
