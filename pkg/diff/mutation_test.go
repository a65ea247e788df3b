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

	"github.com/vifl/vifl/pkg/schema/schematest"
)

// mutant is a random table on both servers.
type mutant struct {
	r       *rand.Rand
	keys    []schematest.Kind // columns k0, k1, ...
	values  []schematest.Kind // columns v0, v1, ...
	columns string            // all but n
	rows    int
}

func newMutant(r *rand.Rand, d *schematest.Deck) *mutant {
	m := &mutant{r: r, rows: 20 + r.IntN(120)}
	for range 1 + r.IntN(3) {
		k := schematest.Kinds[r.IntN(len(schematest.Kinds))]
		for !k.Key {
			k = schematest.Kinds[r.IntN(len(schematest.Kinds))]
		}
		m.keys = append(m.keys, k)
	}
	for range 3 + r.IntN(5) {
		m.values = append(m.values, d.Deal(r))
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
		cols = append(cols, fmt.Sprintf("k%d %s NOT NULL", i, strings.TrimSuffix(k.Def, " NULL")))
		key = append(key, fmt.Sprintf("k%d%s", i, []string{"", "", " DESC"}[m.r.IntN(3)]))
	}
	for i, k := range m.values {
		cols = append(cols, fmt.Sprintf("v%d %s", i, k.Def))
	}
	m.r.Shuffle(len(cols), func(i, j int) { cols[i], cols[j] = cols[j], cols[i] })
	out := []string{"SET SESSION sql_mode = ''", "DROP TABLE IF EXISTS m",
		"CREATE TABLE m (" + strings.Join(cols, ",") + ", n INT NOT NULL, " + []string{"PRIMARY", "PRIMARY", "UNIQUE"}[m.r.IntN(3)] + " KEY (" + strings.Join(key, ",") + "))"}
	var rows []string
	for n := range m.rows {
		var vals []string
		for _, k := range m.keys {
			vals = append(vals, k.Value(m.r))
		}
		for _, k := range m.values {
			vals = append(vals, m.orNull(k))
		}
		rows = append(rows, fmt.Sprintf("(%s,%d)", strings.Join(vals, ","), n))
	}
	return append(out, fmt.Sprintf("INSERT IGNORE INTO m (%s,n) VALUES %s", m.columns, strings.Join(rows, ",")))
}

func (m *mutant) orNull(k schematest.Kind) string {
	if m.r.IntN(4) == 0 {
		return "NULL"
	}
	return k.Value(m.r)
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
		if k.Def == "JSON" {
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
			lits = append(lits, k.Value(m.r))
		}
		return "a row twice, under another key", []string{fmt.Sprintf("INSERT IGNORE INTO m (%s,n) SELECT %s,%s,n FROM m WHERE n = %s LIMIT 1", m.columns, strings.Join(lits, ","), kept, pick())}
	case 2:
		p, q := pick(), pick()
		return "swap " + k.Def, []string{"DROP TEMPORARY TABLE IF EXISTS s", fmt.Sprintf("CREATE TEMPORARY TABLE s AS SELECT n, %s AS v FROM m WHERE n IN (%s,%s)", column, p, q),
			fmt.Sprintf("UPDATE IGNORE m JOIN s ON s.n = IF(m.n = %s, %s, %s) SET m.%s = s.v WHERE m.n IN (%s,%s)", p, q, p, column, p, q)}
	case 3:
		return "the same change in an even number of rows", set(m.orNull(k), fmt.Sprintf("n IN (%s,%s,%s,%s)", pick(), pick(), pick(), pick()))
	case 4:
		i := m.r.IntN(len(m.keys))
		return "another key, or the same spelled differently", []string{fmt.Sprintf("UPDATE IGNORE m SET k%d = %s WHERE n = %s", i, m.keys[i].Value(m.r), pick())}
	case 5:
		return "NULL in " + k.Def, set("NULL", "n = "+pick())
	case 6, 7:
		return "another " + k.Def, set(m.orNull(k), "n = "+pick())
	}
	if k.Little == nil {
		return "another " + k.Def, set(k.Value(m.r), "n = "+pick())
	}
	return "a little of " + k.Def, set(k.Little(m.r, column), "n = "+pick())
}

// rowsOf reads all rows with the test's own expressions: by what makes a key one key, the
// key as shown and the row's exact values.
func (m *mutant) rowsOf(t *testing.T, c *sql.Conn) map[string][2]string {
	t.Helper()
	var same, shown, exact []string
	for i, k := range m.keys {
		name := fmt.Sprintf("k%d", i)
		if k.Same != nil {
			same = append(same, k.Same(name))
		} else {
			same = append(same, k.Exact(name))
		}
		if k.Show != nil {
			shown = append(shown, k.Show(name))
		} else {
			shown = append(shown, "CONCAT("+name+")")
		}
		exact = append(exact, k.Exact(name))
	}
	for i, k := range m.values {
		exact = append(exact, k.Exact(fmt.Sprintf("v%d", i)))
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
			def, part := m.keys[i].Def, v.String
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
	var cards schematest.Deck
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
	t.Logf("seed %d: %d mutations of %d schematest.Kinds, %d misses or false alarms; reported %v", seed, done, len(byName), misses, found)
	if found[Missing] < 20 || found[Extra] < 20 || found[Changed] < 100 {
		t.Errorf("seed %d: too little was changed to prove anything: %v", seed, found)
	}
	for _, k := range schematest.Kinds {
		if wanted >= 10_000 && (k.Little != nil && byName["a little of "+k.Def] == 0 || byName["another "+k.Def] == 0) {
			t.Errorf("seed %d: no value of %s was changed", seed, k.Def)
		}
	}
}

// truth is what a comparison must report: the keys of rows that differ, with their schematest.Kinds.
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
