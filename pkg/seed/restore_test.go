package seed

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"vitess.io/vitess/go/vt/logutil"
	"vitess.io/vitess/go/vt/mysqlctl"
	"vitess.io/vitess/go/vt/mysqlctl/backupstorage"
	"vitess.io/vitess/go/vt/mysqlctl/filebackupstorage"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/runas"
)

const restoreCommand = "restore-helper"

// restoreHelper restores the newest complete backup of a landing by Vitess' own code, as
// vttablet does, into the folder of the description, and serves it until stdin ends. It is a
// process of its own for the same reason as a seed's child.
func restoreHelper(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var w wire
	if err := w.decode(line); err != nil {
		return err
	}
	if err := (runas.User{Name: w.User.Name, UID: w.User.UID, GID: w.User.GID}).Drop(); err != nil {
		return err
	}
	s, err := newScratch(ctx, w, &mysqld.Installation{Root: w.MySQL.Root, Cnf: w.MySQL.Cnf})
	if err != nil {
		return err
	}
	defer s.discard()
	backupstorage.BackupStorageImplementation = "file"
	filebackupstorage.FileBackupStorageRoot = w.Spec.BackupRoot
	_, err = mysqlctl.Restore(ctx, mysqlctl.RestoreParams{
		Cnf: s.cnf, Mysqld: s, Logger: logutil.NewConsoleLogger(), Concurrency: 4, DeleteBeforeRestore: true,
		DbName: w.Spec.Database, Keyspace: w.Spec.Keyspace, Shard: landingName, MysqlShutdownTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, s.cnf.SocketFile)
	_, err = io.Copy(io.Discard, in)
	return err
}

// restore restores the backup of a seed and connects to it.
func restore(t *testing.T, spec Spec) *sql.DB {
	t.Helper()
	db, err := tryRestore(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func tryRestore(t *testing.T, spec Spec) (*sql.DB, error) {
	t.Helper()
	dir, user := mysqldtest.Dir(t), mysqldtest.User(t)
	inst := mysqldtest.Installation(t, dir)
	w := wire{Spec: spec, Dir: filepath.Join(dir, "r"), SocketDir: dir, MySQL: wireServer{inst.Root, inst.Cnf}, User: wireUser{Name: user.Name, UID: user.UID, GID: user.GID}}
	if err := os.Mkdir(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := user.Chown(dir); err != nil {
		t.Fatal(err)
	}
	description, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, restoreCommand)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	p, err := child.Start("restore", cmd, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	if _, err := stdin.Write(append(description, '\n')); err != nil {
		t.Fatal(err)
	}
	socket, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = p.Signal(syscall.SIGKILL)
		<-p.Exited()
		return nil, fmt.Errorf("restore: %s", stderr.String())
	}
	db, err := mysqlconn.Connect(context.Background(), mysqlconn.Target{Name: "restored", Socket: strings.TrimSpace(socket), Account: mysqlconn.Account{User: "vt_dba"}}, func(*mysql.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, nil
}
