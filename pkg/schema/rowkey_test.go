package schema

import (
	"strings"
	"testing"
)

func TestRowKey(t *testing.T) {
	index := func(name string, columns ...string) Index {
		ix := Index{Name: name, Unique: true, Type: "BTREE", Visible: true}
		for _, c := range columns {
			ix.Parts = append(ix.Parts, KeyPart{Column: c})
		}
		return ix
	}
	changed := func(ix Index, change func(*Index)) Index { change(&ix); return ix }
	columns := []Column{{Name: "a"}, {Name: "b"}, {Name: "n", Nullable: true}, {Name: "g", Generated: "stored"}}
	for name, c := range map[string]struct {
		primary []KeyPart
		indexes []Index
		create  string
		expect  string
	}{
		"the primary key":              {primary: []KeyPart{{Column: "b"}}, indexes: []Index{index("u", "a")}, expect: "PRIMARY b"},
		"a unique key":                 {indexes: []Index{index("u", "a", "b")}, expect: "u a b"},
		"the first by its place":       {indexes: []Index{index("x", "a"), index("y", "b")}, create: "CREATE TABLE `t` (\n  `a` int COMMENT 'UNIQUE KEY `x` (',\n  UNIQUE KEY `y` (`b`),\n  UNIQUE KEY `x` (`a`)\n)", expect: "y b"},
		"else by its name":             {indexes: []Index{index("y", "b"), index("x", "a")}, expect: "x a"},
		"none that allows NULL":        {indexes: []Index{index("u", "a", "n")}},
		"none that is not unique":      {indexes: []Index{changed(index("u", "a"), func(ix *Index) { ix.Unique = false })}},
		"none over a prefix":           {indexes: []Index{changed(index("u", "a"), func(ix *Index) { ix.Parts[0].Prefix = 4 })}},
		"none over an expression":      {indexes: []Index{changed(index("u", "a", ""), func(ix *Index) { ix.Parts[1].Expression = "lower(`b`)" })}},
		"none that is invisible":       {indexes: []Index{changed(index("u", "a"), func(ix *Index) { ix.Visible = false })}},
		"generated only where it must": {indexes: []Index{index("g", "g"), index("u", "b")}, expect: "u b"},
		"generated":                    {indexes: []Index{index("g", "g")}, expect: "g g"},
		"none at all":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			name, parts := (&Table{Name: "t", Columns: columns, PrimaryKey: c.primary, Indexes: c.indexes, Create: c.create}).RowKey()
			got := name
			for _, p := range parts {
				got += " " + p.Column
			}
			if got = strings.TrimSpace(got); got != c.expect {
				t.Errorf("found %q, expected %q", got, c.expect)
			}
		})
	}
}
