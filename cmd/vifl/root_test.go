package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/shardmove"
)

// run is a command line as main runs it, up to its exit code.
func run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	root := newRootCommand()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		return exitCode(err), out.String() + err.Error()
	}
	return exitCode(err), out.String()
}

// A verb that is not there ended with the help and exit code 0, which a script takes for done.
func TestAVerbThatIsNotThereIsAFaultOfUsage(t *testing.T) {
	for _, args := range [][]string{
		{"nope"}, {"sync", "begin", "0123"}, {"config", "chek"}, {"shards", "ls"}, {"cert", "list", "0123"}, {"dev", "start"},
		{"dev", "load", "verfy"}, {"config", "check", "x"}, {"shards", "list", "0123"}, {"diff"}, {"diff", "0123", "4567"}, {"diff", "0x7b"},
		{"diff", "0123", "--yes"}, {"diff", "0123", "--max-rows", "0"}, {"diff", "0123", "--repair", "--explain", "users", "5"}, {"diff", "0123", "users", "5"}, {"diff", "0123", "--explain", "users"}, {"diff", "x", "--explain", "users", "5"}, {"--output", "xml", "status", "0123"},
		{"diff", "0123", "--accept-drift", "users"}, {"diff", "0123", "--accept-drift"}, {"diff", "0x7b", "--accept-drift", "users", "5"}, {"diff", "0123", "--withdraw-drift", "users"}, {"diff", "0123", "--accepted-drift", "users"},
		{"diff", "0123", "--accept-drift", "--withdraw-drift", "users", "5"}, {"diff", "0123", "--accept-drift", "--repair", "users", "5"}, {"diff", "0123", "--why", "so"}, {"diff", "0123", "--apply"}, {"diff", "0123", "--apply", "--explain", "users", "5"}, {"diff", "0123", "--max-rows-per-second", "-1"}, {"diff", "0123", "--explain", "users", "5", "--why", "so"},
	} {
		code, text := run(t, args...)
		if code != exitUsage || text == "" {
			t.Errorf("vifl %s: exit code %d, %q, expected %d", strings.Join(args, " "), code, text, exitUsage)
		}
	}
	if code, text := run(t, "sync"); code != exitDone || !strings.Contains(text, "sync start") && !strings.Contains(text, "start ") {
		t.Errorf("vifl sync: exit code %d, %q, expected its help", code, text)
	}
}

// dev status looked into .dev though VIFL_CONFIG named another fleet.
func TestTheLocalFleetIsThatOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("VIFL_CONFIG", filepath.Join(dir, "vifl.yaml"))
	down := func(args ...string) string {
		code, text := run(t, append([]string{"dev", "down"}, args...)...)
		if code != exitDone {
			t.Fatalf("dev down %v: exit code %d, %s", args, code, text)
		}
		return text
	}
	if got := down(); !strings.Contains(got, "no local fleet in .dev") {
		t.Errorf("beside a configuration that no fleet wrote: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRootCommand()
	status, _, err := root.Find([]string{"dev", "status"})
	if err != nil {
		t.Fatal(err)
	}
	if err := status.ParseFlags(nil); err != nil {
		t.Fatal(err)
	}
	if got := fleetDir(status, devDir); got != dir {
		t.Errorf("the fleet's folder is %s, expected %s", got, dir)
	}
	if err := status.ParseFlags([]string{"--dir", "other"}); err != nil {
		t.Fatal(err)
	}
	if got := fleetDir(status, "other"); got != "other" {
		t.Errorf("with --dir other it is %s", got)
	}
}

// A seed or a complete that a guard refused named only the guard's number.
func TestRefusalsAreExplainedOnceByEveryVerb(t *testing.T) {
	refused := &shardmove.Refused{Verb: "seed", Shard: "0123", Findings: []guard.Finding{{ID: "P15", Name: "binlog format", Level: guard.Refuse, Server: "0123 side a", Found: "STATEMENT", Expected: "ROW", Remedy: "SET PERSIST"}}}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"a verb without a report": {fmt.Errorf("wrapped: %w", refused), 1},
		"a verb with its own":     {explained{refused}, 0},
		"another failure":         {errors.New("boom"), 0},
		"none":                    {nil, 0},
	} {
		for _, output := range []string{"text", "json"} {
			got := stdout(t, func() {
				a := &app{output: output}
				if err := a.explain("0123", c.err); exitCode(err) != exitCode(c.err) {
					t.Errorf("%s: %v", name, err)
				}
			})
			if n := strings.Count(got, "SET PERSIST"); n != c.want {
				t.Errorf("%s, %s: the remedy was printed %d times, expected %d: %s", name, output, n, c.want, got)
			}
		}
	}
}

// stdout is what a function prints there.
func stdout(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = old }()
	do()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Behind the point of no undo status advised a thaw, which is refused there.
func TestStatusAdvisesNoThawBehindThePointOfNoUndo(t *testing.T) {
	for noUndo, want := range map[bool]string{false: "vifl thaw", true: "only the same verb again"} {
		var out strings.Builder
		printStatus(&out, &shardmove.Status{Document: &state.Shard{Attempt: &state.Attempt{Verb: "cutover", NoUndo: noUndo}}})
		if !strings.Contains(out.String(), want) || noUndo && strings.Contains(out.String(), "thaw") {
			t.Errorf("no undo %v: %s", noUndo, out.String())
		}
	}
}

// What is not listed, or has no statement, is said; text is told from NULL.
func TestDiffHidesNothing(t *testing.T) {
	r := &shardmove.DiffReport{
		Shard: "0123 (legacy_0123)", Position: "binlog.000001:4", Different: 12, MaxRows: 1,
		Targets:     []shardmove.DiffTarget{{Target: "tablet zone1-100", Different: 11, Listed: 1, ByTable: map[string]uint64{"users": 10, "files": 1}}, {Target: "0123 side b", Different: 1, Listed: 1, ByTable: map[string]uint64{"users": 1}}},
		Differences: []shardmove.DiffEntry{{Target: "tablet zone1-100", Table: "users", Key: "5", Kind: "changed", Columns: []diff.ColumnDifference{{Column: "name", Source: &diff.Value{Null: true}, Target: &diff.Value{}}}}},
		Repair:      []shardmove.DiffRepair{{Target: "tablet zone1-100", Statements: []string{"START TRANSACTION", "COMMIT"}, Unlisted: 10}, {Target: "0123 side b", Unlisted: 1, Problem: "drifted"}},
	}
	var out strings.Builder
	printDiff(&out, "0123 (legacy_0123)", r)
	for _, want := range []string{"users: changed key (5)", "name NULL -> ", "11 row(s) differ: files 1, users 10", "only 1 of them are listed, 10 are only counted (--max-rows 1)",
		"-- 10 more differing row(s)", "START TRANSACTION;\nCOMMIT;\n", "-- 0123 side b: no statements: drifted", "nothing of this has been run"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}
