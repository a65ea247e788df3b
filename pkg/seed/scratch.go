package seed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"vitess.io/vitess/go/mysql/collations"
	"vitess.io/vitess/go/vt/dbconfigs"
	"vitess.io/vitess/go/vt/mysqlctl"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
)

// scratch is the server that is filled and backed up. Its folders and my.cnf are those of a
// tablet's mysqld, made by Vitess' own code, because a backup holds paths relative to them.
// Starting and stopping is ours: Vitess would leave it running when we are killed.
type scratch struct {
	*mysqlctl.Mysqld
	cnf  *mysqlctl.Mycnf
	inst *mysqld.Installation
	name string
	proc *child.Process
	args []string // of the next start, beside the option file
	// backupDir is set while a backup is made; see Start.
	backupDir string
	// ended says that Start declined.
	ended bool
}

const (
	initTimeout  = 2 * time.Minute
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Minute // flushing a big buffer pool takes that long on a slow disk
)

// errNotRestarted is what Start says after a backup: nobody needs the server any more.
var errNotRestarted = errors.New("the scratch server is not started again after its backup")

// newScratch makes the folders and the option file. Vitess' code takes its settings from
// the environment and from variables of the process; this process is ours alone.
func newScratch(ctx context.Context, w wire, inst *mysqld.Installation) (*scratch, error) {
	for k, v := range map[string]string{
		"VT_MYSQL_ROOT": inst.Root, "VTDATAROOT": w.Dir, "EXTRA_MY_CNF": inst.Cnf,
		// Hooks of a Vitess installation on this machine are not for our server.
		"VTROOT": w.Dir,
		"TMPDIR": w.Dir,
	} {
		if err := os.Setenv(k, v); err != nil {
			return nil, err
		}
	}
	// Vitess exits the process when it cannot read the version.
	if _, err := inst.Version(ctx, userOfNobody); err != nil {
		return nil, err
	}
	dbconfigs.GlobalDBConfigs.Dba.User = "vt_dba"
	dbconfigs.GlobalDBConfigs.App.User = "vt_app"
	dbconfigs.GlobalDBConfigs.Charset = "utf8mb4"
	vt, cnf, err := mysqlctl.CreateMysqldAndMycnf(scratchUID(w.Spec), filepath.Join(w.SocketDir, socketName), 3306, collations.NewEnvironment(""))
	if err != nil {
		return nil, fmt.Errorf("scratch server: %w", err)
	}
	s := &scratch{Mysqld: vt, cnf: cnf, inst: inst, name: "scratch server of " + w.Spec.Shard.String()}
	if err := vt.InitConfig(cnf); err != nil {
		return nil, fmt.Errorf("%s: option file: %w", s.name, err)
	}
	return s, nil
}

// scratchUID is the made-up tablet's number; 0 is none.
func scratchUID(spec Spec) uint32 { return uint32(spec.Shard) + 1 }

// initialise makes the empty data folder.
func (s *scratch) initialise(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	p, err := s.exec(append([]string{"--initialize-insecure", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-doublewrite=OFF"}, args...)...)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		_ = p.Kill()
		return fmt.Errorf("%s: initialise its data folder: %w%s", s.name, ctx.Err(), child.Tail(s.cnf.ErrorLogPath))
	}
	if _, err := os.Stat(filepath.Join(s.cnf.DataDir, "mysql.ibd")); err != nil {
		return fmt.Errorf("initialise a data folder: %w", p.ExitError())
	}
	return nil
}

func (s *scratch) exec(args ...string) (*child.Process, error) {
	all := []string{"--defaults-file=" + s.cnf.Path}
	// Where it has a share folder of its own it finds its messages there.
	if info, err := os.Stat(filepath.Join(s.inst.Root, "share")); err == nil && info.IsDir() {
		all = append(all, "--basedir="+s.inst.Root)
	}
	cmd := exec.Command(s.inst.Program(), append(all, args...)...)
	cmd.Dir = s.cnf.TabletDir()
	return child.Start(s.name, cmd, s.cnf.ErrorLogPath)
}

// start starts the server with the arguments and waits until it answers on its socket. It
// has no other door.
func (s *scratch) start(ctx context.Context, args ...string) error {
	s.args = args
	return s.Start(ctx, s.cnf)
}

// Start is Vitess' way to start the server, also after a backup: then it says that it will
// not, once the MANIFEST is there.
func (s *scratch) Start(ctx context.Context, _ *mysqlctl.Mycnf, _ ...string) error {
	if s.backupDir != "" {
		if _, err := os.Stat(filepath.Join(s.backupDir, manifest)); err == nil {
			s.ended = true
			return errNotRestarted
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// A server that was killed leaves these; another start would trip over them.
	for _, f := range []string{s.cnf.SocketFile, s.cnf.SocketFile + ".lock", s.cnf.PidFile} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	p, err := s.exec(append([]string{"--skip-networking"}, s.args...)...)
	if err != nil {
		return err
	}
	s.proc = p
	db, err := mysqlconn.Open(s.target("root", ""))
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		err := db.PingContext(ctx)
		if err == nil || mysqlconn.IsAccessDenied(err) {
			return nil
		}
		select {
		case <-p.Exited():
			return p.ExitError()
		case <-ctx.Done():
			return fmt.Errorf("%s: wait until it answers: %w (last: %v)%s", s.name, ctx.Err(), err, child.Tail(s.cnf.ErrorLogPath))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Shutdown is Vitess' way to stop the server: in order, with everything flushed.
func (s *scratch) Shutdown(ctx context.Context, _ *mysqlctl.Mycnf, _ bool, _ time.Duration) error {
	if s.proc == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := s.proc.Stop(ctx); err != nil {
		return err
	}
	// Whatever ended it, an unclean end must not be backed up.
	if !s.cleanEnd() {
		return fmt.Errorf("did not end in order: %w", s.proc.ExitError())
	}
	return nil
}

func (s *scratch) cleanEnd() bool {
	_, err := os.Stat(s.cnf.PidFile)
	return errors.Is(err, fs.ErrNotExist) // the server removes it as the last thing of an orderly end
}

// discard ends the server at once: nothing of it is needed any more.
func (s *scratch) discard() {
	if s.proc != nil {
		_ = s.proc.Signal(syscall.SIGKILL)
		_ = s.proc.Kill()
	}
	s.Close()
}

func (s *scratch) target(user, password string) mysqlconn.Target {
	return mysqlconn.Target{Name: s.name, Socket: s.cnf.SocketFile, Account: mysqlconn.Account{User: user, Password: mysqlconn.Secret(password)}}
}
