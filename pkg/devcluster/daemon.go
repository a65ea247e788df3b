package devcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqld"
)

// daemon is a running Vitess server.
type daemon struct {
	name    string
	address string // what people connect to
	proc    *child.Process
}

// ports are those that one start of a daemon may use.
type ports struct{ http, grpc, mysql int }

func newPorts() (p ports, err error) {
	for _, to := range []*int{&p.http, &p.grpc, &p.mysql} {
		if *to, err = mysqld.FreePort(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// environment is what Vitess' programs get: the marker, their folders, and this process'
// own variables less those that would change what they do. Temporary files go into the
// cluster's folder: a TMPDIR that is closed to the unprivileged user would make a tablet's
// restore fail.
func (c *cluster) environment(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{markerEnv, "VTDATAROOT", "VTROOT", "VT_MYSQL_ROOT", "EXTRA_MY_CNF", "PWD", "TMPDIR"}, name) {
			env = append(env, v)
		}
	}
	return append(append(env, markerEnv+"="+c.o.Data, "VTDATAROOT="+filepath.Join(c.o.Data, "vt"), "VT_MYSQL_ROOT="+c.programs.mysql.Root, "TMPDIR="+c.o.Data), extra...)
}

// command prepares a Vitess program whose output goes to its log file.
func (c *cluster) command(program, name string, args ...string) (*exec.Cmd, *os.File, error) {
	out, err := os.OpenFile(c.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: log file: %w", name, err)
	}
	cmd := exec.Command(filepath.Join(c.programs.bin, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = c.o.Data, out, out, c.environment()
	return cmd, out, nil
}

// startDaemon starts a Vitess server and waits until its web server answers as that
// process. It chooses ports anew when somebody took them meanwhile. args makes the
// arguments, address says which port people use.
func (c *cluster) startDaemon(ctx context.Context, program, name string, args func(ports) []string, address func(ports) int) (*daemon, error) {
	for attempt := 1; ; attempt++ {
		p, err := newPorts()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d := &daemon{name: name, address: fmt.Sprintf("127.0.0.1:%d", address(p))}
		err = c.runDaemon(ctx, d, program, p, args(p))
		if err == nil {
			c.started.Lock()
			c.daemons = append(c.daemons, d)
			c.started.Unlock()
			return d, nil
		}
		if attempt == portAttempts || ctx.Err() != nil || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

func (c *cluster) runDaemon(ctx context.Context, d *daemon, program string, p ports, args []string) error {
	all := append([]string{
		"--port", fmt.Sprint(p.http), "--bind-address", "127.0.0.1",
		"--pid-file", filepath.Join(c.o.Data, "log", d.name+".pid"),
		"--topo-implementation", "etcd2", "--topo-global-server-address", c.etcd.Address, "--topo-global-root", topoRoot,
		"--log-format", "text",
	}, args...)
	cmd, out, err := c.command(program, d.name, all...)
	if err != nil {
		return err
	}
	defer out.Close()
	if d.proc, err = child.Start(d.name, cmd, c.logFile(d.name)); err != nil {
		return err
	}
	err = poll(ctx, d.name+" answers", func() (bool, error) {
		if !d.proc.Running() {
			return false, d.proc.ExitError()
		}
		return answersAs(ctx, p.http, c.o.Data), nil
	})
	if err != nil && d.proc.Running() {
		err = fmt.Errorf("%s: %w%s", d.name, err, c.tail(d.name))
		_ = d.proc.Kill()
	}
	return err
}

// answersAs asks a Vitess process which command line it has: a port that was taken by
// another cluster's process would answer just as well.
func answersAs(ctx context.Context, port int, data string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/debug/vars", port), nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var vars struct {
		Cmdline []string `json:"cmdline"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&vars); err != nil {
		return false
	}
	return slices.ContainsFunc(vars.Cmdline, func(arg string) bool { return strings.HasPrefix(arg, data+"/") })
}
