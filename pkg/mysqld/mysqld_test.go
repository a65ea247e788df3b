package mysqld_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/runas"
)

// TestMain makes the test's program a process that starts a server and then sleeps: the
// parent that TestServerDiesWithItsParent kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("VIFL_TEST_PARENT"); dir != "" {
		if err := parent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func parent(dir string) error {
	inst, err := mysqld.Find("")
	if err != nil {
		return err
	}
	u, err := runas.Lookup("nobody")
	if err != nil {
		return err
	}
	if inst, err = inst.For(u, dir); err != nil {
		return err
	}
	s, err := mysqld.Start(context.Background(), inst, mysqld.Options{Dir: filepath.Join(dir, "s"), RunAs: u})
	if err != nil {
		return err
	}
	fmt.Println(s.Pid())
	time.Sleep(5 * time.Minute)
	return nil
}

// TestServerDiesWithItsParent: SIGKILL gives the parent no chance to stop its server.
func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "VIFL_TEST_PARENT="+mysqldtest.Dir(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent did not start its server: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !running(pid) {
		t.Fatalf("server %d does not run", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); running(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("server %d runs 10 s after its parent's death", pid)
		}
	}
}

// running reports a process that is not a zombie.
func running(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestStopKillRestart: data, port and settings survive; a killed server comes back too.
func TestStopKillRestart(t *testing.T) {
	t.Parallel()
	s := mysqldtest.Start(t, mysqldtest.Options{Extra: []string{"max_connections = 77"}})
	mysqldtest.Exec(t, s, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	port, pid := s.Port(), s.Pid()
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil || os.Geteuid() == 0 && info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Errorf("the server runs as root: %v", err)
	}
	for _, end := range []struct {
		how string
		do  func() error
	}{{"stop", func() error { return s.Stop(ctx) }}, {"kill", s.Kill}, {"nothing", func() error { return nil }}} {
		if err := end.do(); err != nil {
			t.Fatalf("%s: %v", end.how, err)
		}
		if end.how != "nothing" && running(pid) {
			t.Fatalf("%s: process %d runs", end.how, pid)
		}
		if err := s.Restart(ctx); err != nil {
			t.Fatalf("restart after %s: %v", end.how, err)
		}
		if s.Port() != port || s.Pid() == pid {
			t.Errorf("restart after %s: found port %d and pid %d, expected port %d and another pid", end.how, s.Port(), s.Pid(), port)
		}
		pid = s.Pid()
		var rows, connections int
		if err := mysqldtest.Open(t, s).QueryRow("SELECT COUNT(*), @@max_connections FROM d.t").Scan(&rows, &connections); err != nil || rows != 1 || connections != 77 {
			t.Errorf("restart after %s: found %d rows, max_connections %d, %v", end.how, rows, connections, err)
		}
	}
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

// TestWrongSettingIsSaid: a server that ends at its start says why.
func TestWrongSettingIsSaid(t *testing.T) {
	t.Parallel()
	dir := mysqldtest.Dir(t)
	_, err := mysqld.Start(context.Background(), mysqldtest.Installation(t, dir), mysqld.Options{
		Dir: filepath.Join(dir, "s"), Name: "0123 scratch", RunAs: mysqldtest.User(t), Extra: []string{"no_such_setting = 1"},
	})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") || !strings.Contains(err.Error(), "0123 scratch") {
		t.Errorf("found %v, expected an error that names the server and the setting", err)
	}
}

// TestDeepFolder: a Unix socket's path has a hard limit, a server's folder has none.
func TestDeepFolder(t *testing.T) {
	t.Parallel()
	dir := mysqldtest.Dir(t)
	deep := filepath.Join(dir, strings.Repeat("deep folder/", 12))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mysqldtest.User(t).Chown(filepath.Join(dir, "deep folder")); err != nil {
		t.Fatal(err)
	}
	s, err := mysqld.Start(context.Background(), mysqldtest.Installation(t, dir), mysqld.Options{Dir: filepath.Join(deep, "s"), RunAs: mysqldtest.User(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Socket()) >= 100 {
		t.Errorf("the socket's path has %d bytes: %s", len(s.Socket()), s.Socket())
	}
	mysqldtest.Exec(t, s, "SELECT 1")
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(s.Socket())); !os.IsNotExist(err) {
		t.Errorf("the socket's folder is left: %v", err)
	}
}

// TestTemplateInParallel: several at once make one template, and servers copied from it
// have server_uuids of their own.
func TestTemplateInParallel(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	dir := mysqldtest.Dir(t)
	inst, u := mysqldtest.Installation(t, dir), mysqldtest.User(t)
	var wg sync.WaitGroup
	paths := make([]string, 3)
	for i := range paths {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var err error
			if paths[i], err = mysqld.Template(context.Background(), inst, u); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	made, err := filepath.Glob(filepath.Join(cache, "vifl", "mysqld-*", "mysql.ibd"))
	if err != nil || len(made) != 1 || paths[0] != filepath.Dir(made[0]) || paths[1] != paths[0] || paths[2] != paths[0] {
		t.Errorf("found templates %v, returned %v, %v; expected one", made, paths, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "vifl", ".next*")); len(left) != 0 {
		t.Errorf("half-made templates are left: %v", left)
	}
	uuids := map[string]bool{}
	for i := range 2 {
		s, err := mysqld.Start(context.Background(), inst, mysqld.Options{Dir: filepath.Join(dir, fmt.Sprint(i)), RunAs: u, Template: paths[0]})
		if err != nil {
			t.Fatal(err)
		}
		var uuid string
		if err := mysqldtest.Open(t, s).QueryRow("SELECT @@server_uuid").Scan(&uuid); err != nil {
			t.Error(err)
		}
		uuids[uuid] = true
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	if len(uuids) != 2 {
		t.Errorf("two servers share a server_uuid: %v", uuids)
	}
}

// TestFindSaysWhereItLooked: a root that was named and has no server is not passed over.
func TestFindSaysWhereItLooked(t *testing.T) {
	if _, err := mysqld.Find(t.TempDir()); err == nil || !strings.Contains(err.Error(), "bin/mysqld") {
		t.Errorf("found %v, expected an error", err)
	}
	t.Setenv("VT_MYSQL_ROOT", t.TempDir())
	if _, err := mysqld.Find(""); err == nil || !strings.Contains(err.Error(), "VT_MYSQL_ROOT") {
		t.Errorf("found %v, expected an error that names VT_MYSQL_ROOT", err)
	}
}

// TestCopyForUnreachable: what root has for itself is copied to where the server's user can
// run it.
func TestCopyForUnreachable(t *testing.T) {
	u := mysqldtest.User(t)
	if u.IsZero() {
		t.Skip("only root has places that the servers' user cannot reach")
	}
	real, err := mysqld.Find("")
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	closed := filepath.Join(t.TempDir(), "closed") // t.TempDir is root's alone
	if err := mysqld.CopyTree(real.Root, closed, true); err != nil {
		t.Fatal(err)
	}
	inst, err := mysqld.Find(closed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Version(context.Background(), u); err == nil {
		t.Fatalf("user %s can run %s, the test proves nothing", u.Name, inst.Program())
	}
	dir := mysqldtest.Dir(t)
	if inst, err = inst.For(u, dir); err != nil {
		t.Fatal(err)
	}
	s, err := mysqld.Start(context.Background(), inst, mysqld.Options{Dir: filepath.Join(dir, "s"), RunAs: u})
	if err != nil {
		t.Fatal(err)
	}
	mysqldtest.Exec(t, s, "SELECT 1")
	if err := s.Kill(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(real.Root, "bin", "mysqld"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("the original changed hands: %v", err)
	}
}
