// Package streamtest is the conformance suite of stream.Stream: what every implementation
// must do, on a real legacy server and a real landing.
package streamtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
)

// Bench is what a factory gives a case: a stream that is absent, and both of its ends with
// the same, empty table (Table). Connections are pools without a default database.
type Bench struct {
	Stream stream.Stream
	// Legacy is the server that the stream reads, Landing the one it writes to.
	Legacy, Landing *sql.DB
	// Server is the legacy's server_uuid.
	Server string
	// Database has the table t on both.
	Database string
	// Restart interrupts the stream as the crash of its process does, and waits until it
	// has been started again.
	Restart func(context.Context) error
}

// Table is the definition of the table t of a case.
const Table = "(id bigint auto_increment primary key, n int, v varchar(100), j json, b blob)"

// patience bounds each wait.
const patience = 30 * time.Second

// Run runs the suite. The factory is called once for each case.
func Run(t *testing.T, factory func(t *testing.T) *Bench) {
	for _, c := range []struct {
		name string
		run  func(*bench)
	}{
		{"ReplicatesChanges", replicates},
		{"StopsInTheMiddleOf2000Transactions", middle},
		{"StopInsideATransaction", inside},
		{"StopAtAPassedPosition", passed},
		{"OtherDatabasesPass", others},
		{"StartIsIdempotent", idempotent},
		{"SurvivesARestart", restart},
		{"Deletes", deletes},
		{"OtherServersPositions", foreign},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&bench{t: t, Bench: factory(t)}) })
	}
}

type bench struct {
	t *testing.T
	*Bench
}

func (c *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *bench) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// exec runs statements on the legacy; t stands for the table.
func (c *bench) exec(statements ...string) {
	c.t.Helper()
	for _, q := range statements {
		if _, err := c.Legacy.ExecContext(c.ctx(), strings.ReplaceAll(q, "@t", c.Database+".t")); err != nil {
			c.t.Fatalf("%s: %v", q, err)
		}
	}
}

// end is where the legacy's binlog ends.
func (c *bench) end() position.FilePos {
	c.t.Helper()
	p, err := End(c.ctx(), c.Legacy, c.Server)
	c.must(err)
	return p
}

// End is where a server's binlog ends.
func End(ctx context.Context, db *sql.DB, server string) (position.FilePos, error) {
	p := position.FilePos{Server: server}
	var rest [3]sql.RawBytes
	var err error
	for _, q := range []string{"show binary log status", "show master status"} {
		var rows *sql.Rows
		if rows, err = db.QueryContext(ctx, q); err != nil {
			continue
		}
		if !rows.Next() {
			return p, errors.Join(rows.Err(), rows.Close(), errors.New("no row"))
		}
		err = rows.Scan(&p.File, &p.Pos, &rest[0], &rest[1], &rest[2])
		return p, errors.Join(err, rows.Close())
	}
	return p, err
}

// Dump is the table as text, the same for the same rows.
func Dump(ctx context.Context, db *sql.DB, database string) (string, error) {
	rows, err := db.QueryContext(ctx, "select id, n, v, cast(j as char), hex(b) from "+database+".t order by id")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var v [5]sql.NullString
		if err := rows.Scan(&v[0], &v[1], &v[2], &v[3], &v[4]); err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%v\n", v)
	}
	return out.String(), rows.Err()
}

// Stored is an expression that shows what a column holds, whatever its collation or format:
// two that are the same are the same bytes, digits and types.
func Stored(c schema.Column) string {
	n := schema.Quote(c.Name)
	switch c.Type {
	case "float":
		return "cast(" + n + " as double)"
	case "enum", "set", "bit":
		return n + "+0"
	case "json":
		types := "(select group_concat(json_type(jt.v) order by jt.o) from json_table(json_extract(json_array(" + n + "), '$**[*]', '$**.*'), '$[*]' columns (o for ordinality, v json path '$')) jt)"
		return "concat_ws('/', json_type(" + n + "), json_storage_size(" + n + ") - json_storage_free(" + n + "), " + types + ", hex(cast(" + n + " as char)))"
	case "tinyint", "smallint", "mediumint", "int", "bigint", "double", "decimal", "year", "date", "time", "datetime", "timestamp":
		return n
	}
	return "hex(" + n + ")"
}

// same compares both ends. The stream must stand still.
func (c *bench) same() {
	c.t.Helper()
	want, err := Dump(c.ctx(), c.Legacy, c.Database)
	c.must(err)
	got, err := Dump(c.ctx(), c.Landing, c.Database)
	c.must(err)
	if got != want {
		c.t.Errorf("the landing has\n%.600s\nexpected\n%.600s", got, want)
	}
}

// stopAt stops exactly at p, and checks that it did.
func (c *bench) stopAt(p position.FilePos) {
	c.t.Helper()
	c.must(c.Stream.StopAt(c.ctx(), p))
	if st := c.status(); st.State != stream.Stopped || st.Position != p {
		c.t.Fatalf("StopAt(%s) succeeded, but the stream is %s at %s", p, st.State, st.Position)
	}
}

func (c *bench) status() stream.Status {
	c.t.Helper()
	st, err := c.Stream.Status(c.ctx())
	c.must(err)
	return st
}

func replicates(c *bench) {
	if st := c.status(); st.State != stream.Absent {
		c.t.Fatalf("before the start the stream is %+v", st)
	}
	from := c.end()
	c.must(c.Stream.Start(c.ctx(), from))
	c.exec(`insert into @t (n, v, j, b) values (1, 'one', '{"a": [1, 2.5, null]}', x'00ff'), (2, 'zwei 🎈', null, ''), (3, null, '"x"', null)`,
		"update @t set v = concat(v, '!'), n = n + 10 where n < 3", "delete from @t where n = 3", "replace into @t (id, n) values (1, 5)")
	c.stopAt(c.end())
	c.same()
	c.exec("insert into @t (n) values (6)")
	c.must(c.Stream.Resume(c.ctx()))
	c.must(c.Stream.Resume(c.ctx()))
	c.stopAt(c.end())
	c.same()
	st := c.status()
	if st.ID == 0 || st.StartPosition != from || st.Source == "" || st.Updated.IsZero() {
		c.t.Errorf("status %+v, expected an id, the start %s, a source and a time", st, from)
	}
	c.must(c.Stream.Stop(c.ctx()))
}

// middle stops at the 777th of 2,000 transactions that are already in the binlog, then at
// two more, and then at the end.
func middle(c *bench) {
	c.must(c.Stream.Start(c.ctx(), c.end()))
	c.must(c.Stream.Stop(c.ctx()))
	conn, err := c.Legacy.Conn(c.ctx())
	c.must(err)
	defer conn.Close()
	stops := map[int]position.FilePos{}
	for i := 1; i <= 2000; i++ {
		_, err := conn.ExecContext(c.ctx(), fmt.Sprintf("insert into %s.t (n, v) values (%d, 'row')", c.Database, i))
		c.must(err)
		if i == 777 || i == 1234 || i == 1999 {
			stops[i] = c.end()
		}
	}
	count := func() (n int) {
		c.must(c.Landing.QueryRowContext(c.ctx(), "select count(*) from "+c.Database+".t").Scan(&n))
		return n
	}
	for _, i := range []int{777, 1234, 1999} {
		c.stopAt(stops[i])
		if n := count(); n != i {
			c.t.Errorf("stopped behind transaction %d, but the landing has %d rows", i, n)
		}
	}
	c.stopAt(c.end())
	c.same()
}

// inside asks for a position at which no transaction ends: before the stream's position it
// is passed, behind it the stream cannot stop there, and must not say that it did.
func inside(c *bench) {
	c.must(c.Stream.Start(c.ctx(), c.end()))
	before := c.end()
	c.exec("insert into @t (n, v) values (1, repeat('x', 90)), (2, repeat('y', 90))")
	p := before
	p.Pos = (before.Pos + c.end().Pos) / 2
	if err := c.Stream.StopAt(c.ctx(), p); !errors.Is(err, stream.ErrPassed) {
		c.t.Errorf("StopAt inside a transaction: %v, expected ErrPassed", err)
	}
	if st := c.status(); st.State != stream.Running {
		c.t.Errorf("after a failed StopAt the stream is %s, expected running as before: %+v", st.State, st)
	}
	c.stopAt(c.end())
	c.same()
}

func passed(c *bench) {
	early := c.end()
	c.exec("insert into @t (n) values (1)")
	if _, err := c.Landing.ExecContext(c.ctx(), "insert into "+c.Database+".t (id, n) select 1, 1"); err != nil {
		c.t.Fatal(err)
	}
	c.must(c.Stream.Start(c.ctx(), c.end()))
	c.exec("insert into @t (n) values (2)")
	at := c.end()
	c.stopAt(at)
	c.stopAt(at) // where it stands is not passed
	if err := c.Stream.StopAt(c.ctx(), early); !errors.Is(err, stream.ErrPassed) {
		c.t.Errorf("StopAt a passed position: %v, expected ErrPassed", err)
	}
	if st := c.status(); st.State != stream.Stopped || st.Position != at {
		c.t.Errorf("a StopAt that failed moved the stream: %+v", st)
	}
	c.same()
}

func others(c *bench) {
	other := c.Database + "_other"
	c.exec("create database if not exists "+other, "create table if not exists "+other+".t (id int primary key)")
	c.must(c.Stream.Start(c.ctx(), c.end()))
	c.exec("insert into "+other+".t values (1)", "create table "+other+".more (id int)", "insert into @t (n) values (1)",
		"delete from "+other+".t", "drop database "+other)
	c.stopAt(c.end())
	c.same()
}

func idempotent(c *bench) {
	from := c.end()
	c.must(c.Stream.Start(c.ctx(), from))
	c.exec("insert into @t (n) values (1)")
	first := c.status()
	c.stopAt(c.end())
	c.must(c.Stream.Start(c.ctx(), from))
	if st := c.status(); st.ID != first.ID || st.State != stream.Running {
		c.t.Errorf("a second Start made id %d %s, expected id %d running", st.ID, st.State, first.ID)
	}
	c.exec("insert into @t (n) values (2)")
	if err := c.Stream.Start(c.ctx(), c.end()); !errors.Is(err, stream.ErrOther) {
		c.t.Errorf("Start elsewhere: %v, expected ErrOther", err)
	}
	c.stopAt(c.end())
	c.same()
}

func restart(c *bench) {
	c.must(c.Stream.Start(c.ctx(), c.end()))
	c.exec("insert into @t (n) values (1)")
	c.must(c.Restart(c.ctx()))
	for i := range 20 {
		c.exec(fmt.Sprintf("insert into @t (n) values (%d)", i))
	}
	if st := c.status(); st.State != stream.Running {
		c.t.Errorf("after the restart the stream is %+v, expected running", st)
	}
	c.stopAt(c.end())
	c.same()
}

func deletes(c *bench) {
	from := c.end()
	c.must(c.Stream.Start(c.ctx(), from))
	first := c.status().ID
	c.must(c.Stream.Delete(c.ctx()))
	c.must(c.Stream.Delete(c.ctx()))
	if st := c.status(); st.State != stream.Absent || st.ID != 0 {
		c.t.Errorf("after Delete the stream is %+v", st)
	}
	for name, err := range map[string]error{"Resume": c.Stream.Resume(c.ctx()), "Stop": c.Stream.Stop(c.ctx()), "StopAt": c.Stream.StopAt(c.ctx(), from)} {
		if !errors.Is(err, stream.ErrAbsent) {
			c.t.Errorf("%s of an absent stream: %v, expected ErrAbsent", name, err)
		}
	}
	c.must(c.Stream.Start(c.ctx(), from))
	if st := c.status(); st.ID == first {
		c.t.Error("a stream made anew has the old one's id")
	}
}

func foreign(c *bench) {
	p := c.end()
	p.Server = "11111111-2222-3333-4444-555555555555"
	if err := c.Stream.Start(c.ctx(), p); err == nil {
		c.t.Error("a stream started at another server's position")
	}
	if st := c.status(); st.State != stream.Absent {
		c.t.Errorf("a Start that failed left %+v", st)
	}
	c.must(c.Stream.Start(c.ctx(), c.end()))
	if err := c.Stream.StopAt(c.ctx(), p); !errors.Is(err, position.ErrNotComparable) {
		c.t.Errorf("StopAt at another server's position: %v, expected ErrNotComparable", err)
	}
}
