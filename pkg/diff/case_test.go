package diff

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema"
)

// testTime bounds each script and comparison: minutes, because many tests share the machine.
const testTime = 9 * time.Minute

// testCase is one file of testdata/cases: a schema, rows, changes and what was done to the
// target behind the stream's back.
type testCase struct {
	name     string
	sections map[string][]string
	// table and rows are what the comparison must report; "" for no difference.
	table string
	rows  uint64
}

func readCase(t *testing.T, path string) testCase {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := testCase{name: strings.TrimSuffix(filepath.Base(path), ".sql"), sections: map[string][]string{}}
	section, statement, expect := "", "", ""
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "-- expect: "); ok && section == "" {
			expect = rest
			continue
		}
		if rest, ok := strings.CutPrefix(line, "-- section: "); ok {
			section = rest
			continue
		}
		if section == "" {
			continue
		}
		if statement += line + "\n"; strings.HasSuffix(line, ";") {
			c.sections[section] = append(c.sections[section], strings.TrimSuffix(strings.TrimSpace(statement), ";"))
			statement = ""
		}
	}
	switch f := strings.Fields(expect); {
	case len(f) == 1 && f[0] == "equal":
	case len(f) == 3 && f[0] == "differ":
		c.table = f[1]
		if c.rows, err = strconv.ParseUint(f[2], 10, 64); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	default:
		t.Fatalf("%s: cannot read what it expects: %q", path, expect)
	}
	if len(c.sections["schema"]) == 0 || strings.TrimSpace(statement) != "" {
		t.Fatalf("%s: no schema, or a statement without an end", path)
	}
	return c
}

// servers are two servers that know nothing of each other.
type servers struct{ a, b *mysqld.Server }

func start(t testing.TB, extra ...string) servers {
	t.Helper()
	var s servers
	s.a = mysqldtest.Start(t, mysqldtest.Options{Name: "a", Extra: extra})
	s.b = mysqldtest.Start(t, mysqldtest.Options{Name: "b", Extra: extra})
	return s
}

// at is a, then b.
func (s servers) at(i int) *mysqld.Server { return []*mysqld.Server{s.a, s.b}[i] }

// script runs statements on one new connection of a server, as an application would.
func script(t testing.TB, s *mysqld.Server, database string, statements []string) {
	t.Helper()
	if len(statements) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	target := s.Target(s.Name())
	target.Database = database
	db, err := mysqlconn.Connect(ctx, target, func(c *mysql.Config) { c.Params = map[string]string{}; c.InterpolateParams = false })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, q := range append([]string{"SET NAMES utf8mb4"}, statements...) {
		rows, err := conn.QueryContext(ctx, q)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			_ = rows.Close()
		}
		if err != nil {
			t.Fatalf("%s: %.200q: %v", s.Name(), q, err)
		}
	}
}

// fresh makes an empty database on both servers.
func (s servers) fresh(t testing.TB, database string) {
	t.Helper()
	for _, srv := range []*mysqld.Server{s.a, s.b} {
		script(t, srv, "", []string{"DROP DATABASE IF EXISTS " + database, "CREATE DATABASE " + database + " DEFAULT CHARACTER SET utf8mb4"})
	}
}

// both runs statements on both servers.
func (s servers) both(t testing.TB, database string, statements ...string) {
	t.Helper()
	script(t, s.a, database, statements)
	script(t, s.b, database, statements)
}

// snapshot is a side with n consistent snapshots, closed at the end of the test.
func snapshot(t testing.TB, s *mysqld.Server, database string, n int) Side {
	t.Helper()
	side := plainSide(t, s, database, n)
	for _, c := range side.Conns {
		for _, q := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
			if _, err := c.ExecContext(context.Background(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	return side
}

func plainSide(t testing.TB, s *mysqld.Server, database string, n int) Side {
	t.Helper()
	db, err := mysqlconn.Open(s.Target(s.Name()))
	if err != nil {
		t.Fatal(err)
	}
	side := Side{Name: s.Name(), Database: database}
	t.Cleanup(func() {
		for _, c := range side.Conns {
			_ = c.Close()
		}
		_ = db.Close()
	})
	for range n {
		c, err := db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		side.Conns = append(side.Conns, c)
	}
	return side
}

func readSchema(t testing.TB, c *sql.Conn, database string) *schema.Schema {
	t.Helper()
	s, err := schema.Read(context.Background(), c, database)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compare compares one database on both servers.
func (s servers) compare(t testing.TB, database string, o Options) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	a, b := snapshot(t, s.a, database, 2), snapshot(t, s.b, database, 2)
	defer closeSide(a)
	defer closeSide(b)
	r, err := Compare(ctx, a, []Side{b}, readSchema(t, a.Conns[0], database), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closeSide(s Side) {
	for _, c := range s.Conns {
		_ = c.Close()
	}
}

// chunked is the same fixed chunk size all the way; 0 is the default.
func chunked(n int) Options { return Options{ChunkRows: n, MinChunkRows: n, MaxChunkRows: n} }

// TestCases: the rows that were changed behind the stream's back are reported, each once,
// and no others, with chunks of 10 and 100 rows and of the default size.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.sql")
	if err != nil || len(files) < 60 {
		t.Fatalf("found %d cases, %v", len(files), err)
	}
	s := start(t, "max_allowed_packet = 64M", "sql_require_primary_key = OFF")
	for _, file := range files {
		c := readCase(t, file)
		t.Run(c.name, func(t *testing.T) {
			const database = "cases"
			s.fresh(t, database)
			for _, section := range []string{"schema", "rows", "changes"} {
				script(t, s.a, database, c.sections[section])
			}
			// What is random or depends on the clock must be the same on both sides, so b gets
			// a's rows where a case has such defaults.
			if strings.Contains(c.name, "093") {
				script(t, s.b, database, c.sections["schema"])
				copyTable(t, s, database, "dflt", "id, u, r, j, d, made, upd, s, n")
			} else {
				changes := c.sections["changes"]
				if strings.Contains(c.name, "061") {
					changes = onlyLogged(changes)
				}
				for _, statements := range [][]string{c.sections["schema"], c.sections["rows"], changes} {
					script(t, s.b, database, statements)
				}
			}
			script(t, s.b, database, c.sections["tamper"])
			for _, n := range []int{10, 100, 0} {
				c.check(t, s.compare(t, database, chunked(n)), fmt.Sprintf("chunks of %d", n))
			}
		})
	}
}

// onlyLogged leaves out what a stream would not carry.
func onlyLogged(statements []string) []string {
	var out []string
	logged := true
	for _, q := range statements {
		switch q {
		case "SET SESSION sql_log_bin = 0":
			logged = false
		case "SET SESSION sql_log_bin = 1":
			logged = true
		default:
			if logged {
				out = append(out, q)
			}
		}
	}
	return out
}

func copyTable(t *testing.T, s servers, database, table, columns string) {
	t.Helper()
	a, b := mysqldtest.Open(t, s.a), mysqldtest.Open(t, s.b)
	n := strings.Count(columns, ",") + 1
	rows, err := a.Query("SELECT " + columns + " FROM " + database + "." + table)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		values, dest := make([]sql.NullString, n), make([]any, n)
		args := make([]any, n)
		for i := range values {
			dest[i], args[i] = &values[i], &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		q := "INSERT INTO " + database + "." + table + " (" + columns + ") VALUES (?" + strings.Repeat(",?", n-1) + ")"
		if _, err := b.Exec(q, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func (c testCase) check(t *testing.T, r *Report, how string) {
	t.Helper()
	got := r.Targets[0]
	if got.Differing != c.rows || got.Listed() != c.rows {
		t.Errorf("%s: %d rows differ, expected %d: %v", how, got.Differing, c.rows, got.Differences)
	}
	seen := map[string]bool{}
	for _, d := range got.Differences {
		id := fmt.Sprintf("%q", d.Key)
		if d.Table != c.table || seen[id] {
			t.Errorf("%s: unexpected or repeated: %s", how, d)
		}
		seen[id] = true
	}
	if c.table == "" {
		for i, tr := range r.Tables {
			if tr != got.Tables[i] {
				t.Errorf("%s: equal, but the sums are %v and %v", how, tr, got.Tables[i])
			}
		}
	}
}
