// Package compose moves a shard of the fleet of docker/compose.yaml, from its preflight to its
// completion, by the command in its container, while a client in another writes. It needs an
// engine and images: scripts/compose-test.sh brings both.
package compose

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fleet is one project of compose.
type fleet struct {
	compose []string // docker compose, or docker-compose
	project string
	folder  string
	env     []string
}

// result is what a command gave.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
}

// commandTimeout bounds one command; the longest, up and a seed, take minutes on two busy cores.
const commandTimeout = 10 * time.Minute

func run(ctx context.Context, f *fleet, command ...string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = f.folder, append(os.Environ(), f.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		r.code, err = exit.ExitCode(), nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, r)
	}
	return r, err
}

// try runs a command and gives its result, whatever the exit code.
func (f *fleet) try(t testing.TB, command ...string) result {
	t.Helper()
	start := time.Now()
	r, err := run(t.Context(), f, command...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: exit code %d, %.1f s\n%s%s", strings.Join(command, " "), r.code, time.Since(start).Seconds(), last(r.stdout, 12), last(r.stderr, 12))
	return r
}

// must runs a command and fails the test unless it ends with 0.
func (f *fleet) must(t testing.TB, command ...string) result {
	t.Helper()
	r := f.try(t, command...)
	if r.code != 0 {
		t.Fatalf("%s: %s", strings.Join(command, " "), r)
	}
	return r
}

func last(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}

// with is a compose command of the project.
func (f *fleet) with(args ...string) []string { return append(slices.Clone(f.compose), args...) }

// vifl is the operator's command in its container.
func (f *fleet) vifl(args ...string) []string {
	return f.with(append([]string{"exec", "-T", "vifl", "vifl"}, args...)...)
}

// container is the name that the engine knows a service's container by.
func (f *fleet) container(t testing.TB, service string) string {
	t.Helper()
	id := strings.TrimSpace(f.must(t, f.with("ps", "-q", service)...).stdout)
	if id == "" {
		t.Fatalf("service %s has no container", service)
	}
	return id
}

// cutOff takes a container off the backbone for ten seconds: its cell is alone. joined waits for
// the end of that.
func (f *fleet) cutOff(t *testing.T, service string) (joined func()) {
	t.Helper()
	id, backbone := f.container(t, service), f.project+"_backbone"
	f.must(t, "docker", "network", "disconnect", backbone, id)
	done := make(chan error, 1)
	go func() {
		time.Sleep(10 * time.Second)
		r, err := run(context.WithoutCancel(t.Context()), f, "docker", "network", "connect", "--alias", service, backbone, id)
		if err == nil && r.code != 0 {
			err = errors.New(r.String())
		}
		done <- err
	}()
	return func() {
		if err := <-done; err != nil {
			t.Fatalf("%s joins the backbone again: %v", service, err)
		}
	}
}

// newFleet brings a fleet of an own project up.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	compose := strings.Fields(os.Getenv("VIFL_COMPOSE"))
	if len(compose) == 0 {
		t.Skip("no engine and no images given: scripts/compose-test.sh (make compose-test) runs this test")
	}
	folder, err := filepath.Abs("../../docker")
	if err != nil {
		t.Fatal(err)
	}
	var b [4]byte
	_, _ = rand.Read(b[:])
	f := &fleet{compose: compose, project: "vifltest" + hex.EncodeToString(b[:]), folder: folder}
	f.env = []string{
		"COMPOSE_PROJECT_NAME=" + f.project, "VTGATE_PORT=127.0.0.1:0", "VTCTLD_PORT=127.0.0.1:0",
		"FILL_TEAMS=300", "LOAD_RATE=50", "LOAD_WRITERS=4",
	}
	if file := os.Getenv("VIFL_COMPOSE_SCHEMA"); file != "" {
		f.env = append(f.env, "SCHEMA_DIR="+filepath.Dir(absolute(t, file)), "SCHEMA_FILE=/schema/"+filepath.Base(file))
	}
	if file := os.Getenv("VIFL_COMPOSE_YAML"); file != "" {
		f.env = append(f.env, "VIFL_YAML="+absolute(t, file))
	}
	t.Cleanup(func() { f.down(t) })
	f.must(t, f.with("up", "-d", "--no-build")...)
	f.await(t, "vifl answers", 5*time.Minute, func() bool {
		return f.try(t, f.vifl("shards", "list")...).code == 0
	})
	return f
}

// absolute wants a path that does not depend on where go test runs.
func absolute(t *testing.T, path string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		t.Fatalf("found the path %q, expected an absolute one", path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// await waits until f is content.
func (f *fleet) await(t *testing.T, what string, limit time.Duration, content func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !content(); time.Sleep(2 * time.Second) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// down removes everything of the project, and sees that nothing of it is left.
func (f *fleet) down(t *testing.T) {
	ctx := context.Background()
	if t.Failed() {
		if r, err := run(ctx, f, f.with("logs", "--no-color", "--tail", "15")...); err == nil {
			t.Logf("logs of the containers:\n%s", r.stdout)
		}
	}
	// The volumes go too, so nothing has to end in order. Twice: the engine (20.10) may still have
	// the endpoint of a container that is gone, and then keeps the network.
	down := f.with("--profile", "load", "down", "--volumes", "--remove-orphans", "--timeout", "5")
	for _, command := range [][]string{f.with("--profile", "load", "kill"), down, down} {
		r, err := run(ctx, f, command...)
		if err != nil || r.code != 0 {
			t.Logf("%v: %v %s", command, err, r)
		}
	}
	label := "label=com.docker.compose.project=" + f.project
	for what, command := range map[string][]string{
		"containers": {"docker", "ps", "-aq", "--filter", label},
		"volumes":    {"docker", "volume", "ls", "-q", "--filter", label},
		"networks":   {"docker", "network", "ls", "-q", "--filter", label},
	} {
		r, err := run(ctx, f, command...)
		if err != nil || strings.TrimSpace(r.stdout) != "" {
			t.Errorf("%s of the project are left: %s %v", what, r.stdout, err)
		}
	}
}

// position is where a shard is served, and the phase of its move.
type position struct {
	Traffic string `json:"traffic"`
	State   struct {
		Phase string `json:"phase"`
	} `json:"state"`
}

func (f *fleet) where(t *testing.T, shard string) (p position) {
	t.Helper()
	r := f.must(t, f.vifl("--output", "json", "status", shard)...)
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
		t.Fatalf("status: %v: %s", err, r)
	}
	return p
}

// TestMoveInContainers moves 0123 while a client writes. In sync a tablet's container is killed.
// As the diff begins, and as the cutover does, a cell is cut off for ten seconds: each may fail,
// and then says so and leaves the shard where it was. (On a machine so busy that the command
// takes ten seconds to start, the cut is over before it.)
func TestMoveInContainers(t *testing.T) {
	f := newFleet(t)
	own := os.Getenv("VIFL_COMPOSE_SCHEMA") != "" // the client writes to the demo's tables only
	if !own {
		f.must(t, f.with("--profile", "load", "up", "-d", "--no-build", "--no-deps", "load")...)
	}
	f.memory(t)
	f.must(t, f.vifl("preflight", "0123")...)
	f.must(t, f.vifl("seed", "0123")...)
	if file := os.Getenv("VIFL_COMPOSE_VSCHEMA"); file != "" {
		f.vschema(t, file, "legacy_0123")
	}
	f.must(t, f.vifl("sync", "start", "0123")...)

	replica := "tablet-103"
	if primary := f.primary(t, "legacy_0123"); primary == replica {
		replica = "tablet-102"
	}
	f.must(t, f.with("kill", replica)...)
	f.must(t, f.vifl("sync", "status", "0123")...)
	f.must(t, f.with("start", replica)...)
	f.await(t, replica+" is a replica again", 3*time.Minute, func() bool { return f.tablets(t, "legacy_0123")[replica] == "replica" })

	joined := f.cutOff(t, replica)
	r := f.try(t, f.vifl("diff", "0123")...)
	joined()
	if p := f.where(t, "0123"); p.Traffic != "legacy" || (r.code == 0) != (p.State.Phase == "validated") || (r.code != 0 && r.stderr == "") {
		t.Fatalf("a diff with a cell cut off ended with %s, and the shard is %+v", r, p)
	}
	f.validate(t)

	joined = f.cutOff(t, replica)
	r = f.try(t, f.vifl("cutover", "0123", "--confirm", "0123")...)
	joined()
	p := f.where(t, "0123")
	switch {
	case r.code == 0 && p.Traffic == "vitess" && p.State.Phase == "switched":
	case r.code != 0 && p.Traffic == "legacy" && p.State.Phase == "validated" && r.stdout+r.stderr != "":
		t.Logf("the cutover with a cell cut off was taken back; again")
		f.await(t, "the cutover succeeds", 5*time.Minute, func() bool {
			f.validate(t)
			return f.try(t, f.vifl("cutover", "0123", "--confirm", "0123")...).code == 0
		})
	case r.code != 0 && p.Traffic == "vitess" && r.stdout+r.stderr != "":
		t.Logf("the cutover with a cell cut off got past the point of no undo; it goes forward")
		f.await(t, "the cutover ends", 5*time.Minute, func() bool { return f.try(t, f.vifl("cutover", "0123", "--confirm", "0123")...).code == 0 })
	default:
		t.Fatalf("a cutover with a cell cut off ended with %s, and the shard is %+v", r, p)
	}
	if p := f.where(t, "0123"); p.Traffic != "vitess" || p.State.Phase != "switched" {
		t.Fatalf("after the cutover: %+v", p)
	}
	time.Sleep(2 * time.Second) // writes on Vitess
	if os.Getenv("VIFL_TEST_LONG") != "" {
		f.backAndForth(t)
	}
	f.must(t, f.vifl("diff", "0123", "--reverse")...)
	if !own {
		f.must(t, f.with("--profile", "load", "stop", "--timeout", "60", "load")...)
		f.must(t, "docker", "logs", f.container(t, "load"))
		f.must(t, f.with("--profile", "load", "run", "--rm", "--no-deps", "load", "dev", "load", "verify", "--ledger", "/ledger/ledger", "--legacy-follows")...)
	}
	f.must(t, f.vifl("complete", "0123", "--confirm", "0123")...)
	if p := f.where(t, "0123"); p.Traffic != "vitess" || p.State.Phase != "completed" {
		t.Fatalf("at the end: %+v", p)
	}
	f.memory(t)
}

// validate diffs until the landing is found equal: behind a cut, its tablets need a moment.
func (f *fleet) validate(t *testing.T) {
	t.Helper()
	f.await(t, "a diff finds the landing equal", 5*time.Minute, func() bool { return f.try(t, f.vifl("diff", "0123")...).code == 0 })
}

// backAndForth rolls back and cuts over again.
func (f *fleet) backAndForth(t *testing.T) {
	t.Helper()
	f.must(t, f.vifl("rollback", "0123", "--confirm", "0123")...)
	if p := f.where(t, "0123"); p.Traffic != "legacy" || p.State.Phase != "syncing" {
		t.Fatalf("after the rollback: %+v", p)
	}
	f.validate(t)
	f.must(t, f.vifl("cutover", "0123", "--confirm", "0123")...)
}

// tablets are the types of a landing's tablets, by the names of their services.
func (f *fleet) tablets(t *testing.T, keyspace string) map[string]string {
	t.Helper()
	r := f.must(t, f.with("exec", "-T", "vtctld", "vtctldclient", "--server", "127.0.0.1:15999", "--action-timeout", "20s", "GetTablets", "--keyspace", keyspace)...)
	found := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		// zone1-0000000101 legacy_0123 0 primary tablet-101:15100 tablet-101:3306 [] <time>
		if fields := strings.Fields(line); len(fields) > 5 {
			name, _, _ := strings.Cut(fields[4], ":")
			found[name] = fields[3]
		}
	}
	return found
}

func (f *fleet) primary(t *testing.T, keyspace string) string {
	t.Helper()
	for name, kind := range f.tablets(t, keyspace) {
		if kind == "primary" {
			return name
		}
	}
	t.Fatalf("%s has no primary", keyspace)
	return ""
}

// vschema gives a landing a vschema of the caller's.
func (f *fleet) vschema(t *testing.T, file, keyspace string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.must(t, f.with("exec", "-T", "vtctld", "vtctldclient", "--server", "127.0.0.1:15999", "--action-timeout", "20s", "ApplyVSchema", "--vschema", string(raw), keyspace)...)
}

// memory logs what each container takes.
func (f *fleet) memory(t *testing.T) {
	t.Helper()
	ids := strings.Fields(f.must(t, f.with("ps", "-q")...).stdout)
	f.try(t, append([]string{"docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}"}, ids...)...)
}
