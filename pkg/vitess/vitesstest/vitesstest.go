// Package vitesstest starts a real, small Vitess fleet for tests: etcd inside the test's
// process, vtctld, and a landing of one tablet with its mysqld. Everything runs as an
// ordinary user, on free ports, and dies with the test's process.
//
// The programs are those that scripts/setup.sh leaves in bin/. A machine without them fails
// the tests: a skipped test proves nothing.
package vitesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/etcd"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
	"github.com/vifl/vifl/pkg/vitess"
)

const (
	// Cell is the fleet's only cell.
	Cell = "zone1"
	root = "/vitess/global"
	// attempts is how often a port is chosen anew when somebody took it meanwhile.
	attempts = 4
	// patience bounds the wait for each part.
	patience = 90 * time.Second
)

// Fleet is a Vitess fleet of a test.
type Fleet struct {
	*vitess.Fleet
	// Config is what a vifl.yaml would say of it.
	Config *config.Config

	dir  string
	user runas.User
	inst *mysqld.Installation
	bin  string

	etcd     *etcd.Server
	vtctld   *child.Process
	vtgates  []*child.Process
	adding   sync.Mutex // guards landings
	landings []*Tablet  // and the tablets of keyspaces that are none
	copying  sync.Mutex
}

// Start starts etcd and vtctld. Stop must be called, whatever it returns.
func Start(ctx context.Context) (f *Fleet, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f = &Fleet{Config: &config.Config{Topo: config.Topo{Implementation: "etcd2", Root: root}, Cells: []string{Cell}}}
	if f.user, err = runas.Lookup("nobody"); err != nil {
		return f, err
	}
	if f.dir, err = f.user.MkdirTemp("vifl-fleet"); err != nil {
		return f, err
	}
	inst, err := mysqld.Find("")
	if err != nil {
		return f, err
	}
	if f.inst, err = inst.For(f.user, f.dir); err != nil {
		return f, err
	}
	if f.bin, err = builtPrograms(); err != nil {
		return f, err
	}
	if err := f.startEtcd(ctx); err != nil {
		return f, err
	}
	if err := f.startVtctld(ctx); err != nil {
		return f, err
	}
	f.Fleet, err = vitess.Open(ctx, f.Config)
	return f, err
}

// Stop ends everything and removes the fleet's folder.
func (f *Fleet) Stop() error {
	var errs []error
	for _, g := range f.vtgates {
		errs = append(errs, g.Kill())
	}
	for _, t := range f.landings {
		errs = append(errs, t.kill())
	}
	if f.Fleet != nil {
		f.Close()
	}
	if f.vtctld != nil {
		errs = append(errs, f.vtctld.Kill())
	}
	if f.etcd != nil {
		f.etcd.Close()
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}

// Dir is a new folder for one more server of the test, below the fleet's own.
func (f *Fleet) Dir(name string) (string, error) {
	dir := filepath.Join(f.dir, name)
	if err := os.Mkdir(dir, 0o750); err != nil {
		return "", err
	}
	return dir, f.user.Chown(dir)
}

// MySQL starts one more mysqld, such as a legacy server.
func (f *Fleet) MySQL(ctx context.Context, name string, extra ...string) (*mysqld.Server, error) {
	dir, err := f.Dir(name)
	if err != nil {
		return nil, err
	}
	return mysqld.Start(ctx, f.inst, mysqld.Options{Dir: dir, Name: name, RunAs: f.user, Extra: extra})
}

// builtPrograms is the folder that scripts/setup.sh builds into.
func builtPrograms() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin"), nil
		}
	}
	return "", fmt.Errorf("%s is not in the module", wd)
}

// program is the path of a Vitess program, of a copy when the servers' user cannot reach it.
func (f *Fleet) program(name string) (string, error) {
	f.copying.Lock()
	defer f.copying.Unlock()
	path := filepath.Join(f.bin, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("a Vitess program: %w: run scripts/setup.sh", err)
	}
	if f.user.CanReach(path) {
		return path, nil
	}
	copied := filepath.Join(f.dir, "bin", name)
	if _, err := os.Stat(copied); err == nil {
		return copied, nil
	}
	if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
		return "", err
	}
	return copied, mysqld.CopyTree(path, copied, true)
}

// Vtctldclient runs Vitess' own client against the fleet's vtctld, as an operator would, and
// returns what it prints on stdout.
func (f *Fleet) Vtctldclient(ctx context.Context, args ...string) (string, error) {
	// Without a time-out of its own it asks a vtctld that is gone for ever.
	all := append([]string{"--server", f.Config.Vtctld, "--action-timeout", patience.String()}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin, "vtctldclient"), all...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("vtctldclient %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}

func (f *Fleet) startEtcd(ctx context.Context) (err error) {
	if f.etcd, err = etcd.Start(ctx, f.dir, filepath.Join(f.dir, "etcd.log")); err != nil {
		return err
	}
	f.Config.Topo.Server = f.etcd.Address
	ts, err := f.etcd.Topo(ctx, root, Cell)
	if err == nil {
		ts.Close()
	}
	return err
}

func (f *Fleet) startVtctld(ctx context.Context) error {
	var grpc int
	p, err := f.daemon(ctx, "vtctld", "vtctld", func() ([]string, error) {
		var err error
		grpc, err = mysqld.FreePort()
		return []string{"--cell", Cell, "--service-map", "grpc-vtctl,grpc-vtctld", "--grpc-port", fmt.Sprint(grpc), "--grpc-bind-address", "127.0.0.1"}, err
	})
	f.vtctld, f.Config.Vtctld = p, fmt.Sprintf("127.0.0.1:%d", grpc)
	return err
}

// daemon starts a Vitess server and waits until its web server answers as that process.
func (f *Fleet) daemon(ctx context.Context, program, name string, arguments func() ([]string, error)) (p *child.Process, err error) {
	log := filepath.Join(f.dir, name+".log")
	path, err := f.program(program)
	if err != nil {
		return nil, err
	}
	for range attempts {
		args, aerr := arguments()
		if aerr != nil {
			return nil, aerr
		}
		port, perr := mysqld.FreePort()
		if perr != nil {
			return nil, perr
		}
		out, oerr := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if oerr != nil {
			return nil, oerr
		}
		cmd := exec.Command(path, append([]string{
			"--port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--log-format", "text",
			"--topo-implementation", "etcd2", "--topo-global-server-address", f.Config.Topo.Server, "--topo-global-root", root,
		}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, out, out
		cmd.Env = append(os.Environ(), "VTDATAROOT="+f.dir, "VT_MYSQL_ROOT="+f.inst.Root)
		f.user.Apply(cmd)
		p, err = child.Start(name, cmd, log)
		_ = out.Close()
		if err != nil {
			return nil, err
		}
		if err = answers(ctx, p, port); err == nil {
			return p, nil
		}
		_ = p.Kill()
		if ctx.Err() != nil || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
	return nil, err
}

// answers waits until the process serves its variables; somebody else's on the same port
// would have another command line.
func answers(ctx context.Context, p *child.Process, port int) error {
	for {
		var vars struct {
			Cmdline []string `json:"cmdline"`
		}
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/vars", port))
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&vars)
			_ = resp.Body.Close()
		}
		if err == nil && strings.Contains(strings.Join(vars.Cmdline, " "), fmt.Sprintf("--port %d ", port)) {
			return nil
		}
		select {
		case <-p.Exited():
			return p.ExitError()
		case <-ctx.Done():
			return fmt.Errorf("waiting until it answers on port %d: %w", port, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
