package seed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
)

// ChildCommand is the hidden argument that makes our own program a seed's child.
const ChildCommand = "seed-child"

// stopGrace is how long a child that was told to stop may take to end its scratch server;
// then both are killed.
const stopGrace = 20 * time.Second

// Run makes a seed in a child process and waits for it. When ctx ends the child stops, its
// scratch server goes, and the scratch folder is removed; the half-written backup has no
// MANIFEST, and goes too. progress may be nil; it is called from one goroutine.
//
// An earlier seed of this landing that was killed is cleaned up first. ErrExists: there is
// a complete backup already. Errors name the shard, the server and what to do.
func Run(ctx context.Context, spec Spec, progress func(Event)) (*Result, error) {
	spec = spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Event) {}
	}
	say := func(text string) { progress(Event{Phase: PhasePrepare, Message: text}) }
	fail := func(err error) (*Result, error) { return nil, fmt.Errorf("seed %s: %w", spec.Shard, err) }

	user, err := runas.Lookup(spec.RunAs)
	if err != nil {
		return fail(err)
	}
	w, unlock, err := prepare(ctx, spec, user, say)
	if err != nil {
		return fail(err)
	}
	defer unlock.Close()
	defer func() { _ = removeScratch(w.Dir) }()
	old, err := makeWay(spec, say)
	if err != nil {
		return nil, err
	}
	if err := backupFolder(spec, user); err != nil {
		return fail(err)
	}
	r, err := runChild(ctx, w, unlock, progress)
	if err != nil {
		return fail(err)
	}
	for _, b := range old {
		if err := removeBackup(spec.BackupRoot, spec.Keyspace, b.Name); err != nil {
			return fail(err)
		}
	}
	return r, nil
}

// prepare takes the lock, removes leftovers and makes the scratch folder. The lock's file
// is returned open.
func prepare(ctx context.Context, spec Spec, user runas.User, say func(string)) (*wire, *os.File, error) {
	if err := os.MkdirAll(spec.WorkDir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("work folder: %w", err)
	}
	if !user.CanReach(spec.WorkDir) {
		return nil, nil, fmt.Errorf("work folder %s: user %s cannot enter it: choose another (workdir), or open the folders above", spec.WorkDir, user.Name)
	}
	lock, err := takeLock(filepath.Join(spec.WorkDir, "seed-"+spec.Keyspace+".lock"))
	if err != nil {
		return nil, nil, err
	}
	done := false
	defer func() {
		if !done {
			_ = lock.Close()
		}
	}()
	w := &wire{Spec: spec, Dir: filepath.Join(spec.WorkDir, "seed-"+spec.Keyspace)}
	if _, err := os.Stat(w.Dir); err == nil {
		say("removing what an interrupted seed left in " + w.Dir)
		if err := removeScratch(w.Dir); err != nil {
			return nil, nil, fmt.Errorf("leftovers of an interrupted seed: %w", err)
		}
	}
	inst, err := mysqld.Find(spec.MySQLRoot)
	if err != nil {
		return nil, nil, err
	}
	if inst, err = inst.For(user, spec.WorkDir); err != nil {
		return nil, nil, err
	}
	if _, err := inst.Version(ctx, user); err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(w.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("scratch folder: %w", err)
	}
	if err := user.Chown(w.Dir); err != nil {
		return nil, nil, fmt.Errorf("scratch folder: %w", err)
	}
	socketDir, made, err := user.SocketDir(w.Dir, len(socketName))
	if err != nil {
		return nil, nil, fmt.Errorf("folder for the socket: %w", err)
	}
	if made {
		// Noted, so that it can be found after a kill.
		if err := os.WriteFile(filepath.Join(w.Dir, socketNote), []byte(socketDir), 0o600); err != nil {
			return nil, nil, fmt.Errorf("scratch folder: %w", err)
		}
	}
	w.SocketDir = socketDir
	w.MySQL = wireServer{Root: inst.Root, Cnf: inst.Cnf}
	w.User = wireUser{Name: user.Name, Home: user.Home, UID: user.UID, GID: user.GID}
	done = true
	return w, lock, nil
}

// backupFolder makes the landing's folder in the storage, writable for the seed's user.
func backupFolder(spec Spec, user runas.User) error {
	// Not made when it is missing: an unmounted storage would be filled on the wrong disk, and
	// every tablet would come up empty.
	if info, err := os.Stat(spec.BackupRoot); err != nil || !info.IsDir() {
		return fmt.Errorf("backup storage %s (backup.root): found no folder there, expected the tablets' --file-backup-storage-root: is it mounted?", spec.BackupRoot)
	}
	keyspace := filepath.Join(spec.BackupRoot, spec.Keyspace)
	landing := filepath.Join(keyspace, landingName)
	if err := os.MkdirAll(landing, 0o755); err != nil {
		return fmt.Errorf("backup storage: %w", err)
	}
	if user.IsZero() {
		return nil
	}
	for _, dir := range []string{keyspace, landing} {
		if err := os.Chown(dir, user.UID, user.GID); err != nil {
			return fmt.Errorf("backup storage: %w", err)
		}
	}
	if !user.CanReach(landing) {
		return fmt.Errorf("backup storage %s: user %s cannot enter it: open the folders above, or choose another (backup.root)", spec.BackupRoot, user.Name)
	}
	return nil
}

// runChild starts the child, hands it the description and follows its events.
func runChild(ctx context.Context, w *wire, lock *os.File, progress func(Event)) (*Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	description, err := w.encode()
	if err != nil {
		return nil, fmt.Errorf("describe the seed to the child: %w", err)
	}
	logPath := filepath.Join(w.Dir, "seed.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	toChild, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// Its end tells the child that we are gone, should the kernel's signal miss.
	defer stdin.Close()
	stdout, fromChild, err := os.Pipe()
	if err != nil {
		_ = toChild.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd := exec.Command(exe, ChildCommand)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = toChild, fromChild, log
	cmd.ExtraFiles = []*os.File{lock} // held as long as either of us lives
	p, err := child.Start("seed child", cmd, logPath)
	_, _ = toChild.Close(), fromChild.Close()
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Kill() }()
	if _, err := stdin.Write(description); err != nil {
		return nil, fmt.Errorf("describe the seed to the child: %w", errors.Join(err, p.ExitError()))
	}
	events := make(chan Event)
	go func() {
		defer close(events)
		readEvents(stdout, events)
	}()
	stopped := make(chan struct{})
	defer close(stopped)
	go stopChild(ctx, p, stopped)
	var last Event
	for e := range events {
		if e.Result == nil && e.Error == "" {
			progress(e)
			continue
		}
		last = e
	}
	select {
	case <-p.Exited():
	case <-time.After(stopGrace):
		_ = p.Kill()
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case last.Error != "":
		return nil, errors.New(last.Error)
	case last.Result == nil:
		return nil, p.ExitError()
	}
	return last.Result, nil
}

// stopChild asks the child to end when ctx does, and makes it end after a grace.
func stopChild(ctx context.Context, p *child.Process, stopped <-chan struct{}) {
	select {
	case <-stopped:
		return
	case <-ctx.Done():
	}
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited():
	case <-stopped:
	case <-time.After(stopGrace):
		_ = p.Kill()
	}
}

func readEvents(r io.Reader, events chan<- Event) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e Event
		if json.Unmarshal(line, &e) == nil {
			events <- e
		}
	}
}
