package diff

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// BenchmarkTableChecksum runs Percona's pt-table-checksum over a table of a MariaDB server
// and its replica, beside the diff of the same rows on two MySQL servers. Each is measured
// against the floor on its own servers, one checksum statement of the weak kind per side, both
// at once: the tool speaks to no MySQL that has lost SHOW MASTER STATUS, and the diff to no
// MariaDB. The tool writes its sums through replication, so its time has the replica's in it.
//
// VIFL_DIFF_ROWS is the number of rows, default 1,000,000. Without pt-table-checksum and
// mariadbd (Debian: percona-toolkit, mariadb-server) it is skipped.
func BenchmarkTableChecksum(b *testing.B) {
	const missing = "; on Debian: apt-get install percona-toolkit mariadb-server"
	tool, err := exec.LookPath("pt-table-checksum")
	if err != nil {
		b.Skip("pt-table-checksum is not installed" + missing)
	}
	daemon, err := findMariaDB()
	if err != nil {
		b.Skip(err.Error() + missing)
	}
	rows := benchRows(b, 1_000_000)
	source, replica := startMariaDB(b, daemon, 1), startMariaDB(b, daemon, 2)
	source.exec(b, "CREATE DATABASE "+benchDatabase, "CREATE DATABASE percona", "CREATE TABLE percona.dsns (id INT PRIMARY KEY, parent_id INT, dsn VARCHAR(255))",
		fmt.Sprintf("INSERT INTO percona.dsns VALUES (1, NULL, 'h=127.0.0.1,P=%d,u=root')", replica.port),
		"USE "+benchDatabase, benchTable)
	replica.exec(b, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4", source.port), "START SLAVE")
	source.exec(b, "USE "+benchDatabase, fmt.Sprintf("INSERT INTO messages ("+benchColumns+") SELECT %s FROM (SELECT seq AS i FROM seq_1_to_%d) n", benchValues, rows))
	replica.wait(b, rows)
	p := newBenchPair(b, rows)
	mariadb := func() time.Duration { return floorOf(b, rows, weakSum, source.conn, replica.conn) }
	mariadb() // warm
	p.floor(b, weakSum)
	var theirFloor, theirs, ourFloor, ours []time.Duration
	b.ResetTimer()
	for b.Loop() {
		for range 3 {
			theirFloor = append(theirFloor, mariadb())
			theirs = append(theirs, tableChecksum(b, tool, source, rows))
			ourFloor = append(ourFloor, p.floor(b, weakSum))
			ours = append(ours, p.diff(b, 0))
		}
	}
	tf, t, of, o := median(theirFloor).Seconds(), median(theirs).Seconds(), median(ourFloor).Seconds(), median(ours).Seconds()
	b.ReportMetric(t/tf, "pt-ratio")
	b.ReportMetric(o/of, "ratio")
	b.ReportMetric(t, "pt-s")
	b.ReportMetric(tf, "pt-floor-s")
	b.ReportMetric(o, "diff-s")
	b.ReportMetric(of, "floor-s")
	b.ReportMetric((t/tf)/(o/of), "x-faster-pt")
}

// tableChecksum is the time of the tool, which must find all rows and no difference.
func tableChecksum(b *testing.B, tool string, source *mariaDB, rows int) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	dsn := fmt.Sprintf("h=127.0.0.1,P=%d,u=root", source.port)
	cmd := exec.CommandContext(ctx, tool, dsn, "--databases", benchDatabase, "--no-check-binlog-format", "--recursion-method", "dsn="+dsn+",D=percona,t=dsns")
	var errs strings.Builder
	cmd.Stderr = &errs
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("pt-table-checksum: %v\n%s%s", err, out, errs.String())
	}
	// TS ERRORS DIFFS ROWS DIFF_ROWS CHUNKS SKIPPED TIME TABLE
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) == 9 && f[8] == benchDatabase+".messages" {
			if f[1] != "0" || f[2] != "0" || f[3] != strconv.Itoa(rows) || f[6] != "0" {
				b.Fatalf("pt-table-checksum: %s", line)
			}
			return took
		}
	}
	b.Fatalf("pt-table-checksum said nothing of the table:\n%s%s", out, errs.String())
	return 0
}

// findMariaDB is the path of mariadbd, which is not on everybody's PATH.
func findMariaDB() (string, error) {
	if path, err := exec.LookPath("mariadbd"); err == nil {
		return path, nil
	}
	path := "/usr/sbin/mariadbd"
	_, err := os.Stat(path)
	return path, err
}

// mariaDB is a server with root without a password.
type mariaDB struct {
	port int
	conn *sql.Conn
}

func startMariaDB(b *testing.B, daemon string, id int) *mariaDB {
	dir := b.TempDir()
	base := filepath.Dir(filepath.Dir(daemon))
	as := []string{}
	if os.Geteuid() == 0 {
		as = append(as, "--user=root") // it refuses to run as root otherwise
	}
	install := exec.Command(filepath.Join(base, "bin", "mariadb-install-db"), append([]string{"--no-defaults", "--basedir=" + base, "--datadir=" + dir + "/data", "--auth-root-authentication-method=normal", "--skip-test-db"}, as...)...)
	if out, err := install.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", install, err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	cmd := exec.Command(daemon, append([]string{
		"--no-defaults", "--basedir=" + base, "--datadir=" + dir + "/data", "--socket=" + dir + "/s", "--pid-file=" + dir + "/pid", "--log-error=" + dir + "/log", "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		fmt.Sprintf("--server-id=%d", id), "--log-bin=" + dir + "/data/binlog", "--binlog-format=MIXED", "--innodb-buffer-pool-size=768M", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=512M", "--max-allowed-packet=64M",
	}, as...)...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &mariaDB{port: port}
	target := mysqlconn.Target{Name: fmt.Sprintf("mariadb %d", id), Host: "127.0.0.1", Port: port, Account: mysqlconn.Account{User: "root"}}
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		db, err := mysqlconn.Connect(context.Background(), target)
		if err == nil {
			b.Cleanup(func() { _ = db.Close() })
			if s.conn, err = db.Conn(context.Background()); err != nil {
				b.Fatal(err)
			}
			return s
		}
		if time.Now().After(until) {
			log, _ := os.ReadFile(dir + "/log")
			b.Fatalf("%v\n%s", err, log)
		}
	}
}

func (s *mariaDB) exec(b *testing.B, statements ...string) {
	b.Helper()
	for _, q := range statements {
		if _, err := s.conn.ExecContext(context.Background(), q); err != nil {
			b.Fatalf("%.200s: %v", q, err)
		}
	}
}

// wait waits until a replica has all rows.
func (s *mariaDB) wait(b *testing.B, rows int) {
	for until := time.Now().Add(30 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var n int
		err := s.conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+benchDatabase+".messages").Scan(&n)
		if n == rows {
			return
		}
		if time.Now().After(until) {
			b.Fatalf("the replica has %d rows of %d: %v", n, rows, err)
		}
	}
}
