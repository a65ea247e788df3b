package querylog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func read(f Format, log string) (events []Event, err error) {
	err = Read(context.Background(), strings.NewReader(log), f, func(e Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

// short prints an event: its connection, calls, seconds, rows, text.
func short(e Event) string {
	if e.Kind == Closed {
		return e.Connection + " closed"
	}
	cut := ""
	if e.Cut {
		cut = " cut"
	}
	return fmt.Sprintf("%s %d %g %d %q%s", e.Connection, e.Calls, e.Seconds, e.Rows, e.Text, cut)
}

const head = "/usr/sbin/mysqld, Version: 8.4.6 (MySQL Community Server - GPL). started with:\nTcp port: 3306  Unix socket: /tmp/mysql.sock\nTime                 Id Command    Argument\n"

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		log    string
		want   []string
	}{
		"general": {General, head +
			"2026-01-01T00:00:00.000000Z\t    8 Connect\tapp@web1 on slack using TCP/IP\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT 1\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT a,\n  b\nFROM t\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Prepare\tSELECT ?\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Execute\tSELECT 7\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Close stmt\t\n" +
			"2026-01-01T00:00:00.000000Z\t    8 Init DB\tslack\n" + head +
			"2026-01-01T00:00:00.000000Z\t    8 Quit\t\n",
			[]string{"8 closed", `8 1 0 0 "SELECT 1"`, `8 1 0 0 "SELECT a,\n  b\nFROM t"`, `8 1 0 0 "SELECT 7"`, "8 1 0 0 \"use `slack`\"", "8 closed"}},
		"general of MariaDB": {General, "260101 10:00:00\t     3 Query\tSELECT 1\n\t\t     4 Query\tSELECT 2\n", []string{`3 1 0 0 "SELECT 1"`, `4 1 0 0 "SELECT 2"`}},
		"slow": {Slow, head +
			"# Time: 2026-01-01T00:00:00.000000Z\n# User@Host: app[app] @ web1 [10.0.0.1]  Id:    12\n# Query_time: 0.250000  Lock_time: 0.000001 Rows_sent: 5  Rows_examined: 7\nuse slack;\nSET timestamp=1767225600;\nSELECT *\nFROM t;\n" +
			"# User@Host: app[app] @ web1 [10.0.0.1]  Id:    13\n# Query_time: 1.5  Lock_time: 0.000001 Rows_sent: 0  Rows_examined: 7\nSET timestamp=1767225600;\nUPDATE t SET a = 'x;y';\n" +
			"# User@Host: app[app] @ web1 [10.0.0.1]  Id:    13\n# Query_time: 0.1  Lock_time: 0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1767225600;\n# administrator command: Quit;\n",
			[]string{"12 1 0 0 \"use `slack`\"", `12 1 0.25 5 "SELECT *\nFROM t"`, `13 1 1.5 0 "UPDATE t SET a = 'x;y'"`, "13 closed"}},
		"sql":           {SQL, "-- first\nselect 1; select 'a;b' /* ; */;\n# c;\nselect `x;y`", []string{` 1 0 0 "-- first\nselect 1"`, ` 1 0 0 "select 'a;b' /* ; */"`, " 1 0 0 \"# c;\\nselect `x;y`\""}},
		"sql delimiter": {SQL, "delimiter //\nselect 1; select 2 //\ndelimiter ;\nselect 3;", []string{` 1 0 0 "select 1; select 2"`, ` 1 0 0 "select 3"`}},
		"sql escapes":   {SQL, `select 'it\'s;', 'it''s;'; select 2;`, []string{` 1 0 0 "select 'it\\'s;', 'it''s;'"`, ` 1 0 0 "select 2"`}},
		"csv":           {CSV, "Calls,query,seconds,rows\n3,\"select 1, 2;\",0.5,9\n,select 3,,\n0,select 4,,\n", []string{` 3 0.5 9 "select 1, 2"`, ` 1 0 0 "select 3"`}},
		"vtgate text": {VTGate, "Execute\t10.0.0.1:1\tapp\t'app'\t''\t2026-01-01 01:02:03.000000\t2026-01-01 01:02:04.000001\t1.000001\t0.0\t0.0\t0.0\tSELECT\t\"select :vtg1 from t\\twhere a\"\t{}\t8\t2\t\"\"\t\"PRIMARY\"\t\"uuid-1\"\tfalse\t[]\t\"db\"\n",
			[]string{`uuid-1 1 1.000001 2 "select :vtg1 from t\twhere a"`}},
		"vtgate json": {VTGate, `{"SQL":"select 1","TotalTime":0.5,"ShardQueries":3,"RowsAffected":2,"SessionUUID":"u","BindVars":{}}` + "\n", []string{`u 1 0.5 2 "select 1"`}},
		"empty":       {SQL, "", nil},
	} {
		events, err := read(c.format, c.log)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range events {
			got = append(got, short(e))
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		if c.log == "" {
			continue
		}
		if f, err := Detect("x", []byte(c.log)); c.format != SQL && c.format != CSV && (err != nil || f != c.format) {
			t.Errorf("%s is detected as %s, %v", name, f, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		log    string
		line   int
	}{
		"no general log": {General, head + "select 1;\n", 4},
		"no slow log":    {Slow, "select 1;\n", 1},
		"slow time":      {Slow, "# User@Host: a[a] @ b []  Id: 1\n# Query_time: fast\n", 2},
		"csv names":      {CSV, "a,b\n1,2\n", 1},
		"csv number":     {CSV, "query,calls\nselect 1,many\n", 2},
		"csv negative":   {CSV, "query,calls\nselect 1,1\nselect 1,-1\n", 3},
		"vtgate fields":  {VTGate, "a\tb\n", 1},
		"vtgate json":    {VTGate, "{\n", 1},
	} {
		_, err := read(c.format, c.log)
		var m *Malformed
		if !errors.As(err, &m) || m.Line != c.line {
			t.Errorf("%s: got %v, want an error at line %d", name, err, c.line)
		}
	}
	if _, err := Detect("x", []byte("hello\nworld\n")); err == nil {
		t.Error("a format was found in a text that has none")
	}
}

func TestLongStatementsAreCut(t *testing.T) {
	long := strings.Repeat("x", 3*MaxStatement)
	for name, c := range map[string]struct {
		format Format
		log    string
	}{
		"general one line": {General, "2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT '" + long + "'\n2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT 2\n"},
		"general lines":    {General, "2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT '\n" + strings.Repeat(strings.Repeat("x", 1000)+"\n", 3000) + "'\n2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT 2\n"},
		"sql":              {SQL, "SELECT 'a;" + long + "'; SELECT 2;"},
		"sql comment":      {SQL, "SELECT 1 /*" + long + ";*/; SELECT 2;"},
	} {
		events, err := read(c.format, c.log)
		if err != nil || len(events) != 2 || !events[0].Cut || len(events[0].Text) > MaxStatement || events[1].Cut || events[1].Text != "SELECT 2" {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
}

func TestReadStops(t *testing.T) {
	stop := errors.New("stop")
	for _, f := range []Format{General, SQL} {
		log := map[Format]string{General: "260101 10:00:00\t     3 Query\tSELECT 1\n\t\t     4 Query\tSELECT 2\n", SQL: "select 1; select 2"}[f]
		if err := Read(context.Background(), strings.NewReader(log), f, func(Event) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v", f, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := Read(ctx, strings.NewReader(log), f, func(Event) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestDigestStatement(t *testing.T) {
	for _, c := range []struct {
		digest, sample, want string
		cut                  bool
	}{
		{"SELECT ?", "select 7;", "select 7", false},
		{"SELECT * FROM `t` WHERE `a` IN (...)", "", "SELECT * FROM `t` WHERE `a` IN (?, ?)", false},
		{"SELECT * FROM `t` WHERE `a` = ?", "select * from t where a = 'aaaa...", "SELECT * FROM `t` WHERE `a` = ?", false},
		{"INSERT INTO `t` VALUES (...) /* , ... */", "", "INSERT INTO `t` VALUES (...)", true},
		{"SELECT `a` , ...", "", "SELECT `a` , ...", true},
		{"", "", "", true},
	} {
		if text, cut := digestStatement(c.digest, c.sample); text != c.want || cut != c.cut {
			t.Errorf("%q, %q: got %q, %t", c.digest, c.sample, text, cut)
		}
	}
}

// FuzzRead: no log of any format makes a reader panic, or a statement longer than the limit.
func FuzzRead(f *testing.F) {
	f.Add([]byte(head + "2026-01-01T00:00:00.000000Z\t    8 Query\tSELECT 1\nFROM t\n"))
	f.Add([]byte("# Time: x\n# User@Host: a[a] @ b []  Id: 1\n# Query_time: 1\nuse a;\nSET timestamp=1;\nselect 1;\n# administrator command: Quit;\n"))
	f.Add([]byte("delimiter //\nselect '//' // /*/ */ -- x\n#\n`"))
	f.Add([]byte("query,calls\n\"a\"\"b\",2\n"))
	f.Add([]byte("{\"SQL\":\"a\",\"ShardQueries\":1}\n" + strings.Repeat("a\t", 20) + "\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		_, _ = Detect("x", log)
		for _, format := range Formats {
			events, _ := read(format, string(log))
			for _, e := range events {
				if len(e.Text) > MaxStatement+len("use ``")*2 {
					t.Fatalf("%s: a statement of %d bytes", format, len(e.Text))
				}
			}
		}
	})
}
