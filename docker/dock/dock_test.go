package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryKnobIsDocumented: compose.yaml has no variable that .env does not set, and .env none
// that nothing reads.
func TestEveryKnobIsDocumented(t *testing.T) {
	read := func(path string, pattern string) []string {
		raw, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(raw), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	used := read("compose.yaml", `\$\{([A-Z_]+)`)
	set := read(".env", `(?m)^([A-Z_]+)=`)
	set = slices.DeleteFunc(set, func(s string) bool { return s == "COMPOSE_PROJECT_NAME" }) // compose's own
	if len(used) == 0 || !slices.Equal(used, set) {
		t.Errorf("compose.yaml uses %v\n.env sets %v", used, set)
	}
}

func TestSecretsAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, secretApp), []byte("the operator's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The quote of a password would end the statement that it is in.
	if err := run(t.Context(), []string{"secrets", "--config", "../vifl.yaml", "--dir", dir}); err == nil || strings.Contains(err.Error(), "operator") {
		t.Fatalf("a password with a quote: %v, expected an error that does not hold it", err)
	}
	if err := os.WriteFile(filepath.Join(dir, secretApp), []byte("own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := func() map[string]string {
		if err := run(t.Context(), []string{"secrets", "--config", "../vifl.yaml", "--dir", dir}); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: found mode %v, expected 0600 (%v)", e.Name(), info.Mode(), err)
			}
			all[e.Name()] = string(raw)
		}
		return all
	}
	first := files()
	if first[secretApp] != "own\n" || !strings.Contains(first["vtgate-users.json"], `"own"`) {
		t.Errorf("the operator's password was not kept: %q, %s", first[secretApp], first["vtgate-users.json"])
	}
	if !strings.Contains(first["external-legacy_0123.yaml"], "legacy-0123-b") || strings.Contains(first["external-legacy_0123.yaml"], "4567") {
		t.Errorf("the connections of 0123 are %s", first["external-legacy_0123.yaml"])
	}
	second := files()
	for name, text := range first {
		// Maps have no order in JSON and YAML files; passwords are compared as they are.
		if slices.Contains(secretNames, name) && second[name] != text {
			t.Errorf("a second start changed %s", name)
		}
	}
}

func TestTabletWaitsForAWholeSeed(t *testing.T) {
	tab := &tablet{cell: "zone1", uid: 101, keyspace: "legacy_0123", data: t.TempDir(), backups: t.TempDir()}
	half := filepath.Join(tab.backups, "legacy_0123", "0", "2026-01-01.000000.vifl-1")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if seed, err := tab.waitForSeed(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a backup without a MANIFEST: found %q, %v, expected to wait", seed, err)
	}
	if err := tabletHealth(t.Context(), tab.data); err != nil {
		t.Errorf("a tablet that waits is not healthy: %v", err)
	}
	if err := os.WriteFile(filepath.Join(half, "MANIFEST"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	seed, err := tab.waitForSeed(t.Context())
	if err != nil || seed != filepath.Base(half) {
		t.Fatalf("found %q, %v", seed, err)
	}

	// What a restore that was cut short left is no data.
	if err := os.MkdirAll(tab.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{restoreState, "dock.seed"} {
		if err := os.WriteFile(filepath.Join(tab.dir(), name), []byte(seed+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if from, err := tab.restoredFrom(); from != "" || err != nil {
		t.Errorf("an unfinished restore: found data of %q, %v", from, err)
	}
	if err := os.Remove(filepath.Join(tab.dir(), restoreState)); err != nil {
		t.Fatal(err)
	}
	if from, err := tab.restoredFrom(); from != seed || err != nil {
		t.Errorf("a finished restore: found data of %q, %v, expected of %q", from, err, seed)
	}
	// Behind an abort its seed is gone: it must not serve that data again.
	if err := os.RemoveAll(half); err != nil {
		t.Fatal(err)
	}
	if err := tab.life(t.Context()); !errors.Is(err, errReseeded) {
		t.Errorf("its seed was removed: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"sail"}, {"secrets"}, {"cells", "--topo", "x:1"}, {"mysqld", "--host", "a", "--accounts", "none", "--database", "d"}, {"tablet", "--cell", "c"}, {"health", "x"}} {
		if err := run(t.Context(), args); !errors.Is(err, errUsage) {
			t.Errorf("dock %v: %v, expected usage", args, err)
		}
	}
}
