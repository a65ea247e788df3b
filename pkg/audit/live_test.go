package audit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/audit/querylog"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// What a real server writes of the same session into its general log, its slow log and its
// statement digests is audited alike.
func TestLogsOfARealServer(t *testing.T) {
	s := mysqldtest.Start(t, mysqldtest.Options{})
	schema, err := os.ReadFile("testdata/chat.schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	db := mysqldtest.Open(t, s)
	mysqldtest.Exec(t, s, "CREATE DATABASE chat")
	for _, stmt := range strings.Split(string(schema), ";\n") {
		if i := strings.Index(stmt, "CREATE TABLE"); i >= 0 {
			mysqldtest.Exec(t, s, "USE chat", stmt[i:])
		}
	}
	mysqldtest.Exec(t, s, "SET GLOBAL long_query_time = 0", "SET GLOBAL general_log = ON", "SET GLOBAL slow_query_log = ON", "TRUNCATE performance_schema.events_statements_summary_by_digest")
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"SET SESSION long_query_time = 0", "USE chat", "BEGIN",
		"SELECT *\nFROM messages\nWHERE channel_id = 7 /* page\n1 */",
		"SELECT * FROM messages WHERE channel_id IN (1, 2, 3)",
		"INSERT INTO reactions VALUES (7, 1, 2, 'it''s; \\'fine\\''), (7, 2, 2, 'x')",
		"DELETE FROM reactions WHERE channel_id = 7",
		"COMMIT",
		"SELECT * FROM messages WHERE user_id = 4",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	prepared, err := conn.PrepareContext(ctx, "SELECT text FROM messages WHERE channel_id = ?")
	if err != nil {
		t.Fatal(err)
	}
	for channel := range 3 {
		if _, err := prepared.ExecContext(ctx, channel); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	var dir, general, slow string
	if err := db.QueryRow("SELECT @@datadir, @@general_log_file, @@slow_query_log_file").Scan(&dir, &general, &slow); err != nil {
		t.Fatal(err)
	}
	want := map[string]planner.Class{
		"select * from messages where channel_id = :channel_id":                                   planner.OneShard,
		"select * from messages where channel_id in ::vtg1":                                       planner.Several,
		"insert into reactions values (:vtg1, :vtg2, :vtg3, :vtg4), (:vtg5, :vtg6, :vtg7, :vtg8)": planner.Several,
		"delete from reactions where channel_id = :channel_id":                                    planner.OneShard,
		"select * from messages where user_id = :user_id":                                         planner.Scatter,
		"select `text` from messages where channel_id = :channel_id":                              planner.OneShard,
	}
	check := func(name string, a *Auditor, transactions bool) {
		t.Helper()
		r := a.Result()
		for text, class := range want {
			i := slices.IndexFunc(r.Queries, func(q Query) bool { return q.Text == text })
			if i < 0 {
				var have []string
				for _, q := range r.Queries {
					have = append(have, q.Text)
				}
				t.Errorf("%s: %s is missing in\n%s", name, text, strings.Join(have, "\n"))
				continue
			}
			calls := uint64(1)
			if strings.Contains(text, "`text`") {
				calls = 3
				if name == "digests" {
					calls = 4 // MySQL counts the Prepare, too
				}
			}
			if q := r.Queries[i]; q.Class != class || q.Calls != calls {
				t.Errorf("%s: %s: class %s (%s), %d calls, want %s, %d", name, text, q.Class, q.Reason, q.Calls, class, calls)
			}
		}
		if transactions && (r.Transactions == nil || r.Transactions.Several != 1) {
			t.Errorf("%s: transactions %+v, want one on several shards", name, r.Transactions)
		}
	}
	for format, path := range map[querylog.Format]string{querylog.General: general, querylog.Slow: slow} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := querylog.Detect(path, log); err != nil || f != format {
			t.Errorf("%s is detected as %s, %v", format, f, err)
		}
		a := New(Options{Planner: chatPlanner(t, 8)})
		if err := querylog.Read(ctx, strings.NewReader(string(log)), format, func(e querylog.Event) error { return a.Observe(ctx, e) }); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		check(string(format), a, true)
	}
	a := New(Options{Planner: chatPlanner(t, 8)})
	if err := querylog.ReadDigests(context.Background(), db, "chat", func(e querylog.Event) error { return a.Observe(ctx, e) }); err != nil {
		t.Fatal(err)
	}
	check("digests", a, false)
}

// The page lists every finding in the words that the audit prints.
func TestFindingsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]kind{kinds, landingKinds} {
		for _, k := range list {
			if row := "| " + k.id + " | " + k.title + " | " + k.why + " |"; !strings.Contains(string(page), row) {
				t.Errorf("docs/audit.md does not have the row %s", row)
			}
		}
	}
	for _, m := range Metrics() {
		if !strings.Contains(string(page), "`"+m+"`") {
			t.Errorf("docs/audit.md does not have the metric %s", m)
		}
	}
}
