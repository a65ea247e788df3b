package seed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
)

// Child is the child's side of Run: a description on stdin, events on stdout. It returns
// when the seed is done, has failed, or the parent is gone. The error has been sent already.
func Child(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	// The parent's lock, which must not be handed down to the scratch server: it would hold
	// it after both of us are gone.
	syscall.CloseOnExec(3)
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return errors.New("seed: no description on standard input: this command is started by vifl itself")
	}
	var w wire
	if err := w.decode(line); err != nil {
		return err
	}
	go func() {
		// Nothing more comes; the end of it is the parent's end.
		_, _ = io.Copy(io.Discard, in)
		cancel()
		time.Sleep(stopGrace)
		os.Exit(1)
	}()
	user := runas.User{Name: w.User.Name, Home: w.User.Home, UID: w.User.UID, GID: w.User.GID}
	if err := user.Drop(); err != nil {
		return err
	}
	// The kernel forgets the parent-death signal when a process changes its user.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("seed: prctl: %w", err)
	}
	out := &emitter{w: json.NewEncoder(stdout)}
	result, err := newJob(w, out).run(ctx)
	if err != nil {
		out.send(Event{Error: err.Error()})
		return err
	}
	out.send(Event{Phase: PhaseDone, Result: result})
	return nil
}

// emitter writes events, one a line.
type emitter struct {
	mu sync.Mutex
	w  *json.Encoder
}

func (e *emitter) send(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A parent that no longer reads is a parent that is gone: stdin tells.
	_ = e.w.Encode(ev)
}

// job is one seed in the child.
type job struct {
	spec    Spec
	w       wire
	inst    *mysqld.Installation
	out     *emitter
	scratch *scratch
	result  *Result

	phase string
	began time.Time
}

func newJob(w wire, out *emitter) *job {
	return &job{spec: w.Spec, w: w, inst: &mysqld.Installation{Root: w.MySQL.Root, Cnf: w.MySQL.Cnf}, out: out, result: &Result{Phases: map[string]time.Duration{}}}
}

// enter begins a phase and notes how long the one before took.
func (j *job) enter(phase, message string) {
	now := time.Now()
	if j.phase != "" {
		j.result.Phases[j.phase] += now.Sub(j.began)
	}
	j.phase, j.began = phase, now
	if message != "" {
		j.say(message)
	}
}

func (j *job) say(message string) {
	j.out.send(Event{Phase: j.phase, Message: message, Elapsed: time.Since(j.began), Position: j.result.Position})
}

func (j *job) run(ctx context.Context) (*Result, error) {
	j.enter(PhasePrepare, "starting the scratch server")
	var err error
	if j.scratch, err = newScratch(ctx, j.w, j.inst); err != nil {
		return nil, err
	}
	defer j.scratch.discard()
	if j.spec.Method == MethodClone {
		err = j.clone(ctx)
	} else {
		err = j.copy(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := j.backup(ctx); err != nil {
		return nil, err
	}
	j.enter("", "")
	return j.result, nil
}
