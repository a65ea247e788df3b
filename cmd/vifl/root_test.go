package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"diff", "0123", "--yes"}, {"--output", "xml", "status", "0123"},
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

func TestRollbackIsRefusedNotFailed(t *testing.T) {
	if code, text := run(t, "rollback", "0123"); code != exitRefused || !strings.Contains(text, "not in this version") {
		t.Errorf("exit code %d, %q, expected %d", code, text, exitRefused)
	}
	if code, text := run(t, "rollback", "0x7b"); code != exitUsage {
		t.Errorf("of no shard: exit code %d, %q, expected %d", code, text, exitUsage)
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
