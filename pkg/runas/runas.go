// Package runas owns which unprivileged user servers run as when we are root: MySQL and
// Vitess refuse to run as root. When we are not root there is nothing to choose, and the
// zero User stands for "as we are"; every method works on it.
//
// It starts no processes and keeps no state.
package runas

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// User is a user of this machine. The zero User is whoever we are.
type User struct {
	Name     string
	UID, GID int
	Home     string
}

// Lookup finds the user that servers run as. When we are not root it is the zero User,
// whatever the name: an ordinary user cannot become another.
func Lookup(name string) (User, error) {
	if os.Geteuid() != 0 {
		return User{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return User{}, fmt.Errorf("user %q: %w: servers refuse to run as root, name another user (tools.run_as)", name, err)
	}
	uid, errU := strconv.Atoi(u.Uid)
	gid, errG := strconv.Atoi(u.Gid)
	if errU != nil || errG != nil {
		return User{}, fmt.Errorf("user %q: found ids %s and %s, expected numbers", name, u.Uid, u.Gid)
	}
	if uid == 0 {
		return User{}, fmt.Errorf("user %q is root: servers refuse to run as root, name another user (tools.run_as)", name)
	}
	return User{Name: name, UID: uid, GID: gid, Home: u.HomeDir}, nil
}

// IsZero reports that servers run as we are.
func (u User) IsZero() bool { return u.Name == "" }

// Apply makes the command run as the user, with the user's own group and no other: root's
// supplementary groups would come along otherwise.
func (u User) Apply(cmd *exec.Cmd) {
	if u.IsZero() {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID), Groups: []uint32{}}
	env := cmd.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(env[:len(env):len(env)], "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name)
}

// Drop makes this whole process, every thread of it, run as the user, for good.
func (u User) Drop() error {
	if u.IsZero() {
		return nil
	}
	// The groups first: after setuid there is no right to change them.
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("become user %q: setgroups: %w", u.Name, err)
	}
	if err := syscall.Setgid(u.GID); err != nil {
		return fmt.Errorf("become user %q: setgid: %w", u.Name, err)
	}
	if err := syscall.Setuid(u.UID); err != nil {
		return fmt.Errorf("become user %q: setuid: %w", u.Name, err)
	}
	// The kernel hides a process that changed its user from that user (its /proc entries
	// stay root's): our own look-out for leftovers could then not see ourselves.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become user %q: prctl: %w", u.Name, err)
	}
	for k, v := range map[string]string{"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name} {
		if err := os.Setenv(k, v); err != nil {
			return fmt.Errorf("become user %q: %w", u.Name, err)
		}
	}
	return nil
}

// CanReach reports whether the user may read the file, or enter the folder, and enter all
// folders above it. Programs must be executable too: a file that anyone may execute counts
// as reached only by who may. Access control lists are not looked at.
func (u User) CanReach(path string) bool {
	if u.IsZero() {
		mode := uint32(unix.R_OK)
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 != 0 {
			mode |= unix.X_OK
		}
		return unix.Access(path, mode) == nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return false
	}
	// Both the folders that lead to a link and those that lead to what it points at.
	for _, p := range []string{abs, real} {
		for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
			if !u.allowed(dir, 0o1) {
				return false
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	info, err := os.Stat(real)
	if err != nil {
		return false
	}
	want := fs.FileMode(0o4)
	if info.IsDir() || info.Mode()&0o111 != 0 {
		want |= 0o1
	}
	return u.allowed(real, want)
}

func (u User) allowed(path string, want fs.FileMode) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	perm := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(st.Uid) == u.UID:
		perm >>= 6
	case ok && int(st.Gid) == u.GID:
		perm >>= 3
	}
	return perm&want == want
}

// Chown gives a file, or a folder with all that is in it, to the user. Symbolic links
// themselves change hands, never what they point at.
func (u User) Chown(path string) error {
	if u.IsZero() {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, u.UID, u.GID)
	})
}

// MkdirTemp makes a new folder that belongs to the user, in the folder for temporary
// files, or in /tmp when the user cannot reach that one (TMPDIR in root's home).
func (u User) MkdirTemp(pattern string) (string, error) {
	parent := os.TempDir()
	if !u.IsZero() && !u.CanReach(parent) {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	if err := u.Chown(dir); err != nil {
		_ = os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// maxSocketPath keeps a Unix socket's path well below the kernel's 108 bytes: servers
// append to the name (.lock).
const maxSocketPath = 99

// SocketDir is a folder for sockets with names up to nameLength bytes: dir itself, or, when
// it is too deep, a new one, made is true, that the caller removes.
func (u User) SocketDir(dir string, nameLength int) (path string, made bool, err error) {
	fits := func(d string) bool { return len(d)+1+nameLength <= maxSocketPath }
	if fits(dir) && !strings.ContainsAny(dir, " '\"#") {
		return dir, false, nil
	}
	path, err = u.MkdirTemp("vifl")
	if err != nil || fits(path) {
		return path, err == nil, err
	}
	_ = os.Remove(path)
	path, err = os.MkdirTemp("/tmp", "vifl")
	if err != nil {
		return "", false, err
	}
	return path, true, u.Chown(path)
}
