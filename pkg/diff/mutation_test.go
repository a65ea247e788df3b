package diff

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kind is a column type as the mutation test knows it, with expressions of its own to read
// values: they must not come from the code that is tested.
type kind struct {
	def   string
	key   bool                       // may be part of a primary key
	value func(r *rand.Rand) string  // a literal
	exact func(column string) string // tells all stored values apart
	same  func(column string) string // equal exactly where two keys are one key; "" is exact
	show  func(column string) string // as reports show it; nil is the column
}

func hexOf(c string) string { return "HEX(" + c + ")" }
func asIs(c string) string  { return c }
func sprintf(format string) func(string) string {
	return func(c string) string { return fmt.Sprintf(format, c) }
}

func choose(values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return values[r.IntN(len(values))] }
}

func words(charset string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		letters := []string{"a", "A", "b", "é", "e", "E", " ", ",", "N", "1", "0", "ß", "x", "'", "|"}
		if charset == "utf8mb4" || charset == "utf16" {
			letters = append(letters, "😀", "😁", "€")
		}
		s := ""
		for range r.IntN(5) {
			s += letters[r.IntN(len(letters))]
		}
		return fmt.Sprintf("CONVERT(_utf8mb4 X'%x' USING %s)", s, charset)
	}
}

func octets(n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		s := ""
		for range r.IntN(n + 1) {
			s += fmt.Sprintf("%02X", []int{0, 1, 0x2c, 0x4e, 0x7f, 0x80, 0xc3, 0xff}[r.IntN(8)])
		}
		return "X'" + s + "'"
	}
}

func integers(lo, hi int64) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if r.IntN(4) == 0 {
			return fmt.Sprint([]int64{lo, hi, 0, 1}[r.IntN(4)])
		}
		return fmt.Sprint(lo/2 + r.Int64N(200))
	}
}

var (
	reals  = choose("0e0", "-0e0", "1e0", "-1e0", "16777213e0", "16777215e0", "1.5e0", "0.1e0", "0.30000000000000004e0", "0.3e0", "1e-38", "3.4e38", "123456.789e0")
	padded = sprintf("HEX(WEIGHT_STRING(%s AS CHAR(40)))")
	kinds  = []kind{
		{"INT", true, integers(-2147483648, 2147483647), asIs, nil, nil},
		{"BIGINT UNSIGNED", true, choose("0", "1", "9007199254740992", "9007199254740993", "18446744073709551614", "18446744073709551615", "77", "78", "79"), asIs, nil, nil},
		{"DECIMAL(20,5)", true, choose("0", "-0.00001", "0.00001", "123456789012345.12345", "-1", "1", "1.1"), asIs, nil, nil},
		{"FLOAT", true, reals, sprintf("CAST(%s AS DOUBLE)"), sprintf("%s+0e0"), sprintf("CONCAT(CAST(%s AS DOUBLE))")},
		{"DOUBLE", true, reals, sprintf("CAST(%s AS DOUBLE)"), sprintf("%s+0e0"), sprintf("CONCAT(%s)")},
		{"DATE", true, choose("'0000-00-00'", "'2024-02-29'", "'2024-00-10'", "'9999-12-31'", "'1000-01-01'"), asIs, nil, nil},
		{"DATETIME(6)", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.000001'", "'2024-02-29 00:00:00.000002'", "'2024-02-29'", "'9999-12-31 23:59:59.999999'"), asIs, nil, nil},
		{"TIMESTAMP(3) NULL", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.001'", "'2024-02-29 00:00:00.002'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999'"), asIs, nil, nil},
		{"TIME(6)", true, choose("'00:00:00'", "'-00:00:00.000001'", "'00:00:00.000001'", "'838:59:59'", "'-838:59:59'", "'12:00:00'"), asIs, nil, nil},
		{"YEAR", true, choose("'0000'", "2000", "1901", "2155", "1970"), asIs, nil, nil},
		{"CHAR(8) COLLATE utf8mb4_general_ci", true, words("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", true, words("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"CHAR(8) COLLATE utf8mb4_0900_as_cs", true, words("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"VARCHAR(20) COLLATE utf8mb4_bin", true, words("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET latin1", true, words("latin1"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET utf16", true, words("utf16"), hexOf, padded, nil},
		{"VARBINARY(8)", true, octets(8), hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"BINARY(4)", true, octets(4), hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"ENUM('b','','a','N','10')", true, choose("1", "2", "3", "4", "5", "'no such'"), sprintf("%s+0"), nil, nil},
		{"SET('b','x','a','N')", true, choose("0", "1", "3", "8", "15", "5"), sprintf("%s+0"), nil, nil},
		{"BIT(64)", true, choose("0", "1", "48", "18446744073709551615", "9223372036854775808"), hexOf, nil, sprintf("%s+0")},
		{"BLOB", false, octets(12), hexOf, nil, nil},
		{"TEXT", false, words("utf8mb4"), hexOf, nil, nil},
		{"TEXT CHARACTER SET latin1", false, words("latin1"), hexOf, nil, nil},
		{"JSON", false, choose("'1'", "'1.0'", "'null'", "'\"1\"'", `'{"a": [1, 2.5]}'`, "JSON_ARRAY(CAST(2.5 AS DECIMAL(3,1)))", "'[2.5]'", "'[]'", "'{}'", "'\"N\"'"), sprintf("CONCAT(JSON_TYPE(%[1]s),IFNULL(JSON_TYPE(JSON_EXTRACT(%[1]s,'$[0]')),''),HEX(CAST(%[1]s AS CHAR)))"), nil, nil},
		{"GEOMETRY", false, choose("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(1 2)',4326)", "ST_GeomFromText('POINT(2 1)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"), hexOf, nil, nil},
	}
)

// mutant is a random table on both servers.
type mutant struct {
	r       *rand.Rand
	keys    []kind // columns k0, k1, ...
	values  []kind // columns v0, v1, ...
	columns string // all but n
	rows    int
}

func newMutant(r *rand.Rand) *mutant {
	m := &mutant{r: r, rows: 20 + r.IntN(120)}
	for range 1 + r.IntN(3) {
		k := kinds[r.IntN(len(kinds))]
		for !k.key {
			k = kinds[r.IntN(len(kinds))]
		}
		m.keys = append(m.keys, k)
	}
	for range 1 + r.IntN(6) {
		m.values = append(m.values, kinds[r.IntN(len(kinds))])
	}
	var names []string
	for i := range m.keys {
		names = append(names, fmt.Sprintf("k%d", i))
	}
	for i := range m.values {
		names = append(names, fmt.Sprintf("v%d", i))
	}
	m.columns = strings.Join(names, ",")
	return m
}

// create is the table with its rows. n tells rows apart for the test; it is no key.
func (m *mutant) create() []string {
	var cols, key []string
	for i, k := range m.keys {
		cols = append(cols, fmt.Sprintf("k%d %s NOT NULL", i, strings.TrimSuffix(k.def, " NULL")))
		key = append(key, fmt.Sprintf("k%d%s", i, []string{"", "", " DESC"}[m.r.IntN(3)]))
	}
	for i, k := range m.values {
		cols = append(cols, fmt.Sprintf("v%d %s", i, k.def))
	}
	m.r.Shuffle(len(cols), func(i, j int) { cols[i], cols[j] = cols[j], cols[i] })
	out := []string{"SET SESSION sql_mode = ''", "DROP TABLE IF EXISTS m",
		"CREATE TABLE m (" + strings.Join(cols, ",") + ", n INT NOT NULL, PRIMARY KEY (" + strings.Join(key, ",") + "))"}
	var rows []string
	for n := range m.rows {
		var vals []string
		for _, k := range m.keys {
			vals = append(vals, k.value(m.r))
		}
		for _, k := range m.values {
			vals = append(vals, m.orNull(k))
		}
		rows = append(rows, fmt.Sprintf("(%s,%d)", strings.Join(vals, ","), n))
	}
	return append(out, fmt.Sprintf("INSERT IGNORE INTO m (%s,n) VALUES %s", m.columns, strings.Join(rows, ",")))
}

func (m *mutant) orNull(k kind) string {
	if m.r.IntN(4) == 0 {
		return "NULL"
	}
	return k.value(m.r)
}

// mutate is one change of the target. It may happen to change nothing; what it did is read
// from the servers.
func (m *mutant) mutate() []string {
	pick := func() string { return strconv.Itoa(m.r.IntN(m.rows)) }
	v := m.r.IntN(len(m.values))
	column, k := fmt.Sprintf("v%d", v), m.values[v]
	switch m.r.IntN(9) {
	case 0:
		return []string{"DELETE FROM m WHERE n = " + pick()}
	case 1: // a row twice, under another key
		kept := strings.TrimPrefix(m.columns, strings.Join(strings.Split(m.columns, ",")[:len(m.keys)], ",")+",")
		var lits []string
		for _, k := range m.keys {
			lits = append(lits, k.value(m.r))
		}
		return []string{fmt.Sprintf("INSERT IGNORE INTO m (%s,n) SELECT %s,%s,n FROM m WHERE n = %s LIMIT 1", m.columns, strings.Join(lits, ","), kept, pick())}
	case 2: // two rows swap a value
		p, q := pick(), pick()
		return []string{"DROP TEMPORARY TABLE IF EXISTS s", fmt.Sprintf("CREATE TEMPORARY TABLE s AS SELECT n, %s AS v FROM m WHERE n IN (%s,%s)", column, p, q),
			fmt.Sprintf("UPDATE IGNORE m JOIN s ON s.n = IF(m.n = %s, %s, %s) SET m.%s = s.v WHERE m.n IN (%s,%s)", p, q, p, column, p, q)}
	case 3: // the same change in an even number of rows
		return []string{fmt.Sprintf("UPDATE IGNORE m SET %s = %s WHERE n IN (%s,%s,%s,%s)", column, m.orNull(k), pick(), pick(), pick(), pick())}
	case 4: // another key, or the same key spelled differently
		i := m.r.IntN(len(m.keys))
		return []string{fmt.Sprintf("UPDATE IGNORE m SET k%d = %s WHERE n = %s", i, m.keys[i].value(m.r), pick())}
	case 5: // one character or number more
		return []string{fmt.Sprintf("UPDATE IGNORE m SET %[1]s = %[2]s WHERE n = %[3]s", column, m.little(column, k), pick())}
	case 6:
		return []string{fmt.Sprintf("UPDATE m SET %s = NULL WHERE n = %s", column, pick())}
	}
	return []string{fmt.Sprintf("UPDATE IGNORE m SET %s = %s WHERE n = %s", column, m.orNull(k), pick())}
}

// little is the smallest change of a value of this type.
func (m *mutant) little(column string, k kind) string {
	switch {
	case strings.Contains(k.def, "CHAR") || strings.Contains(k.def, "TEXT"):
		return strings.Replace([]string{"CONCAT(%s,' ')", "UPPER(%s)", "LOWER(%s)", "REVERSE(%s)", "TRIM(%s)"}[m.r.IntN(5)], "%s", column, 1)
	case strings.Contains(k.def, "BINARY") || k.def == "BLOB":
		return "CONCAT(" + column + ",X'00')"
	case k.def == "FLOAT" || k.def == "DOUBLE":
		return "-" + column
	case strings.HasPrefix(k.def, "DATETIME") || strings.HasPrefix(k.def, "TIME"):
		return column + " + INTERVAL 1 MICROSECOND"
	case strings.HasPrefix(k.def, "BIT"):
		return column + " ^ 1"
	case k.def == "INT" || strings.HasPrefix(k.def, "DECIMAL") || strings.HasPrefix(k.def, "BIGINT"):
		return column + " - 1"
	}
	return k.value(m.r)
}

// rowsOf reads all rows with the test's own expressions: by what makes a key one key, the
// key as shown and the row's exact values.
func (m *mutant) rowsOf(t *testing.T, c *sql.Conn) map[string][2]string {
	t.Helper()
	var same, shown, exact []string
	for i, k := range m.keys {
		name := fmt.Sprintf("k%d", i)
		if k.same != nil {
			same = append(same, k.same(name))
		} else {
			same = append(same, k.exact(name))
		}
		if k.show != nil {
			shown = append(shown, k.show(name))
		} else {
			shown = append(shown, "CONCAT("+name+")")
		}
		exact = append(exact, k.exact(name))
	}
	for i, k := range m.values {
		exact = append(exact, k.exact(fmt.Sprintf("v%d", i)))
	}
	q := "SELECT " + strings.Join(slices.Concat(same, shown, exact), ",") + ",n FROM mutants.m"
	rows, err := c.QueryContext(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	n := len(same) + len(shown) + len(exact) + 1
	out := map[string][2]string{}
	for rows.Next() {
		values, dest := make([]sql.NullString, n), make([]any, n)
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		var key []string
		for _, v := range values[len(same) : 2*len(same)] {
			key = append(key, (&keyColumn{}).show(v.String))
		}
		out[joined(values[:len(same)])] = [2]string{strings.Join(key, ","), joined(values[2*len(same):])}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func joined(values []sql.NullString) string {
	var out []string
	for _, v := range values {
		if v.Valid {
			out = append(out, strconv.Quote(v.String))
		} else {
			out = append(out, "NULL")
		}
	}
	return strings.Join(out, ",")
}

// TestMutations changes values, drops, repeats and swaps rows in tables of random types and
// expects exactly the rows that really differ, by expressions of its own. Set
// VIFL_DIFF_MUTATIONS to a number of tables (default 20) and VIFL_DIFF_SEED to repeat a run.
func TestMutations(t *testing.T) {
	t.Parallel()
	number := func(name string, def uint64) uint64 {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return n
		}
		return def
	}
	tables, seed := number("VIFL_DIFF_MUTATIONS", 20), number("VIFL_DIFF_SEED", rand.Uint64())
	s := start(t)
	s.fresh(t, "mutants")
	a, b := plainSide(t, s.a, "mutants", 2), plainSide(t, s.b, "mutants", 2)
	found := map[Kind]int{}
	for i := range tables {
		r := rand.New(rand.NewPCG(seed, i))
		m := newMutant(r)
		statements := m.create()
		restart(t, a, b) // a snapshot that has read the old table keeps it from being dropped
		s.both(t, "mutants", statements...)
		for range 8 {
			var done []string
			for range 1 + r.IntN(3) {
				done = append(done, m.mutate()...)
			}
			script(t, s.b, "mutants", append([]string{"SET SESSION sql_mode = ''"}, done...))
			restart(t, a, b)
			var want []string
			left, right := m.rowsOf(t, a.Conns[0]), m.rowsOf(t, b.Conns[0])
			for key, row := range left {
				if other, ok := right[key]; !ok {
					want = append(want, row[0]+" missing")
				} else if other[1] != row[1] {
					want = append(want, row[0]+" changed")
				}
			}
			for key, row := range right {
				if _, ok := left[key]; !ok {
					want = append(want, row[0]+" extra")
				}
			}
			slices.Sort(want)
			chunk := []int{1, 3, 10, 100, 0}[r.IntN(5)]
			report, err := Compare(context.Background(), a, []Side{b}, readSchema(t, a.Conns[0], "mutants"), chunked(chunk), nil)
			if err != nil {
				t.Fatalf("seed %d, table %d: %v\n%s", seed, i, err, statements[2])
			}
			var got []string
			for _, d := range report.Targets[0].Differences {
				found[d.Kind]++
				got = append(got, strings.Join(d.Key, ",")+" "+string(d.Kind))
				if d.Kind == Changed && len(d.Columns) == 0 {
					t.Errorf("seed %d: no column is named: %s", seed, d)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, table %d, chunks of %d:\nfound    %q\nexpected %q\nafter %q\nin %s", seed, i, chunk, got, want, done, statements[2])
			}
		}
	}
	t.Logf("seed %d: found %v", seed, found)
	if tables >= 20 && (found[Missing] < 20 || found[Extra] < 20 || found[Changed] < 100) {
		t.Errorf("seed %d: too little was changed to prove anything: %v", seed, found)
	}
}

// restart opens new snapshots on the connections.
func restart(t *testing.T, sides ...Side) {
	t.Helper()
	for _, s := range sides {
		for _, c := range s.Conns {
			for _, q := range []string{"COMMIT", "SET NAMES utf8mb4", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
				if _, err := c.ExecContext(context.Background(), q); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
