package fingerprint

import (
	"strings"
	"testing"
)

func key(t *testing.T, text string) string {
	t.Helper()
	var s Scanner
	if !s.Scan(text) {
		t.Fatalf("%q has no fingerprint", text)
	}
	return string(s.Key())
}

func TestSameShape(t *testing.T) {
	for _, pair := range [][2]string{
		{"select * from t where a = 1", "select * from t where a = 22"},
		{"select * from t where a = 1", "/* by web1 */ select *\n\tfrom t where a = 1 -- the end"},
		{"select * from t where a = 'x'", "select * from t where a = 'it''s \\' \"y\" -- no comment'"},
		{"select * from t where a in (1, 2)", "select * from t where a in (1,2,3, 4 )"},
		{"insert into t values (1, 'a'), (2, null)", "insert into t values (1, 'a'), (2, 'b'), (1, 'a')"},
		{"insert into t values (1, 1)", "insert into t values (1, 2)"},
		{"select 1;", "select 2"},
	} {
		if a, b := key(t, pair[0]), key(t, pair[1]); a != b {
			t.Errorf("%q and %q differ:\n%q\n%q", pair[0], pair[1], a, b)
		}
	}
}

func TestOtherShape(t *testing.T) {
	for _, pair := range [][2]string{
		{"select * from t where a = 1", "select * from t where a = '1'"},
		{"select * from t where a = 1", "select * from t where b = 1"},
		{"select * from t where a = 1 and b = 1", "select * from t where a = 1 and b = 2"},
		{"select * from t where a in (1)", "select * from t where a in (1, 2)"},
		{"select * from t where a in (1, 2)", "select * from t where a in (1, b)"},
		{"select * from t where a in (1, 2)", "select * from t where a in ('1', '2')"},
		{"insert into t values (1)", "insert into t values (1), (2)"},
		{"insert into t values (1), (2)", "insert into t values (1), (f(2))"},
		{"select 1", "select 1.5"},
		{"select a from t1", "select a from t2"},
		{"select * from `a 1`", "select * from `a 2`"},
		{"select /*vt+ ALLOW_SCATTER */ 1", "select 1"},
		{"select 1 - 1", "select 1 -- 1"},
		{"select now(3)", "select now(6)"},
	} {
		if a, b := key(t, pair[0]), key(t, pair[1]); a == b {
			t.Errorf("%q and %q are one: %q", pair[0], pair[1], a)
		}
	}
}

func TestRepresentative(t *testing.T) {
	var s Scanner
	if !s.Scan("select a.x from a join b where a.id = 7 and b.id = 7 and b.n = 'q' and c in (1,2,3) and d = 1.5 and e > date '2026-01-01'") {
		t.Fatal("no fingerprint")
	}
	want := "select a.x from a join b where a.id = 1000000000000 and b.id = 1000000000000 and b.n = 'vifl_literal_1' and c in (1000000000002, 1000000000003) and d = 1.5 and e > date '2026-01-01'"
	if got := s.Representative(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v, kind, ok := s.Value(1); v != "q" || kind != Text || !ok {
		t.Errorf("slot 1: %q %c %t", v, kind, ok)
	}
	if slot, ok := Slot("vifl_literal_1"); slot != 1 || !ok {
		t.Errorf("slot of the marker: %d %t", slot, ok)
	}
	if _, ok := Slot("5"); ok {
		t.Error("a plain value has a slot")
	}
	if !s.Scan("insert into t (a, b) values (1, 'x'), (2, 'y'), (3, 'z') on duplicate key update b = values(b)") || s.Rows != 3 {
		t.Errorf("rows %d", s.Rows)
	}
	if got, want := s.Representative(), "insert into t (a, b) values (1000000000000, 'vifl_literal_1'), (1000000001000, 'vifl_literal_1001') on duplicate key update b = values(b)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"select 'secret', 4711, x'4711' from t": "select ?, ?, ? from t",
		"select 'secret":                        "select …",
		"/*!40000 set x = 4711 */ select 1":     "/* … */ select ?",
		"select a from t1":                      "select a from t1",
		"in (4711, 4712)":                       "in (?, …)",
		"insert into t values (1), (2), (3)":    "insert into t values (?), …",
	} {
		if got := Hide(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// FuzzScan: no text makes the scanner panic or a representative that it cannot scan, and hiding
// leaves no quoted text.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"select * from t where a = 1 and b in ('x', 'y') -- c", "insert into t values (1, 'a''b'), (2, null)", "/* */ select `a``b`, x'00', .5, 1e9 from t # x",
		"set @a := \"q\\\"\"", "values(", "in(1,", "insert values ((1),(2))", "/*/", "--", "'", "date '2026-01-01'",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Scanner
		if hidden := Hide(text); strings.ContainsAny(hidden, "'\"") && !strings.Contains(hidden, "/*vt+") && !strings.Contains(hidden, "`") {
			t.Fatalf("%q is hidden as %q", text, hidden)
		}
		if !s.Scan(text) {
			return
		}
		var r Scanner
		if rep := s.Representative(); !r.Scan(rep) {
			t.Fatalf("the representative %q of %q has no fingerprint", rep, text)
		}
	})
}
