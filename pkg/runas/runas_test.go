package runas

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func nobody(t *testing.T) User {
	t.Helper()
	u, err := Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if u.IsZero() {
		t.Skip("not root: there is nobody else to run as")
	}
	return u
}

func TestOrdinaryUserRunsAsItself(t *testing.T) {
	var u User
	cmd := exec.Command("true")
	u.Apply(cmd)
	if cmd.SysProcAttr != nil || cmd.Env != nil {
		t.Errorf("the zero user changed the command: %+v", cmd)
	}
	if err := u.Drop(); err != nil {
		t.Error(err)
	}
	if !u.CanReach(t.TempDir()) || u.CanReach(filepath.Join(t.TempDir(), "missing")) {
		t.Error("CanReach of the zero user is not what we ourselves can reach")
	}
}

func TestRootIsNotAUserForServers(t *testing.T) {
	nobody(t)
	if _, err := Lookup("root"); err == nil {
		t.Error("root is accepted")
	}
	if _, err := Lookup("no-such-user"); err == nil {
		t.Error("a missing user is accepted")
	}
}

func TestApplyLeavesNoGroupsBehind(t *testing.T) {
	u := nobody(t)
	cmd := exec.Command("sh", "-c", "id -u; id -G; echo $HOME")
	cmd.Dir = "/"
	u.Apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 3 || got[0] == "0" || got[1] == "0" {
		t.Errorf("found uid, groups, home %q", got)
	}
}

func TestReach(t *testing.T) {
	u := nobody(t)
	closed := t.TempDir() // root's alone, and so is all below it
	file := filepath.Join(closed, "f")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	open, err := u.MkdirTemp("vifl-test")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	link := filepath.Join(open, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(open, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{open: true, closed: false, file: false, link: false, secret: false} {
		if got := u.CanReach(path); got != want {
			t.Errorf("CanReach(%s) = %v", path, got)
		}
	}
	if err := u.Chown(open); err != nil {
		t.Fatal(err)
	}
	if !u.CanReach(secret) {
		t.Error("a file given to the user is out of its reach")
	}
	if info, err := os.Lstat(file); err != nil || u.allowed(file, 0o2) {
		t.Errorf("what a link points at changed hands: %v %v", info, err)
	}
}

func TestSocketDirIsShort(t *testing.T) {
	var u User
	short, made, err := u.SocketDir("/tmp", 20)
	if err != nil || made || short != "/tmp" {
		t.Errorf("found %s, %v, %v", short, made, err)
	}
	deep, made, err := u.SocketDir(filepath.Join("/tmp", strings.Repeat("x", 90)), 20)
	if err != nil || !made || len(deep)+21 > maxSocketPath {
		t.Errorf("found %s, %v, %v", deep, made, err)
	}
	defer os.RemoveAll(deep)
}
