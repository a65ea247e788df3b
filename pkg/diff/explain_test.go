package diff

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema"
)

func TestKeysReadBackAsTheyArePrinted(t *testing.T) {
	of := func(typ, columnType string) keyColumn {
		c := &schema.Column{Name: "c", Type: typ, ColumnType: columnType, CharSet: "utf8mb4"}
		k, err := classOf(c)
		if err != nil {
			t.Fatal(err)
		}
		return keyColumn{name: "`c`", column: c, class: k}
	}
	varchar, binary, enum, set := of("varchar", ""), of("varbinary", ""), of("enum", "enum('','a,b','it''s','#1','x')"), of("set", "set('p','q','r')")
	for _, c := range []struct {
		k              keyColumn
		exact, display string
	}{
		{varchar, "", ""}, {varchar, "a", "a"}, {varchar, "a, b", "a, b"}, {varchar, " a", " a"}, {varchar, `"`, `"`}, {varchar, `a\`, `a\`}, {varchar, "0x41", "0x41"}, {varchar, "#1", "#1"},
		{varchar, "\x00\n", "\x00\n"}, {varchar, "é😀", "é😀"}, {varchar, "NULL", "NULL"}, {binary, "", ""}, {binary, "\x00,\"", ""},
		{enum, "0", ""}, {enum, "1", ""}, {enum, "2", "a,b"}, {enum, "3", "it's"}, {enum, "4", "#1"}, {enum, "5", "x"}, {set, "0", ""}, {set, "5", "p,r"}, {set, "7", "p,q,r"},
		{of("int", ""), "-5", ""}, {of("float", ""), "-1.5e-38", ""}, {of("datetime", ""), "2024-01-01 00:00:00.000001", ""}, {of("time", ""), "-838:59:59", ""}, {of("bit", ""), "18446744073709551615", ""},
	} {
		shown := c.k.show(c.exact, c.display)
		parts, err := splitKey(shown + ", " + shown)
		if err != nil || len(parts) != 2 || parts[0] != parts[1] {
			t.Errorf("%s: %v, %v", shown, parts, err)
			continue
		}
		if got, err := c.k.parsePart(parts[0]); err != nil || got != c.exact {
			t.Errorf("%q is shown as %s and read as %q, %v", c.exact, shown, got, err)
		}
	}
	for _, bad := range []struct {
		k keyColumn
		s string
	}{{of("int", ""), "1 OR 1=1"}, {of("int", ""), `"1"`}, {of("date", ""), "2024-01-01' OR '1"}, {binary, "41"}, {binary, "0xzz"}, {enum, "no such"}, {enum, "#x"}, {set, `"p,z"`}, {of("double", ""), ""}} {
		parts, err := splitKey(bad.s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bad.k.parsePart(parts[0]); err == nil {
			t.Errorf("%s: %q was read as %q", bad.k.column.Type, bad.s, got)
		}
	}
	for _, bad := range []string{`"a`, `"a" b`, `"\q"`} {
		if parts, err := splitKey(bad); err == nil {
			t.Errorf("%s was split into %v", bad, parts)
		}
	}
}

// Every key that a report prints names its row to Explain, and the values come whole.
func TestExplain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := start(t)
	s.fresh(t, "expl")
	long := strings.Repeat("ä", 3000)
	s.both(t, "expl", "SET sql_mode = ''",
		"CREATE TABLE t (a VARCHAR(20) CHARACTER SET latin1, b VARBINARY(9), c ENUM('x','','y'), d TIMESTAMP(6), e FLOAT, f SET('p','q'), v TEXT, w JSON, PRIMARY KEY (a, b, c, d, e, f))",
		"INSERT INTO t VALUES ('é, \"x', X'002C', 'y', '2024-01-01 00:00:00.5', 0.1, 'p,q', '"+long+"', '[1]'), ('', X'', 'no', '2024-01-01', -1.5e-30, '', '', NULL), ('0x', X'FF', '', '2024-01-01', 0, 'q', NULL, NULL)",
		"CREATE TABLE n (id INT PRIMARY KEY, v INT)", "INSERT INTO n VALUES (1, 1), (2, 2)")
	script(t, s.b, "expl", []string{"UPDATE t SET v = CONCAT(v, '!')", "UPDATE t SET v = 'not NULL' WHERE v IS NULL", "DELETE FROM n WHERE id = 2"})
	a := Pool{Name: "side a", Database: "expl", DB: mysqldtest.Open(t, s.a)}
	b := Pool{Name: "tablet 1", Database: "expl", DB: mysqldtest.Open(t, s.b)}
	conn := plainSide(t, s.a, "expl", 1).Conns[0]
	sch := readSchema(t, conn, "expl")
	differences := s.compare(t, "expl", Options{}).Targets[0].Differences
	if len(differences) != 4 {
		t.Fatalf("%v", differences)
	}
	for _, d := range differences {
		got, err := Explain(ctx, a, []Pool{a, b}, sch, d.Table, d.KeyText())
		if err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		if d.Kind == Missing {
			if got.Equal || got.Servers[2].Found || !got.Servers[1].Found || len(got.Columns) != 0 {
				t.Errorf("%s: %+v", d, got)
			}
			continue
		}
		if got.Equal || len(got.Columns) != 1 || got.Columns[0].Column != "v" || !got.Servers[2].Found {
			t.Errorf("%s: %+v", d, got)
			continue
		}
		values := got.Columns[0].Values
		if len(values) != 3 || *values[0] != *values[1] || *values[0] == *values[2] || values[0].Cut {
			t.Errorf("%s: %v", d, values)
		}
		if d.Key[1] == "0x002C" && (values[0].Text != long || values[2].Text != long+"!") {
			t.Errorf("%s: not whole: %v", d, values)
		}
	}
	if got, err := Explain(ctx, a, []Pool{b}, sch, "n", "1"); err != nil || !got.Equal || !got.Servers[1].Found {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Explain(ctx, a, []Pool{b}, sch, "n", "77"); err != nil || !got.Equal || slices.ContainsFunc(got.Servers, func(r ExplainedRow) bool { return r.Found }) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][2]string{{"nope", "1"}, {"n", "1, 2"}, {"n", "x"}, {"n", ""}} {
		if _, err := Explain(ctx, a, []Pool{b}, sch, bad[0], bad[1]); !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
