// Package e2e moves real shards of a real local fleet with the real command.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/devcluster"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// The fleet is started once and used by all tests, in the order of their names: bringing one
// up takes longer than most of them.
var fleet struct {
	dir  string
	vifl string
	cfg  *config.Config
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return 1, err
	}
	fleet.vifl = filepath.Join(root, "bin", "vifl")
	if _, err := os.Stat(fleet.vifl); err != nil {
		return 1, fmt.Errorf("%w: run scripts/setup.sh first", err)
	}
	if fleet.dir, err = os.MkdirTemp("", "vifl-e2e-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fleet.dir)) }()
	cmd := exec.Command(fleet.vifl, "dev", "up", "--foreground", "--dir", fleet.dir)
	stdin, err := cmd.StdinPipe() // its end is the fleet's end, also when we are killed
	if err != nil {
		return 1, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ready := make(chan struct{})
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(stdout)
		seen := false
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, "fleet:", lines.Text())
			if !seen && strings.TrimSpace(lines.Text()) == "ready" {
				seen = true
				close(ready)
			}
		}
	}()
	defer func() {
		_ = stdin.Close()
		<-drained
		err = errors.Join(err, cmd.Wait())
	}()
	select {
	case <-ready:
	case <-drained:
		return 1, errors.New("the local fleet did not come up")
	case <-time.After(3 * time.Minute):
		return 1, errors.New("the local fleet was not up within three minutes")
	}
	if fleet.cfg, err = config.Load(filepath.Join(fleet.dir, "vifl.yaml")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// result is what a run of the command gave.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
}

// commandTimeout bounds one run of the command: the longest, a seed, takes about a minute
// on two busy cores.
const commandTimeout = 5 * time.Minute

// viflWith runs the command with a configuration and an environment of its own.
func viflWith(t *testing.T, cfgPath string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, fleet.vifl, args...)
	cmd.Env = append(append(os.Environ(), "VIFL_CONFIG="+cfgPath), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		t.Fatalf("vifl %s: %v", strings.Join(args, " "), err)
	}
	t.Logf("vifl %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	return r
}

func vifl(t *testing.T, args ...string) result {
	t.Helper()
	return viflWith(t, fleet.cfg.Path(), nil, args...)
}

// must runs the command and fails the test unless it ends with 0.
func must(t *testing.T, args ...string) result {
	t.Helper()
	r := vifl(t, args...)
	if r.code != 0 {
		t.Fatalf("vifl %s: %s", strings.Join(args, " "), r)
	}
	return r
}

// decode reads a run's JSON.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("no JSON: %v: %s", err, r)
	}
	return v
}

// side connects to a side of a legacy shard as its administrator.
func side(t testing.TB, shard shardid.ID, name string) *sql.DB {
	t.Helper()
	s, err := fleet.cfg.Shard(shard)
	if err != nil {
		t.Fatal(err)
	}
	target, err := fleet.cfg.SideTarget(s, name)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, target)
}

// root connects to a side of a legacy shard as its owner does, over the socket. What is done
// there goes to no binlog.
func root(t testing.TB, shard shardid.ID, name string) *sql.DB {
	t.Helper()
	for _, p := range processes(t) {
		if p.Name == shard.String()+name {
			target := mysqlconn.Target{Name: shard.String() + " side " + name, Socket: p.Socket, Account: mysqlconn.Account{User: "root"}, Database: devcluster.Database}
			return connect(t, target, mysqlconn.WithParam("sql_log_bin", "0"))
		}
	}
	t.Fatalf("the fleet has no server of %s side %s", shard, name)
	return nil
}

// processes are those of the fleet.
func processes(t testing.TB) []devcluster.Process {
	t.Helper()
	list, err := devcluster.Status(t.Context(), fleet.dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func connect(t testing.TB, target mysqlconn.Target, options ...mysqlconn.Option) *sql.DB {
	t.Helper()
	db, err := mysqlconn.Connect(t.Context(), target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec1(t testing.TB, db *sql.DB, stmt string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), stmt, args...); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func query1(t testing.TB, db *sql.DB, stmt string, args ...any) string {
	t.Helper()
	var v sql.NullString
	if err := db.QueryRowContext(t.Context(), stmt, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	return v.String
}

// flags are a server's read_only, super_read_only and offline_mode, as digits.
func flags(t *testing.T, db *sql.DB) string {
	t.Helper()
	return query1(t, db, "SELECT CONCAT(@@GLOBAL.read_only, @@GLOBAL.super_read_only, @@GLOBAL.offline_mode)")
}

// changedConfig writes the fleet's vifl.yaml with pieces of text replaced, beside the
// original, where its relative files are found.
func changedConfig(t testing.TB, pairs ...string) string {
	t.Helper()
	raw, err := os.ReadFile(fleet.cfg.Path())
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("vifl.yaml does not contain %q", pairs[i])
		}
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	f, err := os.CreateTemp(filepath.Dir(fleet.cfg.Path()), "changed-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// execPlain runs one statement on a new connection, without session variables, as through a
// vtgate.
func execPlain(ctx context.Context, target mysqlconn.Target, stmt string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, target, mysqlconn.Plain())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, stmt)
	return err
}

// swappedConfig is the fleet's vifl.yaml with the hosts of 0123 and 4567 exchanged.
func swappedConfig(t *testing.T) string {
	t.Helper()
	one, err := fleet.cfg.Shard(123)
	if err != nil {
		t.Fatal(err)
	}
	two, err := fleet.cfg.Shard(4567)
	if err != nil {
		t.Fatal(err)
	}
	return changedConfig(t, one.Sides["a"], two.Sides["a"], one.Sides["b"], two.Sides["b"], two.Sides["a"], one.Sides["a"], two.Sides["b"], one.Sides["b"])
}
