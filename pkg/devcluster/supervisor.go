package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
	"github.com/vifl/vifl/pkg/shardid"
)

// SuperviseOptions is what Up tells the supervisor.
type SuperviseOptions struct {
	Dir       string         `json:"dir"`        // the cluster's folder
	Data      string         `json:"data"`       // the data folder, made and recorded
	Self      []string       `json:"self"`       // the command whose sub-commands are the hidden ones
	Bin       string         `json:"bin"`        // folder of vtgate, vttablet, …
	MySQLRoot string         `json:"mysql_root"` // empty: looked for
	RunAs     string         `json:"run_as"`     // used when we are root
	Size      appschema.Size `json:"size"`       // data of each legacy shard
	// StopAtEOF ends the cluster when stdin is closed.
	StopAtEOF bool `json:"stop_at_eof"`
}

// cluster is what the supervisor holds.
type cluster struct {
	o        SuperviseOptions
	folder   folder
	programs *programs
	secrets  secrets
	files    *files
	say      func(format string, args ...any)
	root     bool // started by root
	watchdog int  // pid

	etcd    *topoServer
	mains   *mysqld.Server
	legacy  []*legacyShard
	started sync.Mutex // guards daemons and landings' lists
	daemons []*daemon

	landings landings
}

// legacyShard is a pair.
type legacyShard struct {
	id    shardid.ID
	sides [2]*mysqld.Server // a, b
}

var shardNumbers = []shardid.ID{123, 4567}

// Ready is the last line of progress of a supervisor that is up.
const Ready = "ready"

// Supervise is the supervisor: it starts the cluster, writes lines of progress to w, ending
// with Ready, and keeps it up until ctx ends or it is asked to stop; then it takes
// everything down. The caller's process must have been started by Up.
func Supervise(ctx context.Context, o SuperviseOptions, w io.Writer) error {
	if os.Getenv(markerEnv) != o.Data {
		return fmt.Errorf("local fleet: the supervisor must be started by vifl dev up")
	}
	// What our children leave behind when they end becomes ours, not init's.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("local fleet: become the reaper of orphans: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &cluster{o: o, folder: folder(o.Dir), root: os.Geteuid() == 0}
	var mu sync.Mutex
	c.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, format+"\n", args...) // when nobody listens any more, that is fine
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	stopWatchdog, err := c.startWatchdog()
	if err != nil {
		return err
	}
	defer stopWatchdog()
	go reapOrphans(ctx)
	// The end of everything, however Supervise returns.
	defer c.killAll()

	upCtx, done := context.WithTimeoutCause(ctx, upTimeout, fmt.Errorf("the local fleet was not up within %s", upTimeout))
	defer done()
	if err := c.start(upCtx); err != nil {
		if cause := context.Cause(upCtx); cause != nil && errors.Is(err, upCtx.Err()) {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		return err
	}
	l, err := listen(o.Data)
	if err != nil {
		return err
	}
	defer l.Close()
	go serve(ctx, l, func(ctx context.Context, r request, say func(string)) ([]Process, error) {
		switch r.Verb {
		case "status":
			return c.processes(), nil
		case "stop":
			cancel(errStopped)
			return nil, nil
		case "provision":
			return nil, c.provision(ctx, r.Landing, say)
		case "deprovision":
			return nil, c.deprovision(ctx, r.Landing)
		}
		return nil, fmt.Errorf("local fleet: the supervisor does not know %q", r.Verb)
	})
	if o.StopAtEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel(errStopped)
		}()
	}
	c.say(Ready)
	<-ctx.Done()
	c.killAll()
	// Before its folder goes: every 30 s etcd looks for old files to remove, and ends the whole
	// process, with exit code 1 and a word only in its log, when the folder is not there.
	c.etcd.Close()
	// What root made in it, Down removes.
	_ = os.RemoveAll(o.Data)
	return nil
}

var errStopped = errors.New("asked to stop")

// prepare does what needs root's rights, if we are root, and gives them up.
func (c *cluster) prepare(ctx context.Context) error {
	u, err := runas.Lookup(c.o.RunAs)
	if err != nil {
		return err
	}
	if c.programs, err = findPrograms(ctx, c.o, u); err != nil {
		return err
	}
	for _, d := range []string{"log", "my", "vt", "vt/tmp", "backups", "work", "etcd"} {
		dir := filepath.Join(c.o.Data, d)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("local fleet: %w", err)
		}
		if err := u.Chown(dir); err != nil {
			return fmt.Errorf("local fleet: %w", err)
		}
	}
	if c.secrets, err = newSecrets(c.folder); err != nil {
		return err
	}
	if c.files, err = openFiles(c.folder); err != nil {
		return err
	}
	if err := u.Drop(); err != nil {
		return err
	}
	return os.Chdir(c.o.Data)
}

// start brings everything up that is up before a landing exists. What does not depend on
// one another starts at once.
func (c *cluster) start(ctx context.Context) error {
	begin := time.Now()
	if err := c.startTopo(ctx); err != nil {
		return err
	}
	c.say("  %-22s up %5.1f s", "etcd", time.Since(begin).Seconds())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.startLegacy(ctx) })
	g.Go(func() error { return c.startVitess(ctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := c.writeConfig(); err != nil {
		return err
	}
	return c.writeState()
}

// timed says when a part is up.
func (c *cluster) timed(what string, f func() error) error {
	begin := time.Now()
	if err := f(); err != nil {
		return err
	}
	c.say("  %-22s up %5.1f s", what, time.Since(begin).Seconds())
	return nil
}

// killAll ends all processes of the cluster but ourselves and the watchdog's, whose turn
// comes when we close its pipe.
func (c *cluster) killAll() {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	if err := killMembers(ctx, c.o.Data, os.Getpid(), c.watchdog); err != nil {
		c.say("  %v", err)
	}
}

// startWatchdog starts the process that ends what is left of the cluster when we are gone.
// It notices by the end of its standard input, which only we hold.
func (c *cluster) startWatchdog() (stop func(), err error) {
	cmd := exec.Command(c.programs.self[0], append(c.programs.self[1:len(c.programs.self):len(c.programs.self)], "watchdog")...)
	cmd.Env = append(os.Environ(), markerEnv+"="+c.o.Data)
	cmd.Dir = "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("local fleet: watchdog: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("local fleet: watchdog: %w", err)
	}
	c.watchdog = cmd.Process.Pid
	return func() {
		_, _ = io.WriteString(pipe, watchdogOff)
		_ = pipe.Close()
		_ = cmd.Wait()
	}, nil
}

// watchdogOff is what a supervisor that ends in order, with all others gone, says last.
const watchdogOff = "all gone"

// Watchdog waits for the end of r and then, unless it was told that all is well, ends all
// processes of the cluster that its own environment names.
func Watchdog(r io.Reader) error {
	data := os.Getenv(markerEnv)
	if data == "" {
		return fmt.Errorf("local fleet: the watchdog must be started by a supervisor")
	}
	if said, err := io.ReadAll(r); err == nil && string(said) == watchdogOff {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	return killMembers(ctx, data, os.Getpid())
}

// reapOrphans collects ended processes that became ours when their parents ended. Our own
// children are collected by who started them, at once: whatever has stayed a zombie from
// one look to the next is an orphan.
func reapOrphans(ctx context.Context) {
	before := map[int]bool{}
	for {
		now := map[int]bool{}
		for _, pid := range zombies(os.Getpid()) {
			now[pid] = true
			if before[pid] {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

// zombies are the ended children of a process that nobody has waited for.
func zombies(parent int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may hold anything.
		text := string(raw)
		for i := len(text) - 1; i >= 0; i-- {
			if text[i] != ')' {
				continue
			}
			var state string
			var ppid int
			if _, err := fmt.Sscan(text[i+1:], &state, &ppid); err == nil && state == "Z" && ppid == parent {
				if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
					pids = append(pids, pid)
				}
			}
			break
		}
	}
	return pids
}

// account is a user whose password the cluster made.
func (c *cluster) account(user, secret string) mysqlconn.Account {
	return mysqlconn.Account{User: user, Password: c.secrets[secret]}
}

// logFile is where a process writes; tail is for errors.
func (c *cluster) logFile(name string) string { return filepath.Join(c.o.Data, "log", name+".log") }

func (c *cluster) tail(name string) string { return child.Tail(c.logFile(name)) }
