package diff

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema/schematest"
)

// testUnkeyed is of tables without a key.
func testUnkeyed(t *testing.T, s servers) {
	t.Run("random rows", func(t *testing.T) { testUnkeyedMutations(t, s) })
	t.Run("more differences than are listed or held", func(t *testing.T) { testUnkeyedMany(t, s) })
	t.Run("rows larger than a packet", func(t *testing.T) { testUnkeyedPacket(t, s) })
	t.Run("nothing that reads single rows takes it", func(t *testing.T) { testUnkeyedRefused(t, s) })
	t.Run("a broken connection is an error", func(t *testing.T) { testUnkeyedKilled(t, s) })
}

// testUnkeyedMutations changes the target of tables without a key, in which half the rows
// are there more than once, and expects exactly what differs by the test's own expressions.
func testUnkeyedMutations(t *testing.T, s servers) {
	wanted, seed := 60, rand.Uint64()
	if os.Getenv("VIFL_TEST_LONG") == "1" {
		wanted = 3000
	}
	s.fresh(t, "mutants")
	a, b := plainSide(t, s.a, "mutants", 2), plainSide(t, s.b, "mutants", 2)
	var cards schematest.Deck
	found, done := map[Kind]uint64{}, 0
	for i := uint64(0); done < wanted; i++ {
		r := rand.New(rand.NewPCG(seed, i))
		m := &mutant{r: r, rows: 30}
		var cols, exact []string
		for n := range 1 + r.IntN(5) {
			k := cards.Deal(r)
			m.values = append(m.values, k)
			cols = append(cols, fmt.Sprintf("v%d %s", n, k.Def))
			exact = append(exact, k.Exact(fmt.Sprintf("v%d", n)))
		}
		var rows []string
		for range m.rows {
			if len(rows) > 0 && r.IntN(2) == 0 {
				rows = append(rows, rows[r.IntN(len(rows))])
				continue
			}
			var vals []string
			for _, k := range m.values {
				vals = append(vals, m.orNull(k))
			}
			rows = append(rows, "("+strings.Join(vals, ",")+")")
		}
		restart(t, a, b)
		s.both(t, "mutants", "SET SESSION sql_mode = ''", "DROP TABLE IF EXISTS m", "CREATE TABLE m ("+strings.Join(cols, ",")+")", "INSERT IGNORE INTO m VALUES "+strings.Join(rows, ","))
		restart(t, a, b)
		count := func(c *sql.Conn) map[string]uint64 {
			out := map[string]uint64{}
			_, rows := mysqldtest.Rows(t, c, "SELECT "+strings.Join(exact, ",")+" FROM mutants.m")
			for _, row := range rows {
				out[joined(row)]++
			}
			return out
		}
		sch, left := readSchema(t, a.Conns[0], "mutants"), count(a.Conns[0])
		for range mutationsPerTable {
			v := r.IntN(len(m.values))
			set := fmt.Sprintf("v%d = %s", v, m.orNull(m.values[v]))
			change := []string{
				"DELETE FROM m LIMIT 1",
				"INSERT INTO m SELECT * FROM m LIMIT 1",
				"INSERT INTO m SELECT * FROM m LIMIT 2",
				"DELETE FROM m LIMIT 2",
				"UPDATE IGNORE m SET " + set + " ORDER BY RAND() LIMIT 1",
				"UPDATE IGNORE m SET " + set + " ORDER BY RAND() LIMIT 2",
				"UPDATE IGNORE m SET " + set + " ORDER BY RAND() LIMIT 4",
			}[r.IntN(7)]
			script(t, s.b, "mutants", []string{"SET SESSION sql_mode = ''", change})
			restart(t, b)
			right := count(b.Conns[0])
			var missing, extra uint64
			for row, n := range left {
				missing += n - min(n, right[row])
			}
			for row, n := range right {
				extra += n - min(n, left[row])
			}
			report, err := Compare(context.Background(), a, []Side{b}, sch, Options{}, nil)
			if err != nil {
				t.Fatalf("seed %d, table %d: %v\n%s", seed, i, err, cols)
			}
			got := map[Kind]uint64{}
			for _, d := range report.Targets[0].Differences {
				got[d.Kind] += d.Copies
				if len(d.Columns) != len(m.values) {
					t.Errorf("seed %d, table %d: %d columns of %d: %s", seed, i, len(d.Columns), len(m.values), d)
				}
			}
			if got[Missing] != missing || got[Extra] != extra || report.Differing() != missing+extra || report.Targets[0].Truncated() {
				t.Fatalf("seed %d, table %d: %d missing, %d extra, %d in all; expected %d and %d; after %s in %s", seed, i, got[Missing], got[Extra], report.Differing(), missing, extra, change, cols)
			}
			found[Missing] += missing
			found[Extra] += extra
			done++
		}
	}
	t.Logf("seed %d: %d mutations, found %v", seed, done, found)
	if found[Missing] < 50 || found[Extra] < 50 {
		t.Errorf("seed %d: too little was changed to prove anything: %v", seed, found)
	}
}

// testUnkeyedMany: the list is bounded; what is not listed is counted, or bounded from below.
func testUnkeyedMany(t *testing.T, s servers) {
	s.fresh(t, "lots")
	s.both(t, "lots", "SET SESSION cte_max_recursion_depth = 100000", "CREATE TABLE t (a INT, v INT)", fmt.Sprintf(numbers, "t", 30000, "i DIV 2, 7"))
	if r := s.compare(t, "lots", Options{MaxRowsPerSecond: 1_000_000}); !r.Equal() || r.Rows != 30000 || r.Tables[0] != r.Targets[0].Tables[0] || r.Tables[0].Rows != 30000 {
		t.Errorf("equal tables: %+v", r)
	}
	script(t, s.b, "lots", []string{"UPDATE t SET v = 8 WHERE a < 500"})
	// Every row of these differs on both sides: 999 missing, 999 extra, each pair listed once.
	r := s.compare(t, "lots", Options{})
	got := r.Targets[0]
	if got.Differing != 1998 || len(got.Differences) != 1000 || got.Truncated() || got.AtLeast {
		t.Errorf("%d differ, %d listed, truncated: %t, at least: %t", got.Differing, len(got.Differences), got.Truncated(), got.AtLeast)
	}
	r = s.compare(t, "lots", Options{MaxListed: 50})
	got = r.Targets[0]
	if got.Differing != 1998 || len(got.Differences) != 50 || !got.Truncated() || got.AtLeast {
		t.Errorf("bound of 50: %d differ, %d listed, truncated: %t, at least: %t", got.Differing, len(got.Differences), got.Truncated(), got.AtLeast)
	}
	// A few hundred rows at once: all of them are listed in turns, or the rest is bounded.
	if got = s.compare(t, "lots", Options{matched: 300}).Targets[0]; got.Differing != 1998 || len(got.Differences) != 1000 || got.AtLeast {
		t.Errorf("in groups: %d differ, %d listed, at least: %t", got.Differing, len(got.Differences), got.AtLeast)
	}
	if got = s.compare(t, "lots", Options{matched: 300, MaxListed: 50}).Targets[0]; got.Differing < 900 || got.Differing > 1998 || len(got.Differences) != 50 || !got.AtLeast || !got.Truncated() {
		t.Errorf("in groups, bound of 50: %d differ, %d listed, at least: %t", got.Differing, len(got.Differences), got.AtLeast)
	}
}

func testUnkeyedPacket(t *testing.T, s servers) {
	s.fresh(t, "packet")
	s.both(t, "packet", "CREATE TABLE t (id INT, a LONGBLOB, b LONGTEXT)",
		"INSERT INTO t VALUES (1, REPEAT('a', 900000), REPEAT('é', 400000)), (2, REPEAT('b', 1500000), NULL), (2, REPEAT('b', 1500000), NULL), (3, '', '')")
	script(t, s.b, "packet", []string{"UPDATE t SET a = CONCAT(LEFT(a, 899999), 'b') WHERE id = 1"})
	db := mysqldtest.Open(t, s.b)
	if _, err := db.Exec("SET GLOBAL max_allowed_packet = 1048576"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := db.Exec("SET GLOBAL max_allowed_packet = 67108864"); err != nil {
			t.Error(err)
		}
	}()
	r := s.compare(t, "packet", Options{})
	if got := r.Targets[0]; got.Differing != 2 || len(got.Differences) != 2 || r.Rows != 4 {
		t.Errorf("%d of %d rows differ: %v", got.Differing, r.Rows, got.Differences)
	}
}

func testUnkeyedRefused(t *testing.T, s servers) {
	s.fresh(t, "refused")
	s.both(t, "refused", "CREATE TABLE t (a INT, v INT)", "CREATE TABLE k (a INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1)", "INSERT INTO k VALUES (1,1)")
	script(t, s.b, "refused", []string{"INSERT INTO t VALUES (1,1)", "UPDATE k SET v = 2"})
	ctx := context.Background()
	side := plainSide(t, s.a, "refused", 1)
	sch := readSchema(t, side.Conns[0], "refused")
	if got := Unkeyed(sch); !slices.Equal(got, []string{"t"}) {
		t.Errorf("without a key: %v", got)
	}
	a, b := Pool{Name: "a", Database: "refused", DB: mysqldtest.Open(t, s.a)}, Pool{Name: "b", Database: "refused", DB: mysqldtest.Open(t, s.b)}
	report, err := Drift(ctx, a, b, sch, 1, Options{}, func(context.Context) error { return nil }, nil)
	if err != nil || report.Differing() != 1 || report.Equal() || !slices.Equal(report.NotCompared, []string{"t"}) {
		t.Errorf("drift: %+v, %v", report, err)
	}
	script(t, s.b, "refused", []string{"UPDATE k SET v = 1"})
	if report, err = Drift(ctx, a, b, sch, 1, Options{}, func(context.Context) error { return nil }, nil); err != nil || report.Differing() != 0 || report.Equal() {
		t.Errorf("a report that left a table out says that it is equal: %+v, %v", report, err)
	}
	if _, err := Newest(ctx, a, []Pool{b}, sch, 10); !errors.Is(err, errNoKey) {
		t.Errorf("newest: %v", err)
	}
	if _, err := Explain(ctx, a, []Pool{b}, sch, "t", "1"); !errors.Is(err, ErrKey) {
		t.Errorf("explain: %v", err)
	}
	target := s.compare(t, "refused", Options{}).Targets[0]
	if len(target.Differences) != 1 || target.Differences[0].Copies != 1 || target.Differences[0].Kind != Extra {
		t.Fatalf("%+v", target)
	}
	if _, err := Repair(ctx, side, sch, &target); !errors.Is(err, errNoKey) {
		t.Errorf("repair: %v", err)
	}
	if _, err := Recheck(ctx, side, plainSide(t, s.b, "refused", 1), sch, target.Differences); !errors.Is(err, errNoKey) {
		t.Errorf("recheck: %v", err)
	}
}

func testUnkeyedKilled(t *testing.T, s servers) {
	s.fresh(t, "killed")
	s.both(t, "killed", "SET SESSION cte_max_recursion_depth = 100000", "CREATE TABLE t (id INT, v VARCHAR(200))", fmt.Sprintf(numbers, "t", 30000, "i, REPEAT('x', 200)"))
	for i, side := range []string{"source", "target"} {
		a, b := snapshot(t, s.a, "killed", 1), snapshot(t, s.b, "killed", 1)
		victim := []*sql.Conn{a.Conns[0], b.Conns[0]}[i]
		var id uint64
		if err := victim.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		admin := mysqldtest.Open(t, s.at(i))
		calls := 0
		// Slowly, so that the kill is in the middle: the buffers between hold thousands of rows.
		r, err := Compare(context.Background(), a, []Side{b}, readSchema(t, a.Conns[0], "killed"), Options{MaxRowsPerSecond: 40_000}, func(Progress) {
			if calls++; calls == 2 {
				if _, err := admin.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
					t.Error(err)
				}
			}
		})
		if err == nil || r != nil || !strings.Contains(err.Error(), s.at(i).Name()+":") {
			t.Errorf("a connection of the %s was killed: report %v, error %v", side, r != nil, err)
		}
		closeSide(a)
		closeSide(b)
	}
}
