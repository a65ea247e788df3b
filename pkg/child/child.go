// Package child owns processes that must not outlive us: servers that we start. A child
// gets SIGKILL from the kernel when we are gone, however we went.
//
// It knows nothing of what the processes are.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a running or ended child.
type Process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // valid after exited is closed
}

// starter hands commands to one thread that lives as long as we do: the kernel's "parent"
// in the parent-death signal is the *thread* that forked. Were it one of the runtime's
// threads, the child would be killed whenever the runtime ends that thread.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		// Never unlocked: the thread stays.
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts the command in a process group of its own (a Ctrl-C at the terminal must not
// reach servers before we have decided). Its output should already be directed to a log
// file; log names that file, for messages, and may be empty.
func Start(name string, cmd *exec.Cmd, log string) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		return nil, fmt.Errorf("%s: start %s: %w", name, cmd.Path, err)
	}
	p := &Process{name: name, log: log, cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Pid is the process id, also after the end.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports that it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ExitError says how the process ended, with the last lines of its log. It waits for
// nothing: for a process that still runs it is nil.
func (p *Process) ExitError() error {
	if p.Running() {
		return nil
	}
	how := "ended by itself"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s: the process is gone (%s)%s", p.name, how, Tail(p.log))
}

// Signal sends a signal; to a process that has ended already it does nothing.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: signal process %d: %w", p.name, p.Pid(), err)
	}
	return nil
}

// Stop asks the process to end and waits for it; when ctx ends first it is killed and the
// error says so. A process that has ended already is fine.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("%s: did not end when asked to: %w: killed%s", p.name, ctx.Err(), Tail(p.log))
	}
}

// killWait bounds the wait for a killed process: longer means that the kernel cannot end
// it (a disk that hangs).
const killWait = 20 * time.Second

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(killWait):
		return fmt.Errorf("%s: process %d is still there %s after SIGKILL", p.name, p.Pid(), killWait)
	}
}

// tailBytes of a log are shown in an error.
const tailBytes = 1200

// Tail is the end of a log file, for an error message: empty when there is none.
func Tail(path string) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(info.Size()-tailBytes, 0)
	}
	buf := make([]byte, tailBytes)
	n, _ := f.Read(buf)
	text := strings.TrimSpace(strings.ToValidUTF8(string(buf[:n]), "?"))
	if text == "" {
		return fmt.Sprintf("; its log %s is empty", path)
	}
	return fmt.Sprintf("; the end of %s:\n%s", filepath.Clean(path), text)
}
