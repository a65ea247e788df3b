package devcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/runas"
)

// TestNothingOutlivesTheSupervisor: the supervisor is killed, first while it starts things,
// then when all is up. No process is left, and Down, and the next Up, clear the rest away.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	o, err := testOptions(dir)
	if err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	go func() {
		// As soon as servers are starting.
		deadline := time.Now().Add(time.Minute)
		for time.Now().Before(deadline) {
			f, _ := openFolder(dir)
			if data, err := f.dataDir(); err == nil && len(members(data)) >= 5 {
				killed <- syscall.Kill(supervisorOf(data), syscall.SIGKILL)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		killed <- fmt.Errorf("nothing was started within a minute")
	}()
	var out lockedBuffer
	err = Up(context.Background(), o, &out)
	if killErr := <-killed; killErr != nil {
		t.Fatal(killErr)
	}
	if err == nil {
		t.Fatal("up says nothing of a supervisor that was killed")
	}
	first := data(t, dir)
	nothingLeft(t, first)

	up(t, dir)
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the next up has left the crashed cluster's data: %v", err)
	}
	second := data(t, dir)
	if n := len(members(second)); n < 9 {
		t.Errorf("found %d processes, expected 9 or more", n)
	}
	if err := syscall.Kill(supervisorOf(second), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, second)
	if _, err := Status(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "vifl dev down") {
		t.Errorf("status after the crash: found %v, expected it to name vifl dev down", err)
	}
	if found, err := Down(context.Background(), dir); err != nil || !found {
		t.Errorf("down after the crash: %v, %v", found, err)
	}
	if _, err := os.Stat(second); !os.IsNotExist(err) {
		t.Errorf("down has left the data: %v", err)
	}
}

// supervisorOf finds the supervisor: the member whose arguments say so. The folder cannot be
// asked for it, a crash comes too early.
func supervisorOf(data string) int {
	for _, pid := range members(data) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(raw), "\x00supervise\x00") {
			return pid
		}
	}
	return 0
}

// TestTheWatchdogEndsWhatIsNotTheSupervisorsChild: a process with the cluster's marker whose
// parent is somebody else (as a tablet's mysqld after the tablet's death) gets no signal
// from the kernel; a process of another cluster gets none from anybody.
func TestTheWatchdogEndsWhatIsNotTheSupervisorsChild(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(t.TempDir(), "one")
	sleep := func(value string) *exec.Cmd {
		cmd := exec.Command("sleep", "300")
		cmd.Env = append(os.Environ(), markerEnv+"="+value)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	ours, other := sleep(marker), sleep(marker+"2")
	watchdog := exec.Command(exe, "dev", "watchdog")
	watchdog.Env = append(os.Environ(), markerEnv+"="+marker)
	pipe, err := watchdog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watchdog.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ours.Wait() }()
	select {
	case <-ended:
		t.Fatal("the watchdog killed while its supervisor lived")
	case <-time.After(300 * time.Millisecond):
	}
	_ = pipe.Close()
	if err := watchdog.Wait(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the process of the cluster lives on")
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil || len(members(marker+"2")) != 1 {
		t.Errorf("the process of another cluster is gone: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}

// TestForegroundEndsWithItsInput: a cluster in the foreground belongs to who started it.
// A second one comes up beside it at the same time.
func TestForegroundEndsWithItsInput(t *testing.T) {
	if testing.Short() {
		t.Skip("two whole clusters at once")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, beside := clusterDir(t), clusterDir(t)
	cmd := exec.Command(exe, "dev", "foreground", dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	up(t, beside)
	waitReady(t, &out, ended)
	data := data(t, dir)
	if n := len(members(data)); n < 9 {
		t.Errorf("found %d processes, expected 9 or more", n)
	}
	_ = stdin.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v\n%s", err, out.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("the cluster in the foreground did not end with its input")
	}
	nothingLeft(t, data)
	if _, err := os.Stat(data); !os.IsNotExist(err) && os.Geteuid() != 0 {
		t.Errorf("its data is left: %v", err)
	}
	for _, p := range status(t, beside) {
		if !p.Up {
			t.Errorf("the cluster beside it has lost %s", p.Name)
		}
	}
}

func waitReady(t *testing.T, out *lockedBuffer, ended <-chan error) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !strings.Contains(out.String(), "\n"+Ready+"\n") {
		select {
		case err := <-ended:
			t.Fatalf("the cluster ended: %v\n%s", err, out.String())
		case <-deadline:
			t.Fatalf("the cluster is not up:\n%s", out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestAsOrdinaryUser runs the crashes of whole clusters as a user without rights: the same
// program, started by root as nobody.
func TestAsOrdinaryUser(t *testing.T) {
	u, err := runas.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if u.IsZero() {
		t.Skip("we are an ordinary user already: the other tests have shown it")
	}
	if testing.Short() {
		t.Skip("one more cluster")
	}
	home := mysqldtest.Dir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(home, "devcluster.test")
	if err := mysqld.CopyTree(exe, copied, false); err != nil {
		t.Fatal(err)
	}
	if err := u.Chown(copied); err != nil {
		t.Fatal(err)
	}
	bin, err := binDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "-test.run=^TestNothingOutlivesTheSupervisor$", "-test.v")
	cmd.Dir = home
	inst := mysqldtest.Installation(t, home)
	cmd.Env = append(os.Environ(), "VT_MYSQL_ROOT="+inst.Root, "VIFL_TEST_BIN="+reachable(t, u, bin, home))
	u.Apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNothingOutlivesTheSupervisor") {
		t.Errorf("as user %s: %v\n%s", u.Name, err, out)
	}
}

// reachable is bin, or a copy of it that the user can reach.
func reachable(t *testing.T, u runas.User, bin, home string) string {
	t.Helper()
	if u.CanReach(filepath.Join(bin, "vtgate")) {
		return bin
	}
	copied := filepath.Join(home, "bin")
	if err := mysqld.CopyTree(bin, copied, true); err != nil {
		t.Fatal(err)
	}
	return copied
}
