package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest/cases"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
)

// script runs statements on one new connection, as an application would.
func script(t testing.TB, s *mysqld.Server, database string, statements []string) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	target := s.Target(s.Name())
	target.Database = database
	db, err := mysqlconn.Connect(ctx, target, func(c *mysql.Config) { c.Params = map[string]string{}; c.InterpolateParams = false })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
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

// preflight are the cases that something else refuses, before there is a stream: what they
// show is not in the binlog.
var preflight = []int{84, 88}

// TestCases runs each case's rows and changes through the stream, and compares what is
// stored, byte for byte, by queries that share nothing with it. A case that expects a
// refusal must stop the stream, with nothing behind the cause applied.
func TestCases(t *testing.T) {
	all, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, "sql_require_primary_key=OFF")
	for _, c := range all {
		if _, _, differ := c.Differ(); !c.MySQL() || differ || slices.Contains(preflight, c.Number) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) { e.runCase(t, c) })
	}
}

func (e *ends) runCase(t *testing.T, c cases.Case) {
	s := New(e.config())
	ctx := within(t, 2*time.Minute)
	if err := s.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	e.both(t, "drop database if exists slack", "create database slack default character set utf8mb4")
	script(t, e.source, database, c.Sections["schema"])
	script(t, e.target, database, c.Sections["schema"])
	refusal, refuse := c.Refuse()
	err := s.Start(ctx, e.end(t))
	if refuse && err != nil {
		if !says(err.Error(), refusal) {
			t.Errorf("Start says %v, expected %q", err, refusal)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w := work(t, e.config())
	defer w.kill()
	script(t, e.source, database, c.Sections["rows"])
	stopAt(t, s, e.end(t))
	e.compare(t, "rows")
	if err := s.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	script(t, e.source, database, c.Sections["changes"])
	if refuse {
		e.refused(t, s, refusal)
		return
	}
	stopAt(t, s, e.end(t))
	e.compare(t, "changes")
	for _, q := range c.Sections["check"] {
		if strings.HasPrefix(strings.ToUpper(q), "SELECT") {
			if a, b := contents(t, e.source, q), contents(t, e.target, q); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("check %q: %v on the source, %v on the target", q, a, b)
			}
			continue
		}
		script(t, e.source, database, []string{q})
		script(t, e.target, database, []string{q})
	}
}

// refused expects the stream to have stopped by itself, before the end, for good.
func (e *ends) refused(t *testing.T, s *Stream, why string) {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		st, err := s.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.State == stream.Failed {
			if !says(st.Message, why) {
				t.Errorf("the stream says %q, expected %q", st.Message, why)
			}
			if st.Blocked == "" {
				t.Errorf("nothing to resolve: %+v", st)
			}
			break
		}
		if st.State == stream.Stopped || ctx.Err() != nil {
			t.Fatalf("the stream is %+v, expected a refusal", st)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := s.Resume(ctx); err == nil {
		t.Error("a stream that cannot go on was resumed")
	}
}

// says compares as the cases demand: case ignored, and space, - and _ the same.
func says(text, want string) bool {
	norm := func(s string) string {
		return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(s))
	}
	return strings.Contains(norm(text), norm(want))
}

// stored are expressions that show what a column holds, whatever its collation or format.
func stored(c schema.Column) string {
	n := schema.Quote(c.Name)
	switch c.Type {
	case "float":
		return "CAST(" + n + " AS DOUBLE)"
	case "enum", "set", "bit":
		return n + "+0"
	case "json":
		return "CONCAT_WS('/', JSON_TYPE(" + n + "), " + typesInside(n) + ", HEX(CAST(" + n + " AS CHAR)))"
	case "tinyint", "smallint", "mediumint", "int", "bigint", "double", "decimal", "year", "date", "time", "datetime", "timestamp":
		return n
	}
	return "HEX(" + n + ")"
}

// typesInside lists the types of all members and elements of a document.
func typesInside(n string) string {
	return "(SELECT GROUP_CONCAT(JSON_TYPE(jt.v) ORDER BY jt.o) FROM JSON_TABLE(JSON_EXTRACT(JSON_ARRAY(" + n + "), '$**[*]', '$**.*'), '$[*]' COLUMNS (o FOR ORDINALITY, v JSON PATH '$')) jt)"
}

// compare compares all tables of both ends.
func (e *ends) compare(t testing.TB, when string) {
	t.Helper()
	s, err := schema.Read(context.Background(), e.legacy, database)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		var cols []string
		for _, c := range table.Columns {
			cols = append(cols, stored(c))
		}
		q := "SELECT " + strings.Join(cols, ", ") + " FROM " + schema.Quote(table.Name)
		a, b := contents(t, e.source, q), contents(t, e.target, q)
		if len(a) != len(b) {
			t.Errorf("%s: table %q: %d rows on the source, %d on the target", when, table.Name, len(a), len(b))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("%s: table %q: row %d:\n source %.300s\n target %.300s", when, table.Name, i, a[i], b[i])
			}
		}
	}
}

func contents(t testing.TB, s *mysqld.Server, q string) []string {
	t.Helper()
	target := s.Target(s.Name())
	target.Database = database
	db, err := mysqlconn.Connect(within(t, time.Minute), target)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(q)
	if err != nil {
		t.Fatalf("%s: %.300s: %v", s.Name(), q, err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, dest := make([]sql.NullString, len(cols)), make([]any, len(cols))
	for i := range values {
		dest[i] = &values[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i, v := range values {
			if v.Valid {
				fmt.Fprintf(&b, "%s=%q ", cols[i], v.String)
			} else {
				fmt.Fprintf(&b, "%s=NULL ", cols[i])
			}
		}
		out = append(out, b.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
