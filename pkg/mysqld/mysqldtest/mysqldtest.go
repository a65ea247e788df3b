// Package mysqldtest starts real MySQL servers for tests. A server is stopped at the end of
// its test, and dies with the test's process. A machine without MySQL fails the test: a
// skipped test proves nothing.
package mysqldtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
)

// Options says what server a test needs. The zero value is a small server with binlog on,
// ROW, gtid_mode off, performance_schema on, a random server id.
type Options struct {
	// Extra are lines for my.cnf; they win.
	Extra []string
	// Name is used in messages; default mysqld.
	Name string
	// ServerID; 0 takes a random one.
	ServerID uint32
}

// legacyLike are the settings of the fleets that vifl moves.
var legacyLike = []string{
	"gtid_mode = OFF", "enforce_gtid_consistency = OFF", "binlog_format = ROW", "binlog_row_image = FULL", "log_replica_updates = ON",
}

// Timeout bounds each wait of this package.
const Timeout = 2 * time.Minute

// User is whom servers of tests run as: nobody when the test is root.
func User(t testing.TB) runas.User {
	t.Helper()
	u, err := runas.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Dir is a folder for one server of a test, removed at its end. t.TempDir would not do: as
// root it is closed to the user that servers run as, and its path is too long for sockets.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := User(t).MkdirTemp("vifl-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// Installation is the MySQL that scripts/setup.sh left, reachable for User; dir is used
// when it has to be copied for that.
func Installation(t testing.TB, dir string) *mysqld.Installation {
	t.Helper()
	inst, err := mysqld.Find("")
	if err != nil {
		t.Fatal(err)
	}
	if inst, err = inst.For(User(t), dir); err != nil {
		t.Fatal(err)
	}
	return inst
}

// Start starts a server. Its root has no password, over the socket and over TCP.
func Start(t testing.TB, o Options) *mysqld.Server {
	t.Helper()
	dir := Dir(t)
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if o.Name == "" {
		o.Name = "mysqld"
	}
	s, err := mysqld.Start(ctx, Installation(t, dir), mysqld.Options{
		Dir: dir + "/s", ServerID: o.ServerID, Name: o.Name, RunAs: User(t), Extra: append(append([]string{}, legacyLike...), o.Extra...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Nothing of it is needed any more, so no time is spent on an orderly end.
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		_ = s.Stop(ctx)
	})
	Exec(t, s, "SET sql_log_bin = 0", "CREATE USER root@'127.0.0.1'", "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION")
	return s
}

// TCP is the server's root over TCP.
func TCP(s *mysqld.Server, name string) mysqlconn.Target {
	return mysqlconn.Target{Name: name, Host: "127.0.0.1", Port: s.Port(), Account: mysqlconn.Account{User: "root"}}
}

// Open is a pool of connections as root, closed at the end of the test.
func Open(t testing.TB, s *mysqld.Server, opts ...mysqlconn.Option) *sql.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, s.Target(s.Name()), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Rows are the columns' names and the rows that a query gives to a pool or a connection, as the server
// prints them.
func Rows(t testing.TB, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string) (columns []string, out [][]sql.NullString) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	if columns, err = rows.Columns(); err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		out = append(out, values)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return columns, out
}

// Exec runs statements as root, in one session.
func Exec(t testing.TB, s *mysqld.Server, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := exec(ctx, s, statements...); err != nil {
		t.Fatal(err)
	}
}

func exec(ctx context.Context, s *mysqld.Server, statements ...string) error {
	db, err := mysqlconn.Connect(ctx, s.Target(s.Name()))
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, q := range statements {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %q: %w", s.Name(), q, err)
		}
	}
	return nil
}

// Pair starts two servers that replicate from each other by file and position, as sides a
// and b of a legacy shard do: log_replica_updates, auto_increment_increment 2 with offsets
// 1 and 2. Names are those of o with " a" and " b".
func Pair(t testing.TB, o Options) (a, b *mysqld.Server) {
	t.Helper()
	name := o.Name
	if name == "" {
		name = "side"
	}
	var pair [2]*mysqld.Server
	for i, side := range []string{"a", "b"} {
		oo := o
		oo.Name = name + " " + side
		if oo.ServerID != 0 {
			oo.ServerID += uint32(i)
		}
		oo.Extra = append([]string{"auto_increment_increment = 2", fmt.Sprintf("auto_increment_offset = %d", i+1)}, o.Extra...)
		pair[i] = Start(t, oo)
		Exec(t, pair[i], "SET sql_log_bin = 0", "CREATE USER repl@'%' IDENTIFIED BY 'repl'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'", "GRANT CONNECTION_ADMIN ON *.* TO repl@'%'")
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	acc := mysqld.ReplicationAccount{User: "repl", Password: "repl"}
	for _, d := range [][2]*mysqld.Server{{pair[0], pair[1]}, {pair[1], pair[0]}} {
		if err := mysqld.Replicate(ctx, d[0], d[1], acc); err != nil {
			t.Fatal(err)
		}
	}
	return pair[0], pair[1]
}

// CaughtUp waits until replica has applied all that source's binlog holds now.
func CaughtUp(t testing.TB, replica, source *mysqld.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := mysqld.CaughtUp(ctx, replica, source); err != nil {
		t.Fatal(err)
	}
}
