package streamtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
)

// Case is one file of the SQL cases. Those that say which rows a comparison must report are
// about what was changed behind a stream's back; a stream carries over the rest.
type Case struct {
	Name     string
	Refuse   string // what the refusal must say; empty for none
	Sections map[string][]string
}

// unlogged changes rows that are in no binlog.
const unlogged = "061-differ-hidden-from-binlog"

// Cases are those of a MySQL source, in the order of their names. Of two with one name the streams' own
// counts: a diff compares tables that no stream can keep in step. It is for the tests of packages beside
// this one.
func Cases(t testing.TB) []Case {
	t.Helper()
	var out []Case
	for _, dir := range []string{"../testdata/cases", "../../diff/testdata/cases"} {
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
			c := Case{Name: strings.TrimSuffix(filepath.Base(file), ".sql"), Sections: map[string][]string{}}
			if strings.Contains(head, "\n-- engine: mariadb") || c.Name == unlogged || slices.ContainsFunc(out, func(own Case) bool { return own.Name == c.Name }) {
				continue
			}
			if _, expect, ok := strings.Cut(head, "\n-- expect: refuse "); ok {
				c.Refuse, _, _ = strings.Cut(expect, "\n")
			}
			for _, section := range strings.Split(rest, "\n-- section: ") {
				name, text, _ := strings.Cut(section, "\n")
				for _, q := range strings.SplitAfter(text+"\n", ";\n") {
					if q = strings.TrimSuffix(strings.TrimSpace(q), ";"); q != "" {
						c.Sections[name] = append(c.Sections[name], q)
					}
				}
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Case) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Says compares as the cases demand: case ignored, and space, - and _ the same.
func Says(text, want string) bool {
	norm := func(s string) string {
		return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(s))
	}
	return strings.Contains(norm(text), norm(want))
}

// scriptTimeout bounds one statement of a case.
const scriptTimeout = 2 * time.Minute

// Script runs statements on one new connection with the server's own settings, and returns
// the rows they gave.
func Script(t testing.TB, target mysqlconn.Target, database string, statements ...string) (rows []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	target.Database = database
	db, err := mysqlconn.Connect(ctx, target, func(c *mysql.Config) { c.Params, c.InterpolateParams = map[string]string{}, false })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range append([]string{"SET NAMES utf8mb4"}, statements...) {
		if rows, err = collect(rows, db, q); err != nil {
			t.Fatalf("%s: %.300q: %v", target.Name, q, err)
		}
	}
	return rows
}

// collect appends the rows of a statement as text.
func collect(out []string, db *sql.DB, query string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return out, err
	}
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

// Unequal compares what two servers have stored in every table of the source's database, by
// queries that share nothing with a stream, and says where they differ; empty when nowhere.
func Unequal(t testing.TB, source, target mysqlconn.Target, database string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := schema.Read(ctx, db, database)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, table := range s.Tables {
		var columns []string
		for _, c := range table.Columns {
			stored := Stored(c)
			columns = append(columns, fmt.Sprintf("if(length(%[1]s) > 4000, concat(length(%[1]s), ' ', sha2(%[1]s, 512)), %[1]s)", stored))
		}
		q := "select " + strings.Join(columns, ", ") + " from " + schema.Quote(table.Name)
		a, b := Script(t, source, database, q), Script(t, target, database, q)
		slices.Sort(a)
		slices.Sort(b)
		if len(a) != len(b) {
			out = append(out, fmt.Sprintf("table %q: %d rows on the target, expected %d", table.Name, len(b), len(a)))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				out = append(out, fmt.Sprintf("table %q: the target has\n%.600s\nexpected\n%.600s", table.Name, b[i], a[i]))
			}
		}
	}
	return out
}

const (
	// casesDoc has the table of what came of each case by each stream.
	casesDoc  = "../../../docs/streams.md"
	casesHead = "| case | vreplication | binlog |\n|---|---|---|\n"
	// writeDocs set, the table is written instead of being compared.
	writeDocs = "VIFL_WRITE_DOCS"
)

// Outcomes compares what came of cases by one stream (a column of the table) with what the
// docs say of it. Cases that were not run are left out.
func Outcomes(t testing.TB, column string, got map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(casesDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), casesHead)
	if !ok {
		t.Fatalf("%s has no table of the cases", casesDoc)
	}
	table, after, _ := strings.Cut(rest+"\n", "\n\n")
	n := slices.Index([]string{"case", "vreplication", "binlog"}, column)
	rows := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 3 {
			rows[cells[0]] = cells
		}
	}
	write := os.Getenv(writeDocs) != ""
	for name, outcome := range got {
		r := rows[name]
		if r == nil {
			r = []string{name, "", ""}
			rows[name] = r
		}
		if r[n] != outcome && !write {
			t.Errorf("%s by %s: %s, in %s it says %q (%s=1 writes what came of it)", name, column, outcome, casesDoc, r[n], writeDocs)
		}
		r[n] = outcome
	}
	if !write {
		return
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, "| "+strings.Join(r, " | ")+" |")
	}
	slices.Sort(lines)
	text := before + casesHead + strings.Join(lines, "\n") + "\n"
	if after = strings.TrimSpace(after); after != "" {
		text += "\n" + after + "\n"
	}
	if err := os.WriteFile(casesDoc, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
