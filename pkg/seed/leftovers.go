package seed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	socketName = "mysql.sock"
	socketNote = "socket-folder"
)

// takeLock takes a lock file without waiting. Whoever holds it is named in it.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		raw, _ := os.ReadFile(path)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another seed of this landing runs (process %s, lock %s): wait for it, or stop it", strings.TrimSpace(string(raw)), path)
		}
		return nil, fmt.Errorf("lock file %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// removeScratch stops a scratch server that still runs in the folder and removes it.
func removeScratch(dir string) error {
	pids, err := filepath.Glob(filepath.Join(dir, "vt_*", "mysql.pid"))
	if err != nil {
		return err
	}
	for _, file := range pids {
		if err := killServer(file, dir); err != nil {
			return err
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, socketNote)); err == nil {
		_ = os.RemoveAll(string(raw))
	}
	return os.RemoveAll(dir)
}

// killServer ends the process that a pid file names, if it is a server of this very folder:
// a number in an old file may belong to anybody by now.
func killServer(file, dir string) error {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		return nil
	}
	ours := func() bool {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && bytes.Contains(cmdline, []byte("--defaults-file="+dir+"/"))
	}
	if !ours() {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the scratch server %d: %w", pid, err)
	}
	for end := time.Now().Add(20 * time.Second); ours(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the scratch server %d is still there 20s after SIGKILL", pid)
		}
	}
	return nil
}
