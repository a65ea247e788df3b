package binlog

import (
	"fmt"
	"testing"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

func TestCompareIntegers(t *testing.T) {
	ordered := []string{"-9223372036854775808", "-100", "-99", "-10", "-9", "-1", "0", "1", "9", "10", "99", "100", "9223372036854775807", "18446744073709551615"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := compareIntegers([]byte(a), []byte(b)); got != want {
				t.Errorf("compare %s with %s: found %d, expected %d", a, b, got, want)
			}
		}
	}
}

// However a batch is cut, each row is in one piece; a table where the way to the end matters
// is in one piece.
func TestUnits(t *testing.T) {
	const rows = 3*rowsAtMost + 7
	table := func(name, column string, unique bool) *schema.Table {
		return &schema.Table{
			Name: name, Engine: "InnoDB", Columns: []schema.Column{{Name: "a", Type: column, ColumnType: column}, {Name: "b", Type: "int", ColumnType: "int"}},
			PrimaryKey: []schema.KeyPart{{Column: "a"}}, Indexes: []schema.Index{{Name: "b", Unique: unique}},
		}
	}
	plain, unique, text := table("plain", "int", false), table("uniq", "int", true), table("words", "varchar", false)
	n := newNet(func(t *schema.Table) (*plan, error) { return newPlan(database, t) })
	for _, tb := range []*schema.Table{plain, unique, text} {
		for i := range rows {
			// The keys come mixed, as several writers mix them.
			key := fmt.Sprint((i*7919 + 13) % rows)
			if err := n.add(&transaction.Change{Table: tb, After: transaction.Image{[]byte(key), []byte("1")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pieces, found := map[string]int{}, map[string]bool{}
	var last []byte
	for _, u := range n.units() {
		name := u.plan.table.Name
		pieces[name]++
		for _, r := range u.rows {
			key := name + " " + string(r.id[0])
			if found[key] {
				t.Errorf("%s is in two pieces", key)
			}
			found[key] = true
			if name != plain.Name {
				continue
			}
			if last != nil && compareIntegers(last, r.id[0]) >= 0 {
				t.Errorf("key %s follows %s", r.id[0], last)
			}
			last = r.id[0]
		}
		if name == plain.Name && len(u.rows) > rowsAtMost {
			t.Errorf("a piece has %d rows", len(u.rows))
		}
	}
	if len(found) != 3*rows || pieces[unique.Name] != 1 || pieces[text.Name] != 1 || pieces[plain.Name] != 4 {
		t.Errorf("found %d rows in %v pieces, expected %d, one piece of each but 4 of table plain", len(found), pieces, 3*rows)
	}
}
