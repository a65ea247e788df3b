package transaction_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/stream/transaction"
)

// section gives the statements of one section of a case file.
func section(text, name string) []string {
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

// cases carries over each case's rows and changes, both of them from the binlog, or must be
// blocked where the case says that a stream refuses.
func cases(t *testing.T, l *legacy) {
	var files []string
	for _, dir := range []string{"../../diff/testdata/cases", "../testdata/cases"} {
		more, err := filepath.Glob(dir + "/*.sql")
		if err != nil || len(more) == 0 {
			t.Fatalf("no case files in %s: %v", dir, err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(raw)
			if strings.Contains(text, "\n-- engine: mariadb") {
				t.Skip("of MariaDB alone")
			}
			if strings.HasPrefix(filepath.Base(file), "061-") {
				t.Skip("it changes rows that no binlog has")
			}
			l.run(t, "drop database if exists x", "create database x default character set utf8mb4")
			l.run(t, append([]string{"use x"}, section(text, "schema")...)...)
			l.copySchema(t, "x")
			from := l.end(t)
			l.run(t, append([]string{"use x"}, section(text, "rows")...)...)
			middle := l.end(t)
			l.run(t, append([]string{"use x"}, section(text, "changes")...)...)
			r := transaction.New(l.source(), "x", l.tables("copied"), limit)
			rows, err := l.read(t, r, from, middle)
			if err != nil {
				t.Fatal(err)
			}
			changes, err := l.read(t, r, middle, l.end(t))
			var b *transaction.Blocked
			if blocked := errors.As(err, &b); strings.Contains(text, "\n-- expect: refuse") {
				switch {
				case err == nil: // also right where it is carried over whole
					t.Log("carried over, though it might be refused")
				case !blocked:
					t.Fatal(err)
				default:
					t.Log(b)
					return
				}
			} else if err != nil {
				t.Fatal(err)
			}
			x := l.target(t)
			x.apply(rows)
			x.apply(changes)
			l.same(t, "x")
		})
	}
}
