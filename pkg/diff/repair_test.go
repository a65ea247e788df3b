package diff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/schema/schematest"
)

// The printed statements make the target equal: tables of every type after many mutations,
// and documents with every type inside.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.fresh(t, "fix")
	script(t, s.a, "fix", []string{"SET sql_mode = ''",
		"CREATE TABLE j (id INT PRIMARY KEY, d JSON)",
		`INSERT INTO j VALUES (1, JSON_ARRAY(1, CAST(1 AS UNSIGNED), 18446744073709551615, -1, 1.5, 1.5e0, 0.50, CAST(12345.50 AS DECIMAL(30,10)), CAST(7 AS DECIMAL(5,0)), 1e100, -0e0, 'x', '1', '2001-01-01', TRUE, NULL))`,
		`INSERT INTO j VALUES (2, JSON_OBJECT('a', DATE'2001-01-01', 'b', TIME'-10:00:00.5', 'c', TIMESTAMP'2001-01-01 10:00:00.000001', 'd"e', JSON_OBJECT('<é>', CAST(X'00FF' AS BINARY)), '', JSON_ARRAY(), 'f g', JSON_OBJECT()))`,
		`INSERT INTO j VALUES (3, 'null'), (4, NULL), (5, '"NULL"'), (6, CAST(1.50 AS JSON)), (7, CAST(DATE'2001-01-01' AS JSON)), (8, '"\\u0000\\n\\"\\\\ 😀"')`,
		"CREATE TABLE u (id INT PRIMARY KEY, `select` INT NOT NULL, g INT AS (`select` + 1) STORED, h INT INVISIBLE, UNIQUE (`select`))",
		"INSERT INTO u (id, `select`, h) VALUES (1, 10, 1), (2, 20, 2), (3, 30, NULL)",
		"CREATE TABLE c (id INT PRIMARY KEY, u INT, FOREIGN KEY (u) REFERENCES u (id) ON DELETE CASCADE)", "INSERT INTO c VALUES (1, 1), (2, 2)",
		"CREATE TABLE auto (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(5) COLLATE utf8mb4_0900_ai_ci UNIQUE)", "INSERT INTO auto VALUES (5, 'a')", "UPDATE auto SET id = 0 WHERE id = 5",
		"CREATE TABLE ci (k VARCHAR(5) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY)", "INSERT INTO ci VALUES ('A'), ('é')",
		"CREATE TABLE uk (v JSON, k VARCHAR(5) NOT NULL, n INT NOT NULL, UNIQUE (k, n), UNIQUE (n))", "INSERT INTO uk VALUES (NULL, 'a', 1), ('[1, 2.50]', 'a', 2), ('{}', 'b', 3)"})
	script(t, s.b, "fix", []string{"CREATE TABLE j (id INT PRIMARY KEY, d JSON)", "INSERT INTO j VALUES (1, '[1]'), (3, NULL), (4, 'null'), (9, '1')",
		"CREATE TABLE u (id INT PRIMARY KEY, `select` INT NOT NULL, g INT AS (`select` + 1) STORED, h INT INVISIBLE, UNIQUE (`select`))",
		"INSERT INTO u (id, `select`, h) VALUES (1, 20, 1), (2, 10, 2), (4, 30, NULL)",
		"CREATE TABLE c (id INT PRIMARY KEY, u INT, FOREIGN KEY (u) REFERENCES u (id) ON DELETE CASCADE)", "INSERT INTO c VALUES (1, 1), (2, 2)",
		"CREATE TABLE auto (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(5) COLLATE utf8mb4_0900_ai_ci UNIQUE)",
		"CREATE TABLE ci (k VARCHAR(5) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY)", "INSERT INTO ci VALUES ('a'), ('e')",
		"CREATE TABLE uk (v JSON, k VARCHAR(5) NOT NULL, n INT NOT NULL, UNIQUE (k, n), UNIQUE (n))", "INSERT INTO uk VALUES (NULL, 'A', 1), ('[1, 2.5e0]', 'a', 3), ('{}', 'b', 2), (NULL, 'c', 9)"})
	if n := s.repair(t, "fix"); n < 18 {
		t.Errorf("only %d differences", n)
	}

	s.fresh(t, "mutants")
	seed := rand.Uint64()
	var cards schematest.Deck
	repaired := 0
	for i := range uint64(12) {
		m := newMutant(rand.New(rand.NewPCG(seed, i)), &cards)
		s.both(t, "mutants", m.create()...)
		statements := []string{"SET SESSION sql_mode = ''"}
		for range 10 {
			_, change := m.mutate()
			statements = append(statements, change...)
		}
		script(t, s.b, "mutants", statements)
		repaired += s.repair(t, "mutants")
		if t.Failed() {
			t.Fatalf("seed %d, table %d", seed, i)
		}
	}
	if repaired < 30 {
		t.Errorf("seed %d: only %d rows were repaired", seed, repaired)
	}
}

// repair compares, runs the printed statements on b, and compares again.
func (s servers) repair(t *testing.T, database string) int {
	t.Helper()
	a, b := snapshot(t, s.a, database, 1), snapshot(t, s.b, database, 1)
	sch := readSchema(t, a.Conns[0], database)
	r, err := Compare(context.Background(), a, []Side{b}, sch, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing was written since: each of them still differs, once, and in the same way.
	still, err := Recheck(context.Background(), a, b, sch, r.Targets[0].Differences)
	if err != nil {
		t.Fatal(err)
	}
	if got, expected := lines(still), lines(&r.Targets[0]); !slices.Equal(got, expected) {
		t.Errorf("read again by key:\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
	statements, err := Repair(context.Background(), a, sch, still)
	// An open snapshot keeps the tables from being dropped.
	for _, c := range []Side{a, b} {
		if _, cerr := c.Conns[0].ExecContext(context.Background(), "COMMIT"); cerr != nil {
			t.Fatal(cerr)
		}
	}
	closeSide(a)
	closeSide(b)
	if err != nil {
		t.Fatal(err)
	}
	script(t, s.b, database, statements)
	a, b = snapshot(t, s.a, database, 1), snapshot(t, s.b, database, 1)
	again, err := Compare(context.Background(), a, []Side{b}, sch, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Side{a, b} {
		if _, cerr := c.Conns[0].ExecContext(context.Background(), "COMMIT"); cerr != nil {
			t.Fatal(cerr)
		}
	}
	closeSide(a)
	closeSide(b)
	if left, err := Recheck(context.Background(), plainSide(t, s.a, database, 1), plainSide(t, s.b, database, 1), sch, r.Targets[0].Differences); err != nil || left.Differing != 0 {
		t.Errorf("behind the repair: %v, %v", left, err)
	}
	if !again.Equal() {
		t.Errorf("%d row(s) still differ:\n%s\nafter\n%s", again.Differing(), strings.Join(lines(&again.Targets[0]), "\n"), strings.Join(statements, ";\n"))
	}
	return int(r.Differing())
}

func lines(r *TargetReport) []string {
	var out []string
	for _, d := range r.Differences {
		out = append(out, fmt.Sprintf("%s %v", d, d.Columns))
	}
	slices.Sort(out)
	return out
}
