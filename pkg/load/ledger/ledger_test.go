package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, run string, n int) {
	t.Helper()
	w, err := Open(path, Header{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Append(Record{Begin: &Attempt{Writer: 1, N: uint64(i), Effects: []Effect{{Table: "t", Key: "k", Act: Insert, Digest: 1<<64 - 1}}}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Append(Record{End: &End{Writer: 1, N: uint64(i), Outcome: Acked}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func count(path string) (records int, err error) {
	err = Read(path, func(r Record) error {
		records++
		return nil
	})
	return records, err
}

func TestALineCutShortByACrashIsForgiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	write(t, path, "one", 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < 20; cut++ {
		if err := os.WriteFile(path, whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := count(path); err != nil || (n != 6 && cut > 1) {
			t.Fatalf("cut by %d: %d records, %v", cut, n, err)
		}
	}
	write(t, path, "two", 1) // behind the torn line
	if n, err := count(path); err != nil || n != 9 {
		t.Errorf("%d records, %v, want 9", n, err)
	}
}

func TestAHoleIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	write(t, path, "one", 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for _, bad := range []string{"{\"begin\":{\n", "{}\n", "\n", "{\"run\":{\"format\":2}}\n"} {
		lines[2] = bad
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := count(path); err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q in the middle: %d records, %v, want an error that names line 3", bad, n, err)
		}
	}
}

func TestAppendFailsForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	w, err := Open(path, Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.file.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Append(Record{End: &End{}}) == nil {
		t.Fatal("written to a closed file")
	}
	if w.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	if w.Append(Record{End: &End{}}) == nil {
		t.Error("a record was appended behind a hole")
	}
}
