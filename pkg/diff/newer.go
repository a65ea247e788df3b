package diff

import (
	"math/big"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// writtenNames are names, in lower case and without underscores, that applications give to
// the column in which they keep when a row was last written.
var writtenNames = map[string]bool{
	"updated": true, "updatedat": true, "updatedon": true, "updatedate": true, "updatetime": true, "updatedtime": true, "updatets": true, "tsupdate": true, "tsupdated": true,
	"dateupdate": true, "dateupdated": true, "timeupdate": true, "timeupdated": true, "lastupdate": true, "lastupdated": true, "lastupdatedat": true,
	"modified": true, "modifiedat": true, "modifiedon": true, "datemodified": true, "datemodify": true, "modifydate": true, "modifytime": true, "timemodified": true, "lastmodified": true, "lastmodifiedat": true,
	"mtime": true,
}

// writtenColumn is the column that tells when a row was last written, nil when none does:
// the first with ON UPDATE CURRENT_TIMESTAMP; else the first DATE, DATETIME, TIMESTAMP, INT
// or BIGINT column, not generated, whose name is one of the usual ones. An integer counts in
// whatever unit the application has, which is the same on both sides. When a row was made is
// no such column: it does not change.
func writtenColumn(t *schema.Table) *schema.Column {
	for i := range t.Columns {
		if t.Columns[i].OnUpdateNow {
			return &t.Columns[i]
		}
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		switch c.Type {
		case "date", "datetime", "timestamp", "int", "bigint":
			if c.Generated == "" && writtenNames[strings.ReplaceAll(strings.ToLower(c.Name), "_", "")] {
				return c
			}
		}
	}
	return nil
}

// newer says which side of a changed row was written last, and which column says so. Both
// are empty where no column tells: there is none, it is the same on both sides, or one side
// has NULL, zero or no row at all (a row that is gone does not say when).
func newer(t *schema.Table, columns []ColumnDifference) (column, side string) {
	c := writtenColumn(t)
	if c == nil {
		return "", ""
	}
	for _, d := range columns {
		if d.Column != c.Name || !told(d.Source) || !told(d.Target) {
			continue
		}
		later := strings.Compare(d.Source.Text, d.Target.Text) // dates of one column have one width
		if c.Type == "int" || c.Type == "bigint" {
			a, ok := new(big.Int).SetString(d.Source.Text, 10)
			b, ok2 := new(big.Int).SetString(d.Target.Text, 10)
			if !ok || !ok2 {
				return "", ""
			}
			later = a.Cmp(b)
		}
		switch {
		case later > 0:
			return c.Name, "source"
		case later < 0:
			return c.Name, "target"
		}
	}
	return "", ""
}

// told reports a value that is a time: not NULL, zero or a zero date.
func told(v *Value) bool {
	return v != nil && !v.Null && strings.Trim(v.Text, "0-: .") != ""
}
