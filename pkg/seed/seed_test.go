package seed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/runas"
)

// TestMain makes this binary the seed's child, or a process that a test needs, when it is
// started as one.
func TestMain(m *testing.M) {
	helpers := map[string]func(context.Context, io.Reader, io.Writer) error{ChildCommand: Child, restoreCommand: restoreHelper, parentCommand: parentHelper}
	if len(os.Args) > 1 && helpers[os.Args[1]] != nil {
		if err := helpers[os.Args[1]](context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	sourcePassword  = "s3cret-of-the-source"
	landingPassword = `s3cret'of\the"landing`
)

// grants of vifl's account on a legacy server.
var grants = []string{
	"CREATE USER vifl@'%' IDENTIFIED BY '" + sourcePassword + "' REQUIRE SSL",
	"GRANT SELECT, RELOAD, LOCK TABLES, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER, EVENT ON *.* TO vifl@'%'",
	"GRANT BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.* TO vifl@'%'",
	"GRANT ALL ON `_vifl`.* TO vifl@'%'",
}

// source starts a legacy-like server with some tables, and the description of its seed.
func source(t *testing.T, extra ...string) (*mysqld.Server, Spec) {
	t.Helper()
	srv := mysqldtest.Start(t, mysqldtest.Options{Name: "0123 side a", Extra: extra})
	mysqldtest.Exec(t, srv, append(grants,
		"CREATE DATABASE slack CHARACTER SET utf8mb4",
		"CREATE TABLE slack.messages (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, team_id BIGINT NOT NULL, body TEXT, f FLOAT, KEY team (team_id))",
		"CREATE TABLE slack.empty_one (a VARCHAR(20) NOT NULL PRIMARY KEY)",
		"INSERT INTO slack.messages (team_id, body, f) VALUES (1,'one',0.1),(2,'two',16777217),(3,NULL,-0e0),(4,'',1e-45)",
		"INSERT INTO slack.messages (team_id, body, f) SELECT a.id*7, REPEAT('x', 200), b.id/3 FROM slack.messages a, slack.messages b, slack.messages c, slack.messages d, slack.messages e, slack.messages g",
	)...)
	target := mysqldtest.TCP(srv, "0123 side a")
	ca, err := os.ReadFile(filepath.Join(srv.DataDir(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	target.Account = mysqlconn.Account{User: "vifl", Password: sourcePassword, TLS: mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: string(ca)}}
	ctx := context.Background()
	s, err := legacy.Open(ctx, target, 123, "a", "slack")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	id, err := s.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other := id
	other.ServerUUID, other.Port = "00000000-0000-0000-0000-00000000000b", id.Port+1
	dir := mysqldtest.Dir(t)
	backups := filepath.Join(dir, "backups")
	if err := os.Mkdir(backups, 0o755); err != nil {
		t.Fatal(err)
	}
	return srv, Spec{
		Shard: 123, Keyspace: "legacy_0123", Database: "slack", Source: target, StreamSide: "a", A: id, B: other,
		Landing: mysqlconn.Account{User: "vifl", Password: landingPassword},
		RunAs:   "nobody", WorkDir: filepath.Join(dir, "work"), BackupRoot: backups, Version: "test", BufferPool: 64 << 20,
	}
}

func count(t *testing.T, db *sql.DB, q string) (n int) {
	t.Helper()
	if err := db.QueryRow(q).Scan(&n); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

func runSeed(t *testing.T, spec Spec) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	phases := map[string]bool{}
	r, err := Run(ctx, spec, func(e Event) {
		if e.Phase == PhaseBackup && !phases[e.Phase] {
			noSecrets(t, spec)
		}
		phases[e.Phase] = true
		t.Logf("%s: %s rows %d/%d bytes %d %s", e.Phase, e.Message, e.RowsDone, e.RowsTotal, e.BytesDone, e.Position)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{PhasePrepare, PhaseFill, PhaseBackup} {
		if !phases[p] {
			t.Errorf("no event of phase %s", p)
		}
	}
	t.Logf("result %+v", r)
	return r
}

func TestCopySeedIsRestoredWithItsRecord(t *testing.T) {
	srv, spec := source(t)
	r := runSeed(t, spec)
	db := mysqldtest.Open(t, srv)
	rows := count(t, db, "SELECT COUNT(*) FROM slack.messages")
	if r.Rows != uint64(rows) || r.Tables["messages"] != uint64(rows) || r.Position.Server != spec.A.ServerUUID {
		t.Errorf("found %d rows, %v, position %+v; expected %d rows of server %s", r.Rows, r.Tables, r.Position, rows, spec.A.ServerUUID)
	}
	leftNothing(t, spec)
	restored := restore(t, spec)
	if n := count(t, restored, "SELECT COUNT(*) FROM slack.messages"); n != rows {
		t.Errorf("restored %d rows, expected %d", n, rows)
	}
	if n := count(t, restored, "SELECT COUNT(*) FROM slack.messages WHERE f=16777216 AND team_id=2"); n != 1 {
		t.Errorf("a FLOAT did not survive")
	}
	if n := count(t, restored, "SELECT n_rows FROM mysql.innodb_table_stats WHERE database_name='slack' AND table_name='messages'"); n < rows/2 {
		t.Errorf("the statistics say %d rows, expected about %d", n, rows)
	}
	rec, err := ReadRecord(context.Background(), restored)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Shard != 123 || rec.ServerA != spec.A || rec.ServerB != spec.B || rec.Position != r.Position || rec.SchemaDigest != r.SchemaDigest || rec.Database != "slack" {
		t.Errorf("record %+v does not say where the data came from", rec)
	}
	var executed string
	if err := restored.QueryRow("SELECT @@global.gtid_purged").Scan(&executed); err != nil || executed != r.ScratchUUID+":1" {
		t.Errorf("restored gtid_purged %q (%v), expected %s:1", executed, err, r.ScratchUUID)
	}
	accounts(t, restored)
	if _, err := ReadRecord(context.Background(), db); !errors.Is(err, ErrNoRecord) {
		t.Errorf("record of a server that no seed made: %v", err)
	}
}

// accounts are Vitess', vifl's, root over the socket, and the server's own.
func accounts(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query("SELECT CONCAT(user,'@',host) FROM mysql.user ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var have []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		have = append(have, s)
	}
	want := "mysql.infoschema@localhost mysql.session@localhost mysql.sys@localhost root@localhost vifl@% vt_allprivs@localhost vt_app@localhost vt_appdebug@localhost vt_dba@localhost vt_filtered@localhost vt_monitoring@localhost vt_repl@%"
	if got := strings.Join(have, " "); got != want {
		t.Errorf("accounts\n%s\nexpected\n%s", got, want)
	}
}

// leftNothing looks for what a seed must not leave: its scratch folder, its server, and
// secrets anywhere in its folders.
func leftNothing(t *testing.T, spec Spec) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(spec.WorkDir, "seed-legacy_0123")); !os.IsNotExist(err) {
		t.Errorf("the scratch folder is still there: %v", err)
	}
	if found := processesWith(spec.WorkDir); len(found) > 0 {
		t.Errorf("still running: %v", found)
	}
}

// processesWith lists processes that have the text in their command line.
func processesWith(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(raw), text) {
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

// noSecrets looks for passwords where others could read them: command lines, environments,
// and all that the seed has written so far, its server's files included.
func noSecrets(t *testing.T, spec Spec) {
	t.Helper()
	look := func(path string) {
		raw, err := os.ReadFile(path)
		if err != nil {
			return // it has ended, or gone
		}
		for _, secret := range []string{sourcePassword, landingPassword} {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s holds a password", path)
			}
		}
	}
	for _, glob := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"} {
		files, _ := filepath.Glob(glob)
		for _, f := range files {
			look(f)
		}
	}
	seen := 0
	for _, root := range []string{spec.WorkDir, spec.BackupRoot} {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				seen++
				look(path)
			}
			return nil
		})
	}
	if seen < 10 {
		t.Errorf("only %d files were looked at, expected a server's", seen)
	}
}

// A storage that was not mounted was made as a folder and filled; every tablet then came up
// empty from the real one.
func TestABackupStorageThatIsNotThereIsNotMade(t *testing.T) {
	root := filepath.Join(t.TempDir(), "unmounted")
	spec := Spec{Keyspace: "legacy_0123", BackupRoot: root}
	if err := backupFolder(spec, runas.User{}); err == nil || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("%v, expected an error that names %s", err, root)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
}
