package vindexes_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnOperatorsOwnPrograms builds the program of docs/vindexes.md as an operator would: in a
// module of its own that requires ours. All three are compiled, and vtgate is linked and run:
// linking is what takes time.
func TestAnOperatorsOwnPrograms(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "vindexes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(program, "vtgate/cli") {
		t.Fatalf("docs/vindexes.md: found the program %q, expected a vtgate's", program)
	}
	dir := t.TempDir()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	gosum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	// The same versions as ours, so that nothing is fetched.
	own := strings.Replace(string(gomod), "module github.com/vifl/vifl", "module example.com/operator", 1) +
		"\nrequire github.com/vifl/vifl v0.0.0\n\nreplace github.com/vifl/vifl => " + root + "\n"
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", own)
	write("go.sum", string(gosum))
	for _, name := range []string{"vtgate", "vttablet", "vtctld"} {
		write(filepath.Join(name, "main.go"), strings.Replace(program, "cmd/vtgate/cli", "cmd/"+name+"/cli", 1))
	}
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		// As scripts/setup-vitess.sh builds: Vitess is in the build cache already.
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod -trimpath")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "list", "-export", "./vttablet", "./vtctld") // compiles and does not link
	run("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "bin", "vtgate"), "./vtgate")
	if out := run(filepath.Join(dir, "bin", "vtgate"), "--help"); !strings.Contains(out, "vtgate") {
		t.Fatalf("found %q, expected vtgate's help", out)
	}
	// What is linked in is registered: both happen by the import.
	raw, err := os.ReadFile(filepath.Join(dir, "bin", "vtgate"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"legacy_shard", "entity_id", "ViflLegacyShardLookups"} {
		if !strings.Contains(string(raw), name) {
			t.Errorf("the program does not know %s", name)
		}
	}
}
