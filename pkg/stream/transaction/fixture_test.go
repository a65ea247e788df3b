package transaction_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/streamtest"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// patience bounds each wait.
const patience = 20 * time.Second

// legacy is the server whose binlog is read. What is read is applied to the database
// "copied" of the same server, without binlog.
type legacy struct {
	srv  *mysqld.Server
	db   *sql.DB
	uuid string
}

func startLegacy(t *testing.T, extra ...string) *legacy {
	t.Helper()
	srv := mysqldtest.Start(t, mysqldtest.Options{Name: "0123 side a", Extra: append([]string{"max_allowed_packet=64M"}, extra...)})
	l := &legacy{srv: srv, db: mysqldtest.Open(t, srv)}
	l.run(t, "create user vifl@'%' identified by 'pass'", "grant replication slave, replication client on *.* to vifl@'%'")
	if err := l.db.QueryRow("select @@server_uuid").Scan(&l.uuid); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *legacy) source() dump.Source {
	return dump.Source{Server: l.uuid, Target: mysqlconn.Target{Name: l.srv.Name(), Host: "127.0.0.1", Port: l.srv.Port(), Account: mysqlconn.Account{User: "vifl", Password: "pass"}}}
}

func (l *legacy) end(t *testing.T) position.FilePos {
	t.Helper()
	p, err := streamtest.End(context.Background(), l.db, l.uuid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs statements in one session of its own, with the server's default settings.
func (l *legacy) run(t *testing.T, statements ...string) {
	t.Helper()
	runOn(t, mysqldtest.Open(t, l.srv, mysqlconn.WithParam("sql_mode", "DEFAULT"), mysqlconn.WithParam("time_zone", "DEFAULT")), statements...)
}

func runOn(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range statements {
		if _, err := conn.ExecContext(context.Background(), q); err != nil {
			t.Fatalf("%.1000s: %v", q, err)
		}
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

var errEnough = errors.New("enough was read")

// tables reads the definitions as they are when the test begins to read.
func (l *legacy) tables(database string) func(context.Context) (*schema.Schema, error) {
	return func(ctx context.Context) (*schema.Schema, error) { return schema.Read(ctx, l.db, database) }
}

// read reads a database's parts between two positions.
func (l *legacy) read(t *testing.T, r *transaction.Reader, from, to position.FilePos) ([]*transaction.Part, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if from == to {
		return nil, nil
	}
	// Enough is told by the context: a part for which handle fails was not taken.
	ctx, enough := context.WithCancelCause(ctx)
	var parts []*transaction.Part
	err := r.Run(ctx, from, func(p *transaction.Part) error {
		parts = append(parts, p)
		if p.Last {
			if c, err := position.Compare(p.End, to); err != nil {
				return err
			} else if c >= 0 {
				enough(errEnough)
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return parts, err
}

const limit = 8 << 20

func (l *legacy) reader(database string) *transaction.Reader {
	return transaction.New(l.source(), database, l.tables(database), limit)
}

// target is the database "copied": the session is set as the package's documentation says.
type target struct {
	t    *testing.T
	conn *sql.Conn
}

func (l *legacy) target(t *testing.T) *target {
	t.Helper()
	db := mysqldtest.Open(t, l.srv, mysqlconn.WithParam("sql_mode", "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'"))
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	x := &target{t, conn}
	x.exec("set names utf8mb4, sql_log_bin=0, foreign_key_checks=0, innodb_lock_wait_timeout=5")
	return x
}

func (x *target) exec(q string) int64 {
	x.t.Helper()
	res, err := x.conn.ExecContext(context.Background(), q)
	if err != nil {
		x.t.Fatalf("%.2000s: %v", q, err)
	}
	n, _ := res.RowsAffected()
	return n
}

// apply makes the changes one by one, in order: it has to find each row by its primary key.
func (x *target) apply(parts []*transaction.Part) (changes int) {
	x.t.Helper()
	x.exec("begin")
	defer x.exec("commit")
	for _, p := range parts {
		for _, c := range p.Changes {
			changes++
			if c.Before != nil {
				where, extra := []string{}, ""
				for i, col := range c.Table.Columns {
					inKey := len(c.Table.PrimaryKey) == 0
					for _, k := range c.Table.PrimaryKey {
						inKey = inKey || k.Column == col.Name
					}
					if !inKey || c.Before[i] == nil {
						continue
					}
					name := schema.Quote(col.Name)
					if col.Type == "float" {
						name = "cast(" + name + " as double)"
					}
					where = append(where, name+" <=> "+string(c.Before[i]))
				}
				if len(c.Table.PrimaryKey) == 0 {
					extra = " limit 1"
				}
				if n := x.exec("delete from copied." + schema.Quote(c.Table.Name) + " where " + strings.Join(where, " and ") + extra); n != 1 {
					x.t.Errorf("table %q: %d rows where %.300s", c.Table.Name, n, where)
				}
			}
			if c.After != nil {
				var names, values []string
				for i, col := range c.Table.Columns {
					if c.After[i] == nil && col.Generated == "" {
						x.t.Fatalf("table %q: column %q has no literal", c.Table.Name, col.Name)
					}
					if col.Generated == "" {
						names, values = append(names, schema.Quote(col.Name)), append(values, string(c.After[i]))
					}
				}
				x.exec("insert into copied." + schema.Quote(c.Table.Name) + " (" + strings.Join(names, ",") + ") values (" + strings.Join(values, ",") + ")")
			}
		}
	}
	return changes
}

func (l *legacy) rows(t *testing.T, q string) []string {
	t.Helper()
	_, rows := mysqldtest.Rows(t, l.db, q)
	var out []string
	for _, values := range rows {
		var b strings.Builder
		for i, v := range values {
			if v.Valid {
				fmt.Fprintf(&b, "%d=%s|", i, v.String)
			} else {
				fmt.Fprintf(&b, "%d:NULL|", i)
			}
		}
		out = append(out, b.String())
	}
	return out
}

// same compares what the database and "copied" hold, by queries of their own.
func (l *legacy) same(t *testing.T, database string) (rows int) {
	t.Helper()
	s, err := schema.Read(context.Background(), l.db, database)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		var cols []string
		for _, c := range table.Columns {
			cols = append(cols, streamtest.Stored(c))
		}
		q, order := "select "+strings.Join(cols, ", ")+" from ", ""
		if len(cols) < 50 {
			order = " order by " + strings.Join(cols, ", ")
		}
		a, b := l.rows(t, q+schema.Quote(database)+"."+schema.Quote(table.Name)+order), l.rows(t, q+"copied."+schema.Quote(table.Name)+order)
		rows += len(a)
		if len(a) != len(b) {
			t.Errorf("table %q: %d rows on the source, %d on the target", table.Name, len(a), len(b))
			continue
		}
		for i := range a {
			if a[i] == b[i] {
				continue
			}
			x, y := strings.Split(a[i], "|"), strings.Split(b[i], "|")
			for j := range x {
				if x[j] != y[j] {
					for len(x[j]) > 200 && strings.HasPrefix(y[j], x[j][:100]) {
						x[j], y[j] = x[j][100:], y[j][100:]
					}
					t.Errorf("table %q: row %d: column %q: source %.300s, target %.300s", table.Name, i, table.Columns[j].Name, x[j], y[j])
				}
			}
		}
	}
	return rows
}

// copySchema makes the tables of a database in "copied", empty and without triggers.
func (l *legacy) copySchema(t *testing.T, database string) {
	t.Helper()
	s, err := schema.Read(context.Background(), l.db, database)
	if err != nil {
		t.Fatal(err)
	}
	x := l.target(t)
	x.exec("drop database if exists copied")
	x.exec("create database copied default character set utf8mb4")
	x.exec("use copied")
	for _, table := range s.Tables {
		x.exec("set sql_mode=''")
		x.exec(table.Create)
	}
}
