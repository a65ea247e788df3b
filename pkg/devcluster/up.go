package devcluster

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

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/runas"
)

// Options says what cluster to bring up.
type Options struct {
	// Dir is the cluster's folder; made when missing.
	Dir string
	// Self is the command whose sub-commands supervise, watchdog, provision and deprovision
	// call this package: the path of our own program and "dev".
	Self []string
	// Bin is the folder of vtgate, vttablet, vtctld, vtorc and mysqlctl; default is that of
	// Self.
	Bin string
	// MySQLRoot is where mysqld is; default as mysqld.Find has it.
	MySQLRoot string
	// RunAs is whom everything runs as when we are root; default nobody.
	RunAs string
	// Size of the data of each legacy shard; default appschema.DefaultSize.
	Size appschema.Size
	// StopAtEOF ends a cluster in the foreground when stdin is closed.
	StopAtEOF bool
}

// The supervisor finds these descriptors open: where lines of progress go, and the locked
// lock file, which stays locked as long as anybody has it open.
const (
	progressFD = 3
	lockFD     = 4
)

// optionsEnv carries SuperviseOptions to the supervisor. They hold no secret.
const optionsEnv = "VIFL_DEV_OPTIONS"

// Up brings a cluster up in the background, copying lines of progress to w, and returns
// when all of it is up. What an earlier cluster in the same folder left when it crashed is
// removed first; one that is up is an error. When ctx ends, or anything fails, what was
// started is ended; the data folder stays for its logs until Down.
func Up(ctx context.Context, o Options, w io.Writer) error {
	s, f, lock, err := prepareUp(ctx, o, w)
	if err != nil {
		return err
	}
	defer lock.Close()
	// Errors and panics of the supervisor end in its log.
	log, err := os.OpenFile(f.log(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	defer log.Close()
	r, pw, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(s.Self[0], append(s.Self[1:len(s.Self):len(s.Self)], "supervise")...)
	if cmd.Env, err = superviseEnv(s); err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{pw, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal's signals
	err = cmd.Start()
	_ = pw.Close()
	if err != nil {
		return fmt.Errorf("local fleet: start the supervisor: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if lines.Text() == Ready {
			return cmd.Process.Release()
		}
		fmt.Fprintln(w, lines.Text())
	}
	waitErr := cmd.Wait()
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	killErr := killMembers(killCtx, s.Data)
	if err := ctx.Err(); err != nil {
		return errors.Join(fmt.Errorf("local fleet: interrupted while it came up: %w", context.Cause(ctx)), killErr)
	}
	return errors.Join(fmt.Errorf("local fleet: it did not come up (%w); logs are in %s until vifl dev down%s", waitErr, filepath.Join(s.Data, "log"), child.Tail(f.log())), killErr)
}

// Foreground replaces this process by the supervisor, which writes its progress to
// standard output. It returns only an error.
func Foreground(ctx context.Context, o Options, w io.Writer) error {
	s, _, lock, err := prepareUp(ctx, o, w)
	if err != nil {
		return err
	}
	env, err := superviseEnv(s)
	if err != nil {
		return err
	}
	// Exec keeps only descriptors that are not to be closed: Dup3 without the flag.
	for from, to := range map[int]int{1: progressFD, int(lock.Fd()): lockFD} {
		if from == to {
			_, err = unix.FcntlInt(uintptr(from), unix.F_SETFD, 0)
		} else {
			err = unix.Dup3(from, to, 0)
		}
		if err != nil {
			return fmt.Errorf("local fleet: %w", err)
		}
	}
	err = syscall.Exec(s.Self[0], append(append([]string{}, s.Self...), "supervise"), env)
	return fmt.Errorf("local fleet: become the supervisor: %w", err)
}

func superviseEnv(s SuperviseOptions) ([]string, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("local fleet: %w", err)
	}
	return append(os.Environ(), markerEnv+"="+s.Data, optionsEnv+"="+string(raw)), nil
}

// SuperviseFromEnv runs the supervisor that Up or Foreground has started.
func SuperviseFromEnv(ctx context.Context) error {
	var o SuperviseOptions
	if err := json.Unmarshal([]byte(os.Getenv(optionsEnv)), &o); err != nil {
		return fmt.Errorf("local fleet: the supervisor must be started by vifl dev up: %w", err)
	}
	if err := os.Unsetenv(optionsEnv); err != nil {
		return err
	}
	// Neither is for our children: a child that held the lock would keep it after us.
	unix.CloseOnExec(progressFD)
	unix.CloseOnExec(lockFD)
	return Supervise(ctx, o, os.NewFile(progressFD, "progress"))
}

// prepareUp makes the cluster's folder and the data folder.
func prepareUp(ctx context.Context, o Options, w io.Writer) (s SuperviseOptions, f folder, lock *os.File, err error) {
	fail := func(err error) (SuperviseOptions, folder, *os.File, error) {
		if lock != nil {
			_ = lock.Close()
		}
		return SuperviseOptions{}, "", nil, err
	}
	if f, err = openFolder(o.Dir); err != nil {
		return fail(err)
	}
	if o.RunAs == "" {
		o.RunAs = "nobody"
	}
	u, err := runas.Lookup(o.RunAs)
	if err != nil {
		return fail(err)
	}
	if len(o.Self) == 0 || !filepath.IsAbs(o.Self[0]) {
		return fail(fmt.Errorf("local fleet: found command %q, expected an absolute path", o.Self))
	}
	if o.Bin == "" {
		o.Bin = filepath.Dir(o.Self[0])
	}
	if o.Size.Teams == 0 {
		o.Size = appschema.DefaultSize()
	}
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return fail(fmt.Errorf("local fleet: %w", err))
	}
	if lock, err = f.lock(); err != nil {
		return fail(err)
	}
	if data, err := f.dataDir(); err == nil {
		fmt.Fprintf(w, "  removing what an earlier fleet left in %s\n", data)
		if err := clean(ctx, f, data); err != nil {
			return fail(err)
		}
		// The lock file was removed with the rest.
		_ = lock.Close()
		if err := os.MkdirAll(string(f), 0o755); err != nil {
			return fail(fmt.Errorf("local fleet: %w", err))
		}
		if lock, err = f.lock(); err != nil {
			return fail(err)
		}
	} else if !errors.Is(err, ErrAbsent) {
		return fail(err)
	}
	data, err := f.newDataDir(u)
	if err != nil {
		return fail(err)
	}
	return SuperviseOptions{
		Dir: string(f), Data: data, Self: o.Self, Bin: o.Bin, MySQLRoot: o.MySQLRoot, RunAs: o.RunAs, Size: o.Size, StopAtEOF: o.StopAtEOF,
	}, f, lock, nil
}

// clean ends what is left of a cluster and removes its data and its files.
func clean(ctx context.Context, f folder, data string) error {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	if err := killMembers(ctx, data, os.Getpid()); err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("local fleet: remove %s: %w", data, err)
	}
	if err := f.remove(); err != nil {
		return fmt.Errorf("local fleet: remove %s: %w", string(f), err)
	}
	return nil
}

// Down takes down the cluster in dir, also what a crashed one left, and removes its data.
// When there is none, found is false. It never touches another cluster's processes.
func Down(ctx context.Context, dir string) (found bool, err error) {
	f, err := openFolder(dir)
	if err != nil {
		return false, err
	}
	data, err := f.dataDir()
	if errors.Is(err, ErrAbsent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// In order first, if somebody is there to hear it.
	askCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	_, err = f.ask(askCtx, request{Verb: "stop"}, nil)
	cancel()
	if err == nil {
		waitCtx, cancel := context.WithTimeout(ctx, downTimeout)
		defer cancel()
		_ = poll(waitCtx, "the supervisor has ended", func() (bool, error) {
			lock, err := f.lock()
			if err == nil {
				_ = lock.Close()
			}
			return err == nil, nil
		})
	}
	return true, clean(ctx, f, data)
}
