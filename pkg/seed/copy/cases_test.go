package copy_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/seed/copy"
)

// section gives the statements of one section of a case file.
func section(t *testing.T, text, name string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "-- section: "+name+"\n")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n-- section: ")
	var out []string
	for _, s := range strings.SplitAfter(rest, ";\n") {
		if s = strings.TrimSuffix(strings.TrimSpace(s), ";"); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// TestCases copies each case's tables with chunks of 10 rows, 100 rows, and the default, and
// compares what is stored, byte for byte, by queries that share nothing with the copy.
func TestCases(t *testing.T) {
	ctx := context.Background()
	files, err := filepath.Glob("../testdata/cases/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	source := mysqldtest.Start(t, mysqldtest.Options{Name: "source", Extra: []string{"max_allowed_packet=64M"}})
	target := mysqldtest.Start(t, mysqldtest.Options{Name: "target", Extra: []string{"max_allowed_packet=64M", "gtid_mode=ON", "enforce_gtid_consistency=ON"}})
	src, tgt := mysqldtest.Open(t, source), mysqldtest.Open(t, target)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			run(t, src, "DROP DATABASE IF EXISTS x", "CREATE DATABASE x DEFAULT CHARACTER SET utf8mb4")
			for _, part := range []string{"schema", "rows"} {
				// The default sql_mode, as the cases demand.
				db := mysqldtest.Open(t, source, mysqlconn.WithParam("sql_mode", "DEFAULT"), mysqlconn.WithParam("time_zone", "DEFAULT"))
				run(t, db, append([]string{"USE x"}, section(t, string(raw), part)...)...)
			}
			for _, rows := range []int{10, 100, 0} {
				run(t, tgt, "DROP DATABASE IF EXISTS x")
				o := copy.Options{ChunkRows: rows, Scratch: true, Loaders: 3, IndexBytes: 1}
				if rows != 0 {
					o.RangeRows = uint64(rows) / 4
				}
				res, err := copy.Fill(ctx, copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 2)}, target.Target("target"), o)
				if err != nil {
					t.Fatalf("chunks of %d rows: %v", rows, err)
				}
				compare(t, src, tgt, "x", res.Rows)
			}
		})
	}
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	c, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, q := range statements {
		if _, err := c.ExecContext(ctx, q); err != nil {
			t.Fatalf("%.200s: %v", q, err)
		}
	}
}

func snapshots(t *testing.T, db *sql.DB, n int) []*sql.Conn {
	t.Helper()
	ctx := context.Background()
	var all []*sql.Conn
	for range n {
		c, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Raw(func(any) error { return nil })
			_, _ = c.ExecContext(ctx, "ROLLBACK")
			_ = c.Close()
		})
		for _, q := range []string{"SET SESSION transaction_isolation='REPEATABLE-READ'", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"} {
			if _, err := c.ExecContext(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, c)
	}
	return all
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
	return "(SELECT GROUP_CONCAT(IF(JSON_TYPE(jt.v) IN ('INTEGER','UNSIGNED INTEGER'),'INT',JSON_TYPE(jt.v)) ORDER BY jt.o) FROM JSON_TABLE(JSON_EXTRACT(JSON_ARRAY(" + n + "), '$**[*]', '$**.*'), '$[*]' COLUMNS (o FOR ORDINALITY, v JSON PATH '$')) jt)"
}

func compare(t *testing.T, src, tgt *sql.DB, database string, rows uint64) {
	t.Helper()
	s, err := schema.Read(context.Background(), src, database)
	if err != nil {
		t.Fatal(err)
	}
	var total uint64
	for _, table := range s.Tables {
		var cols []string
		for _, c := range table.Columns {
			cols = append(cols, stored(c))
		}
		q := "SELECT " + strings.Join(cols, ", ") + " FROM " + schema.Quote(database) + "." + schema.Quote(table.Name)
		a, b := dump(t, src, q), dump(t, tgt, q)
		total += uint64(len(a))
		if len(a) != len(b) {
			t.Errorf("table %q: %d rows on the source, %d on the target", table.Name, len(a), len(b))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("table %q: row %d:\n source %.300s\n target %.300s", table.Name, i, a[i], b[i])
			}
		}
		if x, y := autoIncrement(t, src, database, table.Name), autoIncrement(t, tgt, database, table.Name); y < x {
			t.Errorf("table %q: next AUTO_INCREMENT is %d on the source, %d on the target", table.Name, x, y)
		}
	}
	other, err := schema.Read(context.Background(), tgt, database)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range schema.Differences(s, other) {
		t.Error(d)
	}
	if total != rows {
		t.Errorf("the copy says %d rows, there are %d", rows, total)
	}
	for _, v := range s.Views {
		q := "SELECT * FROM " + schema.Quote(database) + "." + schema.Quote(v)
		if a, b := dump(t, src, q), dump(t, tgt, q); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("view %q: %v and %v", v, a, b)
		}
	}
}

func autoIncrement(t *testing.T, db *sql.DB, database, table string) uint64 {
	t.Helper()
	s, err := schema.Read(context.Background(), db, database)
	if err != nil {
		t.Fatal(err)
	}
	return s.Table(table).AutoIncrement
}

func dump(t *testing.T, db *sql.DB, q string) []string {
	t.Helper()
	cols, rows := mysqldtest.Rows(t, db, q)
	var out []string
	for _, values := range rows {
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
	sort.Strings(out)
	return out
}
