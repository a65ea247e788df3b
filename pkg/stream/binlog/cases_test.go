package binlog

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// sqlCase is one file of the SQL cases. Those that say which rows a comparison must report
// are about what was changed behind the stream's back; the stream carries over the rest.
type sqlCase struct {
	name     string
	refuse   string // what the refusal must say; empty for none
	sections map[string][]string
}

// otherwise are cases for which this stream refuses what the file says can be carried over.
var otherwise = map[string]string{"071-generated-column-as-key": "generated column in the primary key"}

// long are cases with so large values that one way must do when time is short.
var long = []string{"021-long-values", "022-wide-rows-one-transaction", "053-differ-blob-tail", "090-thousand-columns", "132-fifty-thousand-rows"}

// unlogged changes rows that are in no binlog.
const unlogged = "061-differ-hidden-from-binlog"

func sqlCases(t *testing.T) []sqlCase {
	t.Helper()
	var out []sqlCase
	for _, dir := range []string{"../../diff/testdata/cases", "../testdata/cases"} {
		files, err := filepath.Glob(dir + "/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("no case files in %s: %v", dir, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, rest, ok := strings.Cut(string(raw), "\n-- section: ")
			if !ok {
				t.Fatalf("%s: no section", file)
			}
			c := sqlCase{name: strings.TrimSuffix(filepath.Base(file), ".sql"), sections: map[string][]string{}}
			if strings.Contains(head, "\n-- engine: mariadb") || c.name == unlogged {
				continue
			}
			c.refuse = otherwise[c.name]
			if _, expect, ok := strings.Cut(head, "\n-- expect: refuse "); ok {
				c.refuse, _, _ = strings.Cut(expect, "\n")
			}
			for _, section := range strings.Split(rest, "\n-- section: ") {
				name, text, _ := strings.Cut(section, "\n")
				for _, q := range strings.SplitAfter(text+"\n", ";\n") {
					if q = strings.TrimSuffix(strings.TrimSpace(q), ";"); q != "" {
						c.sections[name] = append(c.sections[name], q)
					}
				}
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b sqlCase) int { return strings.Compare(a.name, b.name) })
	return out
}

// TestCases runs the rows and the changes of each case through the stream and compares what
// both sides have stored, by queries that share nothing with it. A case that must be refused
// is refused at the start, or stops the stream for good.
func TestCases(t *testing.T) {
	small := options()
	small.Limit, small.Rows = 4096, 7
	ways := []struct {
		name string
		o    Options
		// atOnce applies rows and changes when all of them are there.
		atOnce bool
	}{
		{"as they come", options(), false},
		{"in pieces", small, true},
		{"at once", options(), true},
	}
	if os.Getenv("VIFL_TEST_LONG") == "" {
		ways = ways[:2]
	}
	for _, c := range sqlCases(t) {
		for i, way := range ways {
			if i > 0 && slices.Contains(long, c.name) && os.Getenv("VIFL_TEST_LONG") == "" {
				break
			}
			t.Run(c.name+"/"+way.name, func(t *testing.T) { c.run(t, way.o, way.atOnce) })
		}
	}
}

func (c sqlCase) run(t *testing.T, o Options, atOnce bool) {
	r := emptied(t, o)
	script(t, world.source, c.sections["schema"]...)
	script(t, world.target, c.sections["schema"]...)
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		if c.refuse == "" || !says(err.Error(), c.refuse) {
			t.Fatalf("Start: %v, expected %q", err, c.refuse)
		}
		return
	}
	if atOnce {
		if err := r.stream.Stop(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	script(t, world.source, c.sections["rows"]...)
	if !atOnce {
		r.stopAtEnd()
		equal(t)
		r.resume()
	}
	script(t, world.source, c.sections["changes"]...)
	to := end(t)
	err := r.stream.StopAt(within(t, time.Minute), to)
	if c.refuse != "" {
		if !errors.Is(err, stream.ErrBlocked) || !says(err.Error(), c.refuse) {
			t.Fatalf("found %v, expected it blocked, and %q", err, c.refuse)
		}
		if err := r.stream.Resume(within(t, time.Minute)); !errors.Is(err, stream.ErrBlocked) {
			t.Errorf("Resume: %v, expected ErrBlocked", err)
		}
		if st, err := r.stream.Status(within(t, time.Minute)); err != nil || st.Position == to {
			t.Errorf("status %+v, %v, expected a position before the end", st, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	equal(t)
	c.check(t)
}

// check runs the check section on both sides, each on one connection; what it selects must be
// the same.
func (c sqlCase) check(t *testing.T) {
	t.Helper()
	if a, b := script(t, world.source, c.sections["check"]...), script(t, world.target, c.sections["check"]...); !slices.Equal(a, b) {
		t.Errorf("the check found\n%.1000q on the target, expected\n%.1000q", b, a)
	}
}

// says compares as the cases demand: case ignored, and space, - and _ the same.
func says(text, want string) bool {
	norm := func(s string) string {
		return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(s))
	}
	return strings.Contains(norm(text), norm(want))
}

// script runs statements on one new connection with the server's own settings, and returns
// the rows they gave.
func script(t testing.TB, s *mysqld.Server, statements ...string) (rows []string) {
	t.Helper()
	target := s.Target(s.Name())
	target.Database = database
	db, err := mysqlconn.Connect(within(t, time.Minute), target, func(c *mysql.Config) { c.Params, c.InterpolateParams = map[string]string{}, false })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range append([]string{"SET NAMES utf8mb4"}, statements...) {
		r, err := db.QueryContext(within(t, 2*time.Minute), q)
		if err != nil {
			t.Fatalf("%s: %.300q: %v", s.Name(), q, err)
		}
		if rows, err = collect(rows, r); err != nil {
			t.Fatalf("%s: %.300q: %v", s.Name(), q, err)
		}
	}
	return rows
}

// collect appends rows as text.
func collect(out []string, rows *sql.Rows) ([]string, error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return out, err
	}
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return out, err
		}
		var row strings.Builder
		for _, v := range values {
			fmt.Fprintf(&row, "%t %d:%s ", v.Valid, len(v.String), v.String)
		}
		out = append(out, row.String())
	}
	return out, rows.Err()
}

// equal compares what both sides have stored in every table of the source.
func equal(t *testing.T) {
	t.Helper()
	s, err := schema.Read(within(t, time.Minute), world.legacy, database)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		var columns []string
		for _, c := range table.Columns {
			stored := streamtest.Stored(c)
			columns = append(columns, fmt.Sprintf("if(length(%[1]s) > 4000, concat(length(%[1]s), ' ', sha2(%[1]s, 512)), %[1]s)", stored))
		}
		q := "select " + strings.Join(columns, ", ") + " from " + schema.Quote(table.Name)
		a, b := script(t, world.source, q), script(t, world.target, q)
		slices.Sort(a)
		slices.Sort(b)
		if len(a) != len(b) {
			t.Errorf("table %q: %d rows on the target, expected %d", table.Name, len(b), len(a))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("table %q: the target has\n%.600s\nexpected\n%.600s", table.Name, b[i], a[i])
			}
		}
	}
}
