package copy

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// definition is a CREATE TABLE taken apart: head up to the opening parenthesis, the items
// between, and the tail from the closing one on. Joined again it is the same text.
type definition struct {
	head  string
	items []string
	tail  string
}

// parseCreate takes SHOW CREATE TABLE's text apart. Lines will not do: a column may be named
// "a\n  KEY `b`", and names and comments may hold commas and parentheses.
func parseCreate(text string) (*definition, error) {
	depth, start := 0, 0
	d := &definition{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '`', '\'', '"':
			end := closing(text, i)
			if end < 0 {
				return nil, fmt.Errorf("unbalanced %c", c)
			}
			i = end
		case '(':
			if depth++; depth == 1 {
				d.head, start = text[:i+1], i+1
			}
		case ',':
			if depth == 1 {
				d.items = append(d.items, text[start:i])
				start = i + 1
			}
		case ')':
			if depth--; depth == 0 {
				d.items = append(d.items, text[start:i])
				d.tail = text[i:]
				return d, nil
			}
		}
	}
	return nil, fmt.Errorf("no closing parenthesis")
}

// closing finds the end of the quoted text that begins at i: doubled quotes stay inside,
// and a backslash escapes in '…' and "…" but not in a name.
func closing(text string, i int) int {
	q := text[i]
	for j := i + 1; j < len(text); j++ {
		switch {
		case text[j] == '\\' && q != '`':
			j++
		case text[j] == q:
			if j+1 < len(text) && text[j+1] == q {
				j++
				continue
			}
			return j
		}
	}
	return -1
}

func (d *definition) String() string { return d.head + strings.Join(d.items, ",") + d.tail }

func isSecondaryIndex(item string) bool {
	item = strings.TrimSpace(item)
	return strings.HasPrefix(item, "KEY ") || strings.HasPrefix(item, "UNIQUE KEY ")
}

// split gives the statement that makes the table and, when the secondary indexes are better
// built after the rows are in, the statement that adds them. All of them are deferred or
// none: the server keeps the order in which they come, and a table whose indexes are in
// another order than the source's would not be the same table.
//
// They stay where they are when one of them decides how rows are stored or numbered:
// FULLTEXT and functional indexes add hidden columns (adding them later copies the table),
// SPATIAL ones need their column's SRID checked row by row, and an AUTO_INCREMENT column
// must be in an index from the start.
func split(t *schema.Table) (create, addIndexes string, err error) {
	d, err := parseCreate(t.Create)
	if err != nil {
		return "", "", fmt.Errorf("table %q: its definition cannot be read: %w", t.Name, err)
	}
	if len(t.Indexes) == 0 || len(t.ForeignKeys) > 0 || !deferrable(t) {
		return t.Create, "", nil
	}
	var keep, add []string
	for _, item := range d.items {
		if isSecondaryIndex(item) {
			add = append(add, "ADD "+strings.TrimSpace(item))
		} else {
			keep = append(keep, item)
		}
	}
	if len(add) != len(t.Indexes) {
		return "", "", fmt.Errorf("table %q: found %d indexes in its definition, expected %d", t.Name, len(add), len(t.Indexes))
	}
	// The last item carries the line break before the parenthesis; it may have been an index.
	keep[len(keep)-1] = strings.TrimRight(keep[len(keep)-1], "\n") + "\n"
	d.items = keep
	return d.String(), "ALTER TABLE " + schema.Quote(t.Name) + " " + strings.Join(add, ", "), nil
}

func deferrable(t *schema.Table) bool {
	for _, ix := range t.Indexes {
		if ix.Type != "BTREE" {
			return false
		}
		for _, p := range ix.Parts {
			if p.Expression != "" {
				return false
			}
			// An index on a virtual column is built in place, but only alone.
			if c := t.Column(p.Column); c != nil && c.Generated == "virtual" {
				return false
			}
		}
	}
	for _, c := range t.Columns {
		if c.AutoIncrement && (len(t.PrimaryKey) == 0 || !strings.EqualFold(t.PrimaryKey[0].Column, c.Name)) {
			return false
		}
	}
	return len(t.PrimaryKey) > 0
}
