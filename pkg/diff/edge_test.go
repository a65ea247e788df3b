package diff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// TestEdges runs on one pair of servers what does not fit the form of cases.
func TestEdges(t *testing.T) {
	t.Parallel()
	s := start(t, "max_allowed_packet = 64M")
	t.Run("rows outside of every chunk and in holes", func(t *testing.T) { testOutside(t, s) })
	t.Run("sixteen text columns as key", func(t *testing.T) { testLongKey(t, s) })
	t.Run("key of prefixes", func(t *testing.T) { testPrefixKey(t, s) })
	t.Run("key ranges use the index", func(t *testing.T) { testRanges(t, s) })
	t.Run("a broken connection is an error", func(t *testing.T) { testKilled(t, s) })
	t.Run("rows larger than a packet", func(t *testing.T) { testPacket(t, s) })
	t.Run("other tables are refused", func(t *testing.T) { testSchema(t, s) })
	t.Run("several targets, one pass over the source", func(t *testing.T) { testTargets(t, s) })
	t.Run("more differences than are listed", func(t *testing.T) { testManyDifferences(t, s) })
	t.Run("one instant for all", func(t *testing.T) { testInstant(t, s) })
	t.Run("json types and deep documents", func(t *testing.T) { testDocuments(t, s) })
	t.Run("decimals and doubles of one size in json", func(t *testing.T) { testJSONReals(t, s) })
	t.Run("all digits of doubles", func(t *testing.T) { testDoubles(t, s) })
	t.Run("both values of every column", func(t *testing.T) { testValues(t, s) })
	t.Run("tables without a key", func(t *testing.T) { testUnkeyed(t, s) })
	t.Run("newest rows", func(t *testing.T) { testNewest(t, s) })
}

// want fails unless exactly these differences are reported: table, key, kind.
func want(t *testing.T, got TargetReport, lines ...string) {
	t.Helper()
	var have []string
	for _, d := range got.Differences {
		have = append(have, fmt.Sprintf("%s %s %s", d.Table, strings.Join(d.Key, ","), d.Kind))
	}
	slices.Sort(have)
	slices.Sort(lines)
	if !slices.Equal(have, lines) || got.Differing != uint64(len(lines)) {
		t.Errorf("found %d: %q\nexpected %d: %q", got.Differing, have, len(lines), lines)
	}
}

const numbers = `INSERT INTO %s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT %s FROM n`

func testOutside(t *testing.T, s servers) {
	s.fresh(t, "outside")
	s.both(t, "outside", "SET SESSION cte_max_recursion_depth = 100000",
		"CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)", fmt.Sprintf(numbers, "t", 2000, "i*10, i"),
		"CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1), (5)")
	script(t, s.b, "outside", []string{"SET SESSION cte_max_recursion_depth = 100000",
		"INSERT INTO t VALUES (-5, 0), (15, 0), (9999999999, 0), (10001, 0)", "DELETE FROM t WHERE id IN (10, 20000, 10000)", "DELETE FROM gone",
		// Many rows in one hole: more than the source has in all.
		fmt.Sprintf(numbers, "t", 5000, "100000+i, i")})
	for _, o := range []Options{chunked(10), chunked(100), {}} {
		r := s.compare(t, "outside", o)
		got := r.Targets[0]
		if got.Differing != 5009 || got.ByTable["t"] != 5007 || got.ByTable["gone"] != 2 {
			t.Errorf("%+v: %d differences, by table %v", o, got.Differing, got.ByTable)
		}
		for _, line := range []string{"t -5 extra", "t 15 extra", "t 10001 extra", "t 9999999999 extra", "t 10 missing", "t 20000 missing", "t 10000 missing", "gone 1 missing", "t 105000 extra"} {
			n := 0
			for _, d := range got.Differences {
				if fmt.Sprintf("%s %s %s", d.Table, d.Key[0], d.Kind) == line {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%+v: %q is reported %d times", o, line, n)
			}
		}
	}
}

// testLongKey: sixteen columns are the most that MySQL takes.
func testLongKey(t *testing.T, s servers) {
	s.fresh(t, "longkey")
	cols, key, vals := "", "", ""
	for i := range 20 {
		cols += fmt.Sprintf("c%d VARCHAR(12) COLLATE utf8mb4_0900_ai_ci NOT NULL,", i)
		vals += fmt.Sprintf("CONCAT('k', (i DIV %d) %% 3),", max(1, i/3))
		if i < 15 {
			key += fmt.Sprintf("c%d%s,", i, []string{"", " DESC"}[i%2])
		}
	}
	s.both(t, "longkey", "CREATE TABLE t ("+cols+"n INT NOT NULL, PRIMARY KEY ("+key+"n))", fmt.Sprintf(numbers, "t", 700, vals+"i"))
	script(t, s.b, "longkey", []string{"UPDATE t SET c19 = 'K' WHERE n = 5", "UPDATE t SET c3 = UPPER(c3) WHERE n = 650", "DELETE FROM t WHERE n = 333"})
	for _, n := range []int{10, 100, 0} {
		r := s.compare(t, "longkey", chunked(n))
		got := r.Targets[0]
		if got.Differing != 3 {
			t.Errorf("chunks of %d: %v", n, got.Differences)
		}
		for _, d := range got.Differences {
			if n := d.Key[15]; (n == "333") != (d.Kind == Missing) || d.Kind == Extra || (n == "650" && !strings.HasSuffix(d.String(), "changed in c3")) {
				t.Errorf("unexpected: %s", d)
			}
		}
	}
}

// testPrefixKey: the index holds only the beginnings of the key's columns.
func testPrefixKey(t *testing.T, s servers) {
	s.fresh(t, "prefix")
	s.both(t, "prefix", "CREATE TABLE t (k TEXT, b BLOB, v INT, PRIMARY KEY (k(6), b(3)))",
		fmt.Sprintf(numbers, "t", 500, "CONCAT(LPAD(i MOD 90, 6, '0'), REPEAT('tail', i MOD 5)), CONCAT(i DIV 90, REPEAT('x', i MOD 7)), i"))
	script(t, s.b, "prefix", []string{"DELETE FROM t WHERE v = 77", "UPDATE t SET v = -1 WHERE v = 400", "UPDATE t SET k = CONCAT(k, '!') WHERE v = 123"})
	for _, n := range []int{10, 100, 0} {
		want(t, s.compare(t, "prefix", chunked(n)).Targets[0], "t 000077tailtail,0x30 missing", "t 000040,0x3478 changed", "t 000033tailtailtail,0x3178787878 missing", "t 000033tailtailtail!,0x3178787878 extra")
	}
}

// testRanges: the conditions of a chunk in the middle of a table must be found by the
// index: each chunk would otherwise read the whole table.
func testRanges(t *testing.T, s servers) {
	s.fresh(t, "ranges")
	for i, def := range []string{
		"a INT, b INT, c INT, PRIMARY KEY (c)|i%5, i%7, i",
		"a INT, b INT, c INT, PRIMARY KEY (a, c)|i%5, i%7, i",
		"a INT, b INT, c INT, PRIMARY KEY (a DESC, b, c)|i%5, i%7, i",
		"a VARCHAR(20) COLLATE utf8mb4_general_ci, c INT, PRIMARY KEY (a, c)|i%5, i",
		"a VARCHAR(20) CHARACTER SET latin1, c CHAR(30), PRIMARY KEY (c, a)|i%5, LEFT(SHA2(i,224),30)",
		"a BINARY(16), PRIMARY KEY (a)|UNHEX(LEFT(SHA2(i,256),32))",
		"a ENUM('z','b','c','d','a'), c BIGINT UNSIGNED, PRIMARY KEY (a, c)|1+i%5, 18446744073709551615-i",
		"a SET('z','b','c','d','a'), b BIT(20), c DECIMAL(10,3), PRIMARY KEY (a, b, c)|1+i%5, i%11, i/3",
		"a DATETIME(6), b TIMESTAMP(3), c DATE, d TIME(2), e YEAR, f DOUBLE, PRIMARY KEY (a, b, c, d, e, f)|TIMESTAMP'2020-01-01 00:00:00.5' + INTERVAL i%9 SECOND, TIMESTAMP'2020-01-01 00:00:00' + INTERVAL i%3 DAY, DATE'2000-02-28' + INTERVAL i%4 DAY, SEC_TO_TIME(i%5-2), 2000+i%3, i/7",
		"a FLOAT, PRIMARY KEY (a)|i/16",
	} {
		columns, values, _ := strings.Cut(def, "|")
		name := fmt.Sprintf("r%d", i)
		script(t, s.a, "ranges", []string{"CREATE TABLE " + name + " (" + columns + ")", fmt.Sprintf(numbers, name, 900, values), "ANALYZE TABLE " + name})
	}
	ctx := context.Background()
	side := snapshot(t, s.a, "ranges", 1)
	rs, err := side.readers(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rs[0]
	for _, st := range readSchema(t, side.Conns[0], "ranges").Tables {
		tab, err := newTable(st)
		if err != nil {
			t.Fatal(err)
		}
		lo, err := r.bound(ctx, tab, nil, nil, 400)
		if err != nil {
			t.Fatal(err)
		}
		hi, err := r.bound(ctx, tab, lo, nil, 50)
		if err != nil {
			t.Fatal(err)
		}
		where := between(tab.key, lo, hi)
		sum, err := r.sum(ctx, tab, where, false)
		if err != nil || sum.rows != 50 {
			t.Errorf("%s: %d rows, %v in a chunk of 50: %s", st.Create, sum.rows, err, where)
		}
		var kind, extra string
		var estimate float64
		rows, err := side.Conns[0].QueryContext(ctx, "EXPLAIN FORMAT=TRADITIONAL "+tab.sumSQL("ranges", where, false))
		if err != nil {
			t.Fatal(err)
		}
		cols, _ := rows.Columns()
		for rows.Next() {
			dest := make([]any, len(cols))
			for i := range dest {
				dest[i] = new(any)
			}
			for i, c := range cols {
				switch c {
				case "type":
					dest[i] = &kind
				case "rows":
					dest[i] = &estimate
				case "Extra":
					dest[i] = &extra
				}
			}
			if err := rows.Scan(dest...); err != nil {
				t.Fatal(err)
			}
		}
		_ = rows.Close()
		if kind != "range" || estimate > 150 {
			t.Errorf("%s: a chunk of 50 of 900 rows is read by %q, about %.0f rows: %s", st.Create, kind, estimate, where)
		}
	}
}

// testKilled: whatever moment a connection breaks at, there is no report.
func testKilled(t *testing.T, s servers) {
	s.fresh(t, "killed")
	s.both(t, "killed", "SET SESSION cte_max_recursion_depth = 100000", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", fmt.Sprintf(numbers, "t", 20000, "i, REPEAT('x', 200)"))
	for _, after := range []int{1, 3, 40} {
		for _, side := range []string{"source", "target"} {
			ctx, cancel := context.WithTimeout(context.Background(), testTime)
			a, b := snapshot(t, s.a, "killed", 2), snapshot(t, s.b, "killed", 2)
			victim, on := a.Conns[1], s.a
			if side == "target" {
				victim, on = b.Conns[1], s.b
			}
			var id uint64
			if err := victim.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			admin := mysqldtest.Open(t, on)
			calls := 0
			r, err := Compare(ctx, a, []Side{b}, readSchema(t, a.Conns[0], "killed"), chunked(100), func(Progress) {
				if calls++; calls == after {
					if _, err := admin.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
						t.Error(err)
					}
				}
			})
			cancel()
			if err == nil || r != nil {
				t.Errorf("a connection of the %s was killed after %d chunks: report %v, error %v", side, after, r != nil, err)
			} else if !strings.Contains(err.Error(), on.Name()+":") || !strings.Contains(err.Error(), `"t"`) {
				t.Errorf("the error does not name server and table: %v", err)
			}
		}
	}
}

// testPacket: values that together are larger than max_allowed_packet make CONCAT NULL, and
// the text of a document that is larger becomes an empty string.
func testPacket(t *testing.T, s servers) {
	s.fresh(t, "packet")
	s.fresh(t, "document")
	s.both(t, "packet", "CREATE TABLE t (id INT PRIMARY KEY, a LONGBLOB, b LONGTEXT, j JSON)",
		"INSERT INTO t VALUES (1, REPEAT('a', 900000), REPEAT('é', 400000), NULL), (2, REPEAT('b', 1500000), NULL, '{}'), (3, REPEAT('b', 900000), '', JSON_OBJECT('k', REPEAT('v', 900000))), (4, 'a', 'b', '1'), (5, REPEAT('b', 1500000), 'x', NULL)")
	script(t, s.b, "packet", []string{"UPDATE t SET a = CONCAT(LEFT(a, 899999), 'b') WHERE id = 1", "UPDATE t SET j = JSON_OBJECT('k', CONCAT(REPEAT('v', 899999), 'w')) WHERE id = 3", "UPDATE t SET b = 'y' WHERE id = 5"})
	s.both(t, "document", "CREATE TABLE t (id INT PRIMARY KEY, j JSON)", "INSERT INTO t VALUES (1, JSON_OBJECT('k', REPEAT('v', 1500000))), (2, '1')")
	// First the target alone, then both: what cannot be hashed on both sides is not equal.
	for _, srv := range []*mysqld.Server{s.b, s.a} {
		db := mysqldtest.Open(t, srv)
		if _, err := db.Exec("SET GLOBAL max_allowed_packet = 1048576"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := db.Exec("SET GLOBAL max_allowed_packet = 67108864"); err != nil {
				t.Error(err)
			}
		}()
		for _, n := range []int{1, 2, 10, 0} {
			want(t, s.compare(t, "packet", chunked(n)).Targets[0], "t 1 changed", "t 3 changed", "t 5 changed")
			a, b := snapshot(t, s.a, "document", 1), snapshot(t, s.b, "document", 1)
			_, err := Compare(context.Background(), a, []Side{b}, readSchema(t, a.Conns[0], "document"), chunked(n), nil)
			if err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
				t.Errorf("a document larger than the packet, chunks of %d: %v", n, err)
			}
			closeSide(a)
			closeSide(b)
		}
	}
}

func testSchema(t *testing.T, s servers) {
	for name, q := range map[string][2]string{
		"only on the source": {"CREATE TABLE more (id INT PRIMARY KEY)", ""},
		"only on the target": {"", "CREATE TABLE more (id INT PRIMARY KEY)"},
		"column type":        {"", "ALTER TABLE t MODIFY v BIGINT"},
		"column added":       {"", "ALTER TABLE t ADD w INT INVISIBLE"},
		"another key":        {"", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)"},
		// A row with NULL there would be in no range.
		"a key with NULL":          {"", "ALTER TABLE u MODIFY id INT NULL"},
		"a key that is not unique": {"", "ALTER TABLE u DROP KEY id, ADD KEY id (id)"},
		"a key that is gone":       {"", "ALTER TABLE u DROP KEY id"},
		"a primary key instead":    {"", "ALTER TABLE u DROP KEY id, ADD PRIMARY KEY (id)"},
		"collation":                {"", "ALTER TABLE t MODIFY k VARCHAR(9) COLLATE utf8mb4_bin NOT NULL"},
	} {
		s.fresh(t, "shape")
		s.both(t, "shape", "CREATE TABLE t (id INT PRIMARY KEY, k VARCHAR(9) NOT NULL, v INT)", "CREATE TABLE u (id INT NOT NULL, v INT, UNIQUE KEY id (id))")
		for i, srv := range []int{0, 1} {
			if q[i] != "" {
				script(t, s.at(srv), "shape", []string{q[i]})
			}
		}
		a, b := snapshot(t, s.a, "shape", 1), snapshot(t, s.b, "shape", 1)
		_, err := Compare(context.Background(), a, []Side{b}, readSchema(t, a.Conns[0], "shape"), Options{}, nil)
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "b,") {
			t.Errorf("%s: %v", name, err)
		}
		closeSide(a)
		closeSide(b)
	}
}

// testTargets: the source's rows are read once for all targets. The second target is
// another database on server b.
func testTargets(t *testing.T, s servers) {
	s.fresh(t, "many")
	s.fresh(t, "many2")
	schema := "CREATE TABLE t (id INT PRIMARY KEY, v INT)"
	s.both(t, "many", schema, fmt.Sprintf(numbers, "t", 900, "i, i"))
	s.both(t, "many2", schema, fmt.Sprintf(numbers, "t", 900, "i, i"))
	script(t, s.b, "many", []string{"UPDATE t SET v = 0 WHERE id = 7"})
	script(t, s.b, "many2", []string{"DELETE FROM t WHERE id > 898", "UPDATE t SET v = 0 WHERE id = 7"})
	a, b, c := snapshot(t, s.a, "many", 2), snapshot(t, s.b, "many", 2), snapshot(t, s.b, "many2", 2)
	var reads = func() (n uint64) {
		q := "SELECT count_read FROM performance_schema.table_io_waits_summary_by_table WHERE object_schema = 'many' AND object_name = 't'"
		if err := mysqldtest.Open(t, s.a).QueryRow(q).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := reads()
	r, err := Compare(context.Background(), a, []Side{b, c}, readSchema(t, a.Conns[0], "many"), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r.Targets[0], "t 7 changed")
	want(t, r.Targets[1], "t 7 changed", "t 899 missing", "t 900 missing")
	if r.Rows != 900 || r.Targets[1].Tables[0].Rows != 898 || r.Differing() != 4 || r.Equal() {
		t.Errorf("%+v", r)
	}
	// Once to find the chunk's end, once for the sum, and the listing of each target.
	if got := reads() - before; got > 0 && got > 4*900+50 {
		t.Errorf("the source's 900 rows were read %d times for two targets", got)
	}
}

func testManyDifferences(t *testing.T, s servers) {
	s.fresh(t, "lots")
	s.both(t, "lots", "SET SESSION cte_max_recursion_depth = 100000", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", fmt.Sprintf(numbers, "t", 12000, "i, i"))
	script(t, s.b, "lots", []string{"UPDATE t SET v = v + 1"})
	r := s.compare(t, "lots", Options{MaxListed: 50})
	got := r.Targets[0]
	if got.Differing != 12000 || len(got.Differences) != 50 || !got.Truncated() {
		t.Errorf("%d differ, %d listed, truncated: %t", got.Differing, len(got.Differences), got.Truncated())
	}
	if !strings.HasSuffix(r.First(), "changed in v") {
		t.Errorf("first: %s", r.First())
	}
}

// testInstant: what is written after the snapshots is not seen.
func testInstant(t *testing.T, s servers) {
	s.fresh(t, "instant")
	s.both(t, "instant", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", fmt.Sprintf(numbers, "t", 500, "i, i"))
	a, b := snapshot(t, s.a, "instant", 2), snapshot(t, s.b, "instant", 2)
	sch := readSchema(t, a.Conns[0], "instant")
	script(t, s.a, "instant", []string{"UPDATE t SET v = -1", "INSERT INTO t VALUES (1000, 1)", "DELETE FROM t WHERE id < 10"})
	r, err := Compare(context.Background(), a, []Side{b}, sch, chunked(10), nil)
	if err != nil || !r.Equal() || r.Rows != 500 {
		t.Errorf("%+v, %v", r, err)
	}
}

func testDocuments(t *testing.T, s servers) {
	s.fresh(t, "docs")
	s.both(t, "docs", "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
		`INSERT INTO t VALUES (1, JSON_OBJECT('a', CAST(1.5 AS DECIMAL(5,1)))), (3, JSON_OBJECT('d', CAST('2001-01-01' AS DATE)))`,
		`INSERT INTO t VALUES (2, '{"a": "xxxxxxxxxxxxxxxxxxxx", "b": 1}'), (4, '1'), (7, JSON_ARRAY(1, 2))`,
		"INSERT INTO t VALUES (5, CONCAT(REPEAT('[', 100), REPEAT(']', 100)))", "INSERT INTO t VALUES (6, CONCAT(REPEAT('[', 100), REPEAT(']', 100)))")
	script(t, s.a, "docs", []string{`UPDATE t SET j = JSON_SET(j, '$.a', 'y') WHERE id = 2`}) // in place
	// Not by UPDATE: what compares equal is not written.
	script(t, s.b, "docs", []string{"DELETE FROM t WHERE id IN (1, 2, 3, 4, 6)",
		`INSERT INTO t VALUES (1, '{"a": 1.5}'), (2, '{"a": "y", "b": 1}'), (3, '{"d": "2001-01-01"}')`,
		"INSERT INTO t VALUES (4, CAST(CAST(1 AS UNSIGNED) AS JSON))", "INSERT INTO t VALUES (6, CONCAT(REPEAT('[', 99), REPEAT(']', 99)))"})
	// One by one: a document of the greatest depth makes its chunk forgo the size.
	want(t, s.compare(t, "docs", chunked(1)).Targets[0], "t 1 changed", "t 3 changed", "t 4 changed", "t 6 changed")
}

// testJSONReals: a DECIMAL of four bytes takes as much room inside a document as a DOUBLE,
// and prints like it; so do two numbers whose types are swapped.
func testJSONReals(t *testing.T, s servers) {
	s.fresh(t, "reals")
	s.both(t, "reals", "CREATE TABLE t (id INT PRIMARY KEY, `v` JSON, `vifl` JSON)")
	var expected []string
	id := 0
	for _, number := range []string{"1.5", "-0.1", "169.09", "12.345", "1234.5", "12345.5", "1234567.5", "0.001", "123456.789", "99999999.99"} {
		for _, form := range []string{"%s", "JSON_ARRAY(%s)", "JSON_OBJECT('a', JSON_ARRAY(1, JSON_OBJECT('b', %s)), 'u', '1.5')"} {
			id++
			// A bare 1.5 is a DECIMAL, 1.5e0 a DOUBLE.
			script(t, s.a, "reals", []string{fmt.Sprintf("INSERT INTO t VALUES (%d, CAST("+form+" AS JSON), '[1.5]')", id, number)})
			script(t, s.b, "reals", []string{fmt.Sprintf("INSERT INTO t VALUES (%d, CAST("+form+" AS JSON), '[1.5]')", id, number+"e0")})
			expected = append(expected, fmt.Sprintf("t %d changed", id))
		}
	}
	s.both(t, "reals", "INSERT INTO t VALUES (1000, JSON_ARRAY(1.5, 169.09e0, 169.09), '{\"a\": {\"b\": 1.5}}'), (1001, NULL, NULL)")
	script(t, s.a, "reals", []string{"INSERT INTO t VALUES (1002, JSON_ARRAY(169.09, 169.09e0), NULL)"})
	script(t, s.b, "reals", []string{"INSERT INTO t VALUES (1002, JSON_ARRAY(169.09e0, 169.09), NULL)"})
	want(t, s.compare(t, "reals", Options{}).Targets[0], append(expected, "t 1002 changed")...)
}

// testDoubles: the next DOUBLE is another value, also where MySQL has no room to print it, and
// a key of such values is found again.
func testDoubles(t *testing.T, s servers) {
	s.fresh(t, "doubles")
	s.both(t, "doubles", "CREATE TABLE d (id INT PRIMARY KEY, v DOUBLE)", "CREATE TABLE k (d DOUBLE, f FLOAT, v INT, PRIMARY KEY (d, f))")
	r := rand.New(rand.NewPCG(1, 2))
	var values, next, keys, expected []string
	for i := range 400 {
		d, f := math.Float64frombits(r.Uint64()), math.Float32frombits(r.Uint32())
		if math.IsNaN(d) || math.IsInf(d, 0) || math.Abs(d) < 1e-300 || f != f || math.IsInf(float64(f), 0) || math.Abs(float64(f)) < 1e-37 {
			continue
		}
		values = append(values, fmt.Sprintf("(%d,%s)", i, strconv.FormatFloat(d, 'e', -1, 64)))
		next = append(next, fmt.Sprintf("(%d,%s)", i, strconv.FormatFloat(math.Nextafter(d, 0), 'e', -1, 64)))
		keys = append(keys, fmt.Sprintf("(%s,%s,1)", strconv.FormatFloat(d, 'e', -1, 64), strconv.FormatFloat(float64(f), 'e', -1, 64)))
		expected = append(expected, fmt.Sprintf("d %d changed", i))
	}
	s.both(t, "doubles", "INSERT INTO k VALUES "+strings.Join(keys, ","))
	script(t, s.a, "doubles", []string{"INSERT INTO d VALUES " + strings.Join(values, ",")})
	script(t, s.b, "doubles", []string{"INSERT INTO d VALUES " + strings.Join(next, ","), "UPDATE k SET v = 2"})
	for _, n := range []int{7, 0} {
		got := s.compare(t, "doubles", chunked(n)).Targets[0]
		var inD TargetReport
		for _, d := range got.Differences {
			if d.Table == "d" {
				inD.Differences = append(inD.Differences, d)
				inD.Differing++
			} else if !strings.HasSuffix(d.String(), "changed in v") {
				t.Errorf("chunks of %d: %s", n, d)
			}
		}
		want(t, inD, slices.Clone(expected)...)
		if got.ByTable["k"] != uint64(len(keys)) {
			t.Errorf("chunks of %d: %d of %d keys", n, got.ByTable["k"], len(keys))
		}
	}
}

// testValues: every differing row is listed with both values of its columns, ” apart from
// NULL, binary as hex, long ones shortened and said so.
func testValues(t *testing.T, s servers) {
	s.fresh(t, "vals")
	s.both(t, "vals", `CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(300), b VARBINARY(300), f FLOAT, ts TIMESTAMP(6) NULL, e ENUM('','x'), m SET('p','q'), j JSON, n BIT(9),
		l VARCHAR(20) CHARACTER SET latin1, g INT AS (id + 1) VIRTUAL, h INT INVISIBLE)`,
		"SET time_zone = '+02:00'", "SET sql_mode = ''",
		`INSERT INTO t (id, s, b, f, ts, e, m, j, n, l) VALUES (1, '', X'', 16777216, '2024-01-01 02:00:00.5', '', 'p', '{"a": 1.5}', 511, 'é'), (2, REPEAT('é', 100), REPEAT(X'00FF', 50), NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, NULL, X'00', 1, NULL, 'x', '', 'null', 0, '\n')`)
	script(t, s.b, "vals", []string{"SET time_zone = '+00:00'", "SET sql_mode = ''",
		`UPDATE t SET s = NULL, b = NULL, f = -0e0, ts = '2024-01-01 00:00:00.6', e = 'no', m = 'p,q', j = JSON_OBJECT('a', CAST(2.5 AS DECIMAL(2,1))), n = 1, l = 'e', h = 7 WHERE id = 1`,
		`UPDATE t SET j = JSON_OBJECT('a', 1.5) WHERE id = 1`,
		"UPDATE t SET s = CONCAT(REPEAT('é', 99), 'e'), b = REPEAT(X'00FF', 51) WHERE id = 2", "DELETE FROM t WHERE id = 3", "INSERT INTO t (id) VALUES (4)"})
	for _, n := range []int{1, 0} {
		r := s.compare(t, "vals", chunked(n))
		var lines []string
		for _, d := range r.Targets[0].Differences {
			for _, c := range d.Columns {
				lines = append(lines, d.KeyText()+" "+string(d.Kind)+" "+digests.ReplaceAllString(c.String(), "digest D"))
			}
		}
		slices.Sort(lines)
		e := strings.Repeat("é", 64)
		long := "0x" + strings.Repeat("00FF", 16)
		expected := []string{
			`1 changed s "" -> NULL`, `1 changed b 0x -> NULL`, `1 changed f 16777216 -> -0`, `1 changed ts 2024-01-01 00:00:00.500000 -> 2024-01-01 00:00:00.600000`,
			`1 changed e 1: -> 0:`, `1 changed m 1:p -> 3:p,q`, `1 changed n 511 -> 1`, `1 changed l "é" -> "e"`, `1 changed h NULL -> 7`,
			`1 changed j "{\"a\": 1.5}" -> "{\"a\": 1.5}" (the same text, stored as another type or value)`,
			`2 changed s "` + e + `"… (200 bytes, digest D) -> "` + e + `"… (199 bytes, digest D)`, `2 changed b ` + long + `… (100 bytes, digest D) -> ` + long + `… (102 bytes, digest D)`,
			"3 missing id 3", "3 missing s NULL", "3 missing b 0x00", "3 missing f 1", "3 missing ts NULL", "3 missing e 2:x", "3 missing m 0:", `3 missing j "null"`, "3 missing n 0", `3 missing l "\n"`, "3 missing g 4", "3 missing h NULL",
			"4 extra id 4", "4 extra s NULL", "4 extra b NULL", "4 extra f NULL", "4 extra ts NULL", "4 extra e NULL", "4 extra m NULL", "4 extra j NULL", "4 extra n NULL", "4 extra l NULL", "4 extra g 5", "4 extra h NULL",
		}
		slices.Sort(expected)
		for i := range max(len(lines), len(expected)) {
			got, want := "nothing", "nothing"
			if i < len(lines) {
				got = lines[i]
			}
			if i < len(expected) {
				want = expected[i]
			}
			if got != want {
				t.Fatalf("chunks of %d: found\n%s\nexpected\n%s", n, got, want)
			}
		}
		js, err := json.Marshal(r.Targets[0].Differences)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`{"column":"s","source":{"text":"","quoted":true},"target":{"text":"","null":true}}`, `{"column":"h","source":{"text":"","null":true}}`, `"bytes":200,"cut":true,"digest":"`} {
			if !strings.Contains(string(js), part) {
				t.Errorf("the JSON lacks %s: %s", part, js)
			}
		}
	}
}

var digests = regexp.MustCompile("digest [0-9a-f]{16}")
