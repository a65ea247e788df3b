package diff

import (
	"testing"

	"github.com/vifl/vifl/pkg/schema"
)

func TestWhichSideIsNewer(t *testing.T) {
	columns := func(cs ...schema.Column) *schema.Table { return &schema.Table{Name: "t", Columns: cs} }
	value := func(s string) *Value { return &Value{Text: s} }
	null := &Value{Null: true}
	updated := schema.Column{Name: "Updated_At", Type: "datetime"}
	epoch := schema.Column{Name: "date_update", Type: "bigint"}
	for name, c := range map[string]struct {
		table          *schema.Table
		a, b           *Value
		column, expect string
	}{
		"a later":                      {columns(updated), value("2024-02-01 00:00:00"), value("2024-01-31 23:59:59"), "Updated_At", "source"},
		"b later":                      {columns(updated), value("2024-02-01 00:00:00.000001"), value("2024-02-01 00:00:00.000002"), "Updated_At", "target"},
		"integers are no text":         {columns(epoch), value("999999999"), value("1000000000"), "date_update", "target"},
		"the same":                     {columns(updated), value("2024-02-01"), value("2024-02-01"), "", ""},
		"NULL does not tell":           {columns(updated), null, value("2024-02-01 00:00:00"), "", ""},
		"nor zero":                     {columns(epoch), value("0"), value("1700000000"), "", ""},
		"nor the zero date":            {columns(updated), value("0000-00-00 00:00:00"), value("2024-02-01 00:00:00"), "", ""},
		"nor a missing row":            {columns(updated), value("2024-02-01 00:00:00"), nil, "", ""},
		"a text of that name":          {columns(schema.Column{Name: "updated_at", Type: "varchar"}), value("2"), value("1"), "", ""},
		"a flag of that name":          {columns(schema.Column{Name: "updated", Type: "tinyint"}), value("2"), value("1"), "", ""},
		"a computed column":            {columns(schema.Column{Name: "updated_at", Type: "datetime", Generated: "virtual"}), value("2024-02-01 00:00:00"), value("2024-01-01 00:00:00"), "", ""},
		"when it was made":             {columns(schema.Column{Name: "created_at", Type: "datetime"}), value("2024-02-01 00:00:00"), value("2024-01-01 00:00:00"), "", ""},
		"ON UPDATE NOW, whatever name": {columns(updated, schema.Column{Name: "x", Type: "timestamp", OnUpdateNow: true}), value("2024-02-01 00:00:00"), value("2024-01-01 00:00:00"), "x", "source"},
	} {
		t.Run(name, func(t *testing.T) {
			var differ []ColumnDifference
			for i := range c.table.Columns {
				differ = append(differ, ColumnDifference{Column: c.table.Columns[i].Name, Source: c.a, Target: c.b})
			}
			if column, side := newer(c.table, differ); column != c.column || side != c.expect {
				t.Errorf("found %q by %q, expected %q by %q", side, column, c.expect, c.column)
			}
		})
	}
}
