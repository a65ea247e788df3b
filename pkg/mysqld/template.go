package mysqld

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/runas"
)

// initTimeout bounds mysqld --initialize: seconds on a quiet machine.
const initTimeout = 2 * time.Minute

// Template makes sure that an initialised data folder of this installation is kept in the
// cache and returns its path. Initialising takes seconds, copying a fraction of one. Safe
// under parallel use by several processes. u is the user that initialises.
//
// The folder is named by the server's version, path, size and time of change, so another
// server never gets it.
func Template(ctx context.Context, inst *Installation, u runas.User) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("mysqld: cache of data folders: %w", err)
	}
	key, err := templateKey(ctx, inst, u)
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, "mysqld-"+key)
	if isDir(final) {
		return final, nil
	}
	unlock, err := lockFile(ctx, final+".lock")
	if err != nil {
		return "", fmt.Errorf("mysqld: wait for the data folder that another process initialises: %w", err)
	}
	defer unlock()
	if isDir(final) {
		return final, nil
	}
	// Made where the user can write, then moved; the rename at the end makes it whole or
	// absent.
	work, err := u.MkdirTemp("vifl-init")
	if err != nil {
		return "", fmt.Errorf("mysqld: initialise: %w", err)
	}
	defer os.RemoveAll(work)
	if err := initialise(ctx, inst, u, work); err != nil {
		return "", err
	}
	next, err := os.MkdirTemp(cache, ".next")
	if err != nil {
		return "", fmt.Errorf("mysqld: cache of data folders: %w", err)
	}
	defer os.RemoveAll(next)
	if err := CopyTree(filepath.Join(work, "data"), filepath.Join(next, "data"), false); err != nil {
		return "", fmt.Errorf("mysqld: cache of data folders: %w", err)
	}
	// Each server makes its own server_uuid: two servers with one never replicate from
	// each other.
	if err := os.Remove(filepath.Join(next, "data", "auto.cnf")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("mysqld: cache of data folders: %w", err)
	}
	if err := os.Rename(filepath.Join(next, "data"), final); err != nil {
		return "", fmt.Errorf("mysqld: cache of data folders: %w", err)
	}
	return final, nil
}

func initialise(ctx context.Context, inst *Installation, u runas.User, work string) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	cnf, log := filepath.Join(work, "my.cnf"), filepath.Join(work, "init.log")
	if err := writeCnf(cnf, inst, nil); err != nil {
		return fmt.Errorf("mysqld: initialise: %w", err)
	}
	if err := u.Chown(work); err != nil {
		return fmt.Errorf("mysqld: initialise: %w", err)
	}
	args := []string{
		"--defaults-file=" + cnf, "--initialize-insecure", "--datadir=" + filepath.Join(work, "data"),
		"--log-error=" + log, "--disable-log-bin",
	}
	cmd := exec.Command(inst.Program(), append(args, basedir(inst, Options{RunAs: u})...)...)
	cmd.Dir = work
	u.Apply(cmd)
	p, err := child.Start("mysqld --initialize-insecure", cmd, log)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("mysqld: initialise a data folder: %w%s", ctx.Err(), child.Tail(log))
	}
	if !cmd.ProcessState.Success() {
		return p.ExitError()
	}
	return nil
}

func templateKey(ctx context.Context, inst *Installation, u runas.User) (string, error) {
	version, err := inst.Version(ctx, u)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", version, small)
	// The program, and the one behind a start script.
	for _, p := range []string{inst.Program(), filepath.Join(inst.Root, "lib", "programs", "mysqld")} {
		info, err := os.Stat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("mysqld: %w", err)
		}
		fmt.Fprintf(h, "%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// cacheDir is the user's cache folder, or, for a user without a home (nobody), a folder for
// temporary files that nobody else can have made or can write to.
func cacheDir() (string, error) {
	if base, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(base, "vifl")
		if err := os.MkdirAll(dir, 0o700); err == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("vifl-cache-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s: found mode %s, expected a folder that only we can write to: remove it", dir, info.Mode())
	}
	return dir, nil
}

// lockFile waits for the lock on a file until ctx ends. The lock ends with the process.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
