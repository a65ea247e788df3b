package diff

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
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
	def    string
	key    bool                                     // may be part of a primary key
	value  func(r *rand.Rand) string                // a literal
	little func(r *rand.Rand, column string) string // the least change, one bit where the type allows; nil is another value
	exact  func(column string) string               // tells all stored values apart
	same   func(column string) string               // equal exactly where two keys are one key; "" is exact
	show   func(column string) string               // as reports show it; nil is the column
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
		switch charset {
		case "ascii":
			letters = []string{"a", "A", "b", "e", " ", ",", "N", "1", "'"}
		case "utf8mb4", "utf16", "utf32", "gb18030":
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
		return fmt.Sprint(max(lo, lo/2) + r.Int64N(min(200, hi-lo/2)))
	}
}

var (
	reals  = choose("0e0", "-0e0", "1e0", "-1e0", "16777213e0", "16777215e0", "1.5e0", "0.1e0", "0.30000000000000004e0", "0.3e0", "1e-38", "3.4e38", "123456.789e0", "-1.5e-30", "-4.477231489238053e-38", "-1.9685523071127114e-35")
	padded = sprintf("HEX(WEIGHT_STRING(%s AS CHAR(40)))")
	kinds  = []kind{
		{"TINYINT", true, integers(-128, 127), flipSigned(7), asIs, nil, nil},
		{"SMALLINT UNSIGNED", true, integers(0, 65535), flip(16), asIs, nil, nil},
		{"MEDIUMINT", true, integers(-8388608, 8388607), flipSigned(23), asIs, nil, nil},
		{"INT", true, integers(-2147483648, 2147483647), flipSigned(31), asIs, nil, nil},
		{"INT UNSIGNED ZEROFILL", false, integers(0, 4294967295), flip(32), asIs, nil, nil},
		{"BIGINT", true, choose("0", "-1", "-9223372036854775808", "9223372036854775807", "9007199254740993", "12", "13"), flipSigned(63), asIs, nil, nil},
		{"BIGINT UNSIGNED", true, choose("0", "1", "9007199254740992", "9007199254740993", "18446744073709551614", "18446744073709551615", "77", "78", "79"), flip(64), asIs, nil, nil},
		{"DECIMAL(20,5)", true, choose("0", "-0.00001", "0.00001", "123456789012345.12345", "-1", "1", "1.1"), either("%s + 0.00001", "%s - 0.00001", "-%s"), asIs, nil, nil},
		{"FLOAT", true, reals, either("IF(%[1]s = 0, -%[1]s, CAST(%[1]s AS DOUBLE) * (1 + 1.2e-7))", "-%s"), sprintf("HEX(POINT(%s,0))"), sprintf("IF(%[1]s = 0, '', HEX(POINT(%[1]s,0)))"), sprintf("TRIM(TRAILING '.0' FROM CAST(CAST(CAST(%s AS DOUBLE) AS JSON) AS CHAR))")},
		{"DOUBLE", true, reals, either("IF(%[1]s = 0, -%[1]s, %[1]s * (1 + 2.3e-16))", "-%s"), sprintf("HEX(POINT(%s,0))"), sprintf("IF(%[1]s = 0, '', HEX(POINT(%[1]s,0)))"), sprintf("TRIM(TRAILING '.0' FROM CAST(CAST(CAST(%s AS DOUBLE) AS JSON) AS CHAR))")},
		{"DATE", true, choose("'0000-00-00'", "'2024-02-29'", "'2024-00-10'", "'9999-12-31'", "'1000-01-01'"), either("%s + INTERVAL 1 DAY", "%s - INTERVAL 1 DAY"), asIs, nil, nil},
		{"DATETIME(6)", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.000001'", "'2024-02-29 00:00:00.000002'", "'2024-02-29'", "'9999-12-31 23:59:59.999999'"), either("%s + INTERVAL 1 MICROSECOND"), asIs, nil, nil},
		{"TIMESTAMP(3) NULL", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.001'", "'2024-02-29 00:00:00.002'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999'"), either("%s + INTERVAL 1000 MICROSECOND"), asIs, nil, nil},
		{"TIME(6)", true, choose("'00:00:00'", "'-00:00:00.000001'", "'00:00:00.000001'", "'838:59:59'", "'-838:59:59'", "'12:00:00'"), either("%s + INTERVAL 1 MICROSECOND"), asIs, nil, nil},
		{"YEAR", true, choose("'0000'", "2000", "1901", "2155", "1970"), either("%s + 1", "IF(%[1]s > 1901, %[1]s - 1, 1970)"), asIs, nil, nil},
		{"CHAR(8) COLLATE utf8mb4_general_ci", true, words("utf8mb4"), letter("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", true, words("utf8mb4"), letter("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"CHAR(8) COLLATE utf8mb4_0900_as_cs", true, words("utf8mb4"), letter("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"VARCHAR(20) COLLATE utf8mb4_bin", true, words("utf8mb4"), letter("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET latin1", true, words("latin1"), letter("latin1"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET utf16", true, words("utf16"), letter("utf16"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET gb18030", false, words("gb18030"), letter("gb18030"), hexOf, nil, nil},
		{"CHAR(5) CHARACTER SET ascii COLLATE ascii_bin", false, words("ascii"), letter("ascii"), hexOf, nil, nil},
		{"VARBINARY(8)", true, octets(8), octet, hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"BINARY(4)", true, octets(4), octet, hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"ENUM('b','','a','N','10')", true, choose("1", "2", "3", "4", "5", "'no such'"), either("%s MOD 5 + 1"), sprintf("%s+0"), nil, sprintf("IF(CONCAT(%[1]s) = '', CONCAT('#', %[1]s+0), CONCAT(%[1]s))")},
		{"SET('b','x','a','N')", true, choose("0", "1", "3", "8", "15", "5"), flip(4), sprintf("%s+0"), nil, sprintf("IF(CONCAT(%[1]s) = '', CONCAT('#', %[1]s+0), CONCAT(%[1]s))")},
		{"SET(" + members(64) + ")", false, choose("0", "1", "9007199254740992", "18446744073709551615"), flip(64), hexOfNumber, nil, nil},
		{"BIT(64)", true, choose("0", "1", "48", "18446744073709551615", "9223372036854775808"), flip(64), hexOf, nil, sprintf("%s+0")},
		{"BIT(1)", false, choose("0", "1"), flip(1), hexOf, nil, nil},
		{"TINYBLOB", false, octets(12), octet, hexOf, nil, nil},
		{"BLOB", false, octets(12), octet, hexOf, nil, nil},
		{"MEDIUMBLOB", false, octets(40), octet, hexOf, nil, nil},
		{"LONGBLOB", false, octets(400), octet, hexOf, nil, nil},
		{"TINYTEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"TEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"TEXT CHARACTER SET latin1", false, words("latin1"), letter("latin1"), hexOf, nil, nil},
		{"MEDIUMTEXT CHARACTER SET utf32", false, words("utf32"), letter("utf32"), hexOf, nil, nil},
		{"LONGTEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"JSON", false, choose("'1'", "'1.0'", "'null'", "'\"1\"'", `'{"a": [1, 2.5]}'`, "JSON_ARRAY(CAST(2.5 AS DECIMAL(3,1)))", "'[2.5]'", "'[]'", "'{}'", "'\"N\"'",
			"JSON_ARRAY(12345.5)", "'[12345.5]'", "'[-0.0]'", "'[0.0]'", "'[0]'", `'["2001-01-01"]'`, "JSON_ARRAY(DATE'2001-01-01')", "'[true]'", `'["true"]'`,
			`'["base64:type15:YWI="]'`, "JSON_ARRAY(X'6162')", "'[0.1]'", "'[0.10000000000000002]'", `'{"a": 1, "b": 2}'`, `'{"a": 2, "b": 1}'`), nil,
			sprintf("CONCAT(JSON_TYPE(%[1]s),IFNULL(JSON_TYPE(JSON_EXTRACT(%[1]s,'$[0]')),''),HEX(CAST(%[1]s AS CHAR)))"), nil, nil},
		{"VECTOR(3)", false, choose("X'0000803F0000004000004040'", "X'0100803F0000004000004040'", "X'000000000000008000000000'"), nil, hexOf, nil, nil},
		{"GEOMETRY", false, choose("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(1 2)',4326)", "ST_GeomFromText('POINT(2 1)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"), nil, hexOf, nil, nil},
		{"POINT", false, shapes("POINT(%s 2)"), nil, hexOf, nil, nil},
		{"LINESTRING", false, shapes("LINESTRING(0 0,1 %s)"), nil, hexOf, nil, nil},
		{"POLYGON", false, shapes("POLYGON((0 0,1 0,1 %s,0 0))"), nil, hexOf, nil, nil},
		{"MULTIPOINT", false, shapes("MULTIPOINT((0 0),(%s 1))"), nil, hexOf, nil, nil},
		{"MULTILINESTRING", false, shapes("MULTILINESTRING((0 0,1 %s))"), nil, hexOf, nil, nil},
		{"MULTIPOLYGON", false, shapes("MULTIPOLYGON(((0 0,1 0,1 %s,0 0)))"), nil, hexOf, nil, nil},
		{"GEOMETRYCOLLECTION", false, shapes("GEOMETRYCOLLECTION(POINT(%s 1))"), nil, hexOf, nil, nil},
	}
)

// flip changes one bit of a number without a sign, flipSigned one below the sign.
func flip(bits int) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string {
		return fmt.Sprintf("CAST(%s AS UNSIGNED) ^ %d", column, uint64(1)<<r.IntN(bits))
	}
}

func flipSigned(bits int) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string {
		return fmt.Sprintf("CAST(%s ^ %d AS SIGNED)", column, uint64(1)<<r.IntN(bits))
	}
}

// either is one of some expressions of the column.
func either(formats ...string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string { return fmt.Sprintf(formats[r.IntN(len(formats))], column) }
}

// letter changes one bit of the first letter, or little else.
func letter(charset string) func(*rand.Rand, string) string {
	bit := "IF(ORD(%[1]s) BETWEEN 48 AND 126, INSERT(%[1]s, 1, 1, CONVERT(CHAR(ORD(%[1]s) ^ 1 USING ascii) USING " + charset + ")), CONCAT(%[1]s, 'x'))"
	return either(bit, bit, bit, "CONCAT(%s,' ')", "UPPER(%s)", "LOWER(%s)", "REVERSE(%s)", "TRIM(%s)")
}

// octet changes one bit of some byte, of none where there are fewer.
func octet(r *rand.Rand, column string) string {
	at := 1 + r.IntN(4)
	return fmt.Sprintf("INSERT(%[1]s, %[2]d, 1, CHAR(ASCII(SUBSTRING(%[1]s, %[2]d, 1)) ^ %[3]d))", column, at, 1<<r.IntN(8))
}

func hexOfNumber(c string) string { return "HEX(CAST(" + c + " AS UNSIGNED))" }

func shapes(format string) func(*rand.Rand) string {
	var values []string
	for _, x := range []string{"1", "0.1", "0.10000000000000002", "-3", "5"} {
		values = append(values, "ST_GeomFromText('"+fmt.Sprintf(format, x)+"')", "ST_GeomFromText('"+fmt.Sprintf(format, x)+"',3857)")
	}
	return choose(values...)
}

func members(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("'m%d'", i)
	}
	return strings.Join(out, ",")
}

// mutant is a random table on both servers.
type mutant struct {
	r       *rand.Rand
	keys    []kind // columns k0, k1, ...
	values  []kind // columns v0, v1, ...
	columns string // all but n
	rows    int
}

// deck deals the kinds in turns, so that each is used in every few tables.
type deck struct{ left []kind }

func (d *deck) deal(r *rand.Rand) kind {
	if len(d.left) == 0 {
		d.left = slices.Clone(kinds)
		r.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	k := d.left[0]
	d.left = d.left[1:]
	return k
}

func newMutant(r *rand.Rand, d *deck) *mutant {
	m := &mutant{r: r, rows: 20 + r.IntN(120)}
	for range 1 + r.IntN(3) {
		k := kinds[r.IntN(len(kinds))]
		for !k.key {
			k = kinds[r.IntN(len(kinds))]
		}
		m.keys = append(m.keys, k)
	}
	for range 3 + r.IntN(5) {
		m.values = append(m.values, d.deal(r))
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
		"CREATE TABLE m (" + strings.Join(cols, ",") + ", n INT NOT NULL, " + []string{"PRIMARY", "PRIMARY", "UNIQUE"}[m.r.IntN(3)] + " KEY (" + strings.Join(key, ",") + "))"}
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

// mutate is one change of the target, with its name. It may happen to change nothing; what
// it did is read from the servers.
func (m *mutant) mutate() (name string, statements []string) {
	pick := func() string { return strconv.Itoa(m.r.IntN(m.rows)) }
	v := m.r.IntN(len(m.values))
	column, k := fmt.Sprintf("v%d", v), m.values[v]
	// What compares equal is not written to a JSON column, so it is emptied first.
	set := func(expr, where string) []string {
		out := []string{fmt.Sprintf("UPDATE IGNORE m SET %s = %s WHERE %s", column, expr, where)}
		if k.def == "JSON" {
			out = append([]string{fmt.Sprintf("UPDATE m SET %s = NULL WHERE %s", column, where)}, out...)
		}
		return out
	}
	switch m.r.IntN(12) {
	case 0:
		return "drop a row", []string{"DELETE FROM m WHERE n = " + pick()}
	case 1:
		kept := strings.TrimPrefix(m.columns, strings.Join(strings.Split(m.columns, ",")[:len(m.keys)], ",")+",")
		var lits []string
		for _, k := range m.keys {
			lits = append(lits, k.value(m.r))
		}
		return "a row twice, under another key", []string{fmt.Sprintf("INSERT IGNORE INTO m (%s,n) SELECT %s,%s,n FROM m WHERE n = %s LIMIT 1", m.columns, strings.Join(lits, ","), kept, pick())}
	case 2:
		p, q := pick(), pick()
		return "swap " + k.def, []string{"DROP TEMPORARY TABLE IF EXISTS s", fmt.Sprintf("CREATE TEMPORARY TABLE s AS SELECT n, %s AS v FROM m WHERE n IN (%s,%s)", column, p, q),
			fmt.Sprintf("UPDATE IGNORE m JOIN s ON s.n = IF(m.n = %s, %s, %s) SET m.%s = s.v WHERE m.n IN (%s,%s)", p, q, p, column, p, q)}
	case 3:
		return "the same change in an even number of rows", set(m.orNull(k), fmt.Sprintf("n IN (%s,%s,%s,%s)", pick(), pick(), pick(), pick()))
	case 4:
		i := m.r.IntN(len(m.keys))
		return "another key, or the same spelled differently", []string{fmt.Sprintf("UPDATE IGNORE m SET k%d = %s WHERE n = %s", i, m.keys[i].value(m.r), pick())}
	case 5:
		return "NULL in " + k.def, set("NULL", "n = "+pick())
	case 6, 7:
		return "another " + k.def, set(m.orNull(k), "n = "+pick())
	}
	if k.little == nil {
		return "another " + k.def, set(k.value(m.r), "n = "+pick())
	}
	return "a little of " + k.def, set(k.little(m.r, column), "n = "+pick())
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
		for i, v := range values[len(same) : 2*len(same)] {
			def, part := m.keys[i].def, v.String
			named := strings.HasPrefix(def, "ENUM") || strings.HasPrefix(def, "SET")
			if (named && part[0] != '#' || strings.Contains(def, "CHAR")) && ambiguous(part) {
				part = strconv.Quote(part)
			}
			key = append(key, part)
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

// mutationsPerTable: each is compared alone, on top of those before it.
const mutationsPerTable = 12

// TestMutations changes values, drops, repeats and swaps rows in tables of random types and
// expects exactly the rows that really differ, by expressions of its own: a few hundred
// mutations, or ten thousand with VIFL_TEST_LONG=1. VIFL_DIFF_SEED repeats a run.
func TestMutations(t *testing.T) {
	t.Parallel()
	wanted, seed := 200, rand.Uint64()
	if os.Getenv("VIFL_TEST_LONG") == "1" {
		wanted = 10_000
	}
	if s := os.Getenv("VIFL_DIFF_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("VIFL_DIFF_SEED: %v", err)
		}
	}
	s := start(t)
	s.fresh(t, "mutants")
	a, b := plainSide(t, s.a, "mutants", 2), plainSide(t, s.b, "mutants", 2)
	found, byName := map[Kind]int{}, map[string]int{}
	var cards deck
	done, misses := 0, 0
	for i := uint64(0); done < wanted; i++ {
		r := rand.New(rand.NewPCG(seed, i))
		m := newMutant(r, &cards)
		statements := m.create()
		restart(t, a, b) // a snapshot that has read the old table keeps it from being dropped
		s.both(t, "mutants", statements...)
		restart(t, a, b)
		sch, left, before := readSchema(t, a.Conns[0], "mutants"), m.rowsOf(t, a.Conns[0]), m.rowsOf(t, b.Conns[0])
		for range mutationsPerTable {
			name, change := m.mutate()
			script(t, s.b, "mutants", append([]string{"SET SESSION sql_mode = ''"}, change...))
			restart(t, b)
			right := m.rowsOf(t, b.Conns[0])
			if maps.Equal(before, right) {
				continue // it changed nothing
			}
			before = right
			done++
			byName[name]++
			want := truth(left, right)
			chunk := []int{1, 3, 10, 100, 0}[r.IntN(5)]
			report, err := Compare(context.Background(), a, []Side{b}, sch, chunked(chunk), nil)
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
				misses++
				t.Errorf("seed %d, table %d, chunks of %d:\nfound    %q\nexpected %q\nafter %q\nin %s", seed, i, chunk, got, want, change, statements[2])
			}
		}
	}
	t.Logf("seed %d: %d mutations of %d kinds, %d misses or false alarms; reported %v", seed, done, len(byName), misses, found)
	if found[Missing] < 20 || found[Extra] < 20 || found[Changed] < 100 {
		t.Errorf("seed %d: too little was changed to prove anything: %v", seed, found)
	}
	for _, k := range kinds {
		if wanted >= 10_000 && (k.little != nil && byName["a little of "+k.def] == 0 || byName["another "+k.def] == 0) {
			t.Errorf("seed %d: no value of %s was changed", seed, k.def)
		}
	}
}

// truth is what a comparison must report: the keys of rows that differ, with their kinds.
func truth(left, right map[string][2]string) []string {
	var want []string
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
	return want
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
