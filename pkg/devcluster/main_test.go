package devcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/seed"
)

// TestMain makes the test's program stand for vifl: with arguments like vifl's hidden
// commands it is the supervisor, the watchdog, or a seed's child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer cancel()
		if err := role(ctx, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := os.Setenv(owner, strconv.Itoa(os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// owner names the variable with the pid of the tests' process. A cluster that was brought up to
// stay outlives whoever asked for it; one of a test must not outlive a test that was killed.
const owner = "VIFL_TEST_OWNER"

// withOwner is a context that ends with the owner.
func withOwner(ctx context.Context) (context.Context, error) {
	pid, err := strconv.Atoi(os.Getenv(owner))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", owner, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for syscall.Kill(pid, 0) != syscall.ESRCH {
			time.Sleep(500 * time.Millisecond)
		}
	}()
	return ctx, nil
}

func role(ctx context.Context, args []string) error {
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "dev supervise":
		ctx, err := withOwner(ctx)
		if err != nil {
			return err
		}
		return SuperviseFromEnv(ctx)
	case "dev watchdog":
		return Watchdog(os.Stdin)
	case "dev foreground":
		o, err := testOptions(args[2])
		if err != nil {
			return err
		}
		o.StopAtEOF = true
		return Foreground(ctx, o, os.Stderr)
	case seed.ChildCommand:
		return seed.Child(ctx, os.Stdin, os.Stdout)
	}
	return fmt.Errorf("unknown arguments %q", args)
}

// testOptions is a small cluster in dir.
func testOptions(dir string) (Options, error) {
	exe, err := os.Executable()
	if err != nil {
		return Options{}, err
	}
	bin, err := binDir()
	return Options{Dir: dir, Self: []string{exe, "dev"}, Bin: bin, Size: appschema.Size{Teams: 20, MessagesPerTeam: 5}}, err
}

// binDir is where scripts/setup.sh leaves the Vitess programs.
func binDir() (string, error) {
	if dir := os.Getenv("VIFL_TEST_BIN"); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the working folder")
		}
	}
}

// clusterDir is a folder for a cluster, which is taken down at the end of the test however
// the test ended.
func clusterDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dev")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := Down(ctx, dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// up brings a small cluster up.
func up(t *testing.T, dir string) {
	t.Helper()
	o, err := testOptions(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out lockedBuffer
	if err := Up(ctx, o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// data is the cluster's data folder.
func data(t *testing.T, dir string) string {
	t.Helper()
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.dataDir()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// nothingLeft waits until no process of the cluster is left.
func nothingLeft(t *testing.T, data string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := members(data)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d is left: %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
			}
			t.FailNow()
		}
		time.Sleep(100 * time.Millisecond)
	}
}
