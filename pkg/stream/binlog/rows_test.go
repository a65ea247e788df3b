package binlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// Each kind of change goes through three kinds of tables, all in one batch and one by one.
func TestChangesComeToTheSame(t *testing.T) {
	const (
		plain  = "create table plain (id int auto_increment primary key, n int, v varchar(50))"
		unique = "create table uniq (id int auto_increment primary key, n int unique, v varchar(50))"
		text   = "create table words (k varchar(20) primary key, n int, v varchar(50))"
		both   = "create table words2 (k varchar(20), m int, n int unique, v varchar(50), primary key (k, m))"
		only   = "create table only (a int, b varchar(10), primary key (a, b))"
	)
	statements := []string{
		"insert into plain (n, v) values (1, 'a'), (2, 'b'), (3, 'c')",
		"update plain set id = id + 10 order by id desc",
		"update plain set id = 99 where id = 11",
		"insert into plain values (11, 5, 'again')",
		"delete from plain where id = 12",
		"insert into plain values (12, 6, 'again')",
		"replace into plain values (12, 7, 'replaced')",
		"insert into plain values (12, 1, 'x') on duplicate key update v = 'kept'",
		"insert into uniq values (1, 5, 'one'), (2, 6, 'two'), (3, 7, 'three')",
		// Two rows swap their unique values by way of a third.
		"update uniq set n = null where id = 1", "update uniq set n = 5 where id = 2", "update uniq set n = 6 where id = 1",
		// Values are handed on in a chain, and a row takes that of one that goes.
		"update uniq set n = n + 1 order by n desc", "delete from uniq where id = 3", "update uniq set n = 8 where id = 2",
		"insert into uniq values (4, 9, 'four')", "replace into uniq values (5, 9, 'takes 9')", "replace into uniq values (2, 7, 'two rows go')",
		"update uniq set id = id + 100 order by id desc",
		// One key to the server, two spellings.
		"insert into words values ('A', 1, 'x'), ('b', 2, 'y'), ('É', 3, 'z')",
		"update words set k = 'a' where k = 'A'", "update words set k = 'B' where k = 'b'", "update words set k = 'b', n = 20 where k = 'b'",
		"update words set k = 'e' where k = 'É'", "delete from words where k = 'E'", "insert into words values ('E', 4, 'new')",
		"insert into words2 values ('A', 1, 1, 'x'), ('A', 2, 2, 'y')",
		"update words2 set k = 'a', n = 10 - n", "update words2 set k = 'Á' where m = 2", "delete from words2 where m = 1", "insert into words2 values ('a', 1, 80, 'w')",
		"insert into only values (1, 'x'), (2, 'y')", "update only set b = 'X' where a = 1", "delete from only where a = 2", "insert into only values (2, 'Y')",
	}
	for _, one := range []bool{true, false} {
		t.Run(fmt.Sprintf("one by one %v", one), func(t *testing.T) {
			r := begun(t, options(), plain, unique, text, both, only)
			if !one {
				if err := r.stream.Stop(within(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			for _, q := range statements {
				do(t, world.legacy, "use "+database, q)
				if one {
					r.stopAtEnd()
					r.resume()
				}
			}
			r.stopAtEnd()
			same(t, "plain", "uniq", "words", "words2", "only")
		})
	}
}

// A batch that swallows a row still moves the counter, on the target and on its replicas
// (which see its binlog only).
func TestCountersOfSwallowedRows(t *testing.T) {
	r := begun(t, options(), "create table plain (id bigint auto_increment primary key, n int)",
		"create table uniq (id int auto_increment primary key, n int unique)",
		"create table late (k varchar(9) primary key, id int auto_increment, n int, key (id))")
	if err := r.stream.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	do(t, world.legacy, "use "+database,
		"insert into plain (n) values (1), (2)", "insert into plain values (500, 3)", "delete from plain where id = 500",
		// 700 cannot be written before row 1 has given its value away, nor behind the batch.
		"insert into uniq values (1, 5)")
	r.stopAtEnd()
	do(t, world.legacy, "use "+database,
		"update uniq set n = 6 where id = 1", "insert into uniq values (700, 5)", "delete from uniq where id = 700", "insert into uniq values (2, 5)",
		"insert into late values ('a', 1, 1), ('A2', 900, 2)", "update late set id = 3 where k = 'A2'", "update late set k = 'a2' where k = 'A2'")
	r.stopAtEnd()
	same(t, "plain", "uniq", "late")
	for table, counter := range map[string]int{"plain": 501, "uniq": 701, "late": 901} {
		var name, create string
		if err := world.landing.QueryRowContext(within(t, time.Minute), "show create table "+database+"."+table).Scan(&name, &create); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(create, fmt.Sprintf("AUTO_INCREMENT=%d ", counter)) {
			t.Errorf("the target's table is\n%s\nexpected its counter at %d", create, counter)
		}
	}
}

// What a server that is not strict stored, it stores on the target too; what does not fit
// there stops the stream.
func TestValuesThatAStrictServerRefuses(t *testing.T) {
	const table = "create table t (id int primary key, e enum('x','y'), v varchar(10), g int as (cast(v as signed)) stored)"
	r := begun(t, options(), table)
	do(t, world.legacy, "use "+database, "set sql_mode=''", "insert into t (id, e, v) values (1, 'bad', 'x'), (2, 'x', '7')", "insert into t (id, e, v) values (3, 'bad', '3')")
	r.stopAtEnd()
	same(t, "t")
	do(t, world.landing, "alter table "+database+".t add constraint c check (v <> '12345')")
	r.resume()
	do(t, world.legacy, "use "+database, "insert into t (id, v) values (4, '12345')")
	err := r.stream.StopAt(within(t, time.Minute), end(t))
	if err == nil || !strings.Contains(err.Error(), "table t: the target refused a row with error 3819") || strings.Contains(err.Error(), "12345") {
		t.Errorf("a value that does not fit: %v, expected an error that names the table and no value", err)
	}
	do(t, world.landing, "alter table "+database+".t drop check c")
	r.stopAtEnd()
	same(t, "t")
}

// A VECTOR has an entry among the collations of a binlog's table map.
func TestTextBehindAVector(t *testing.T) {
	r := begun(t, options(), "create table t (id int primary key, l varchar(9) character set latin1, x vector(2), u varchar(9) character set utf8mb4, b varbinary(9), y vector(1), a varchar(9) character set latin1)")
	do(t, world.legacy, "use "+database, "insert into t values (1, 'é', string_to_vector('[1,2]'), 'é😀', x'ff00', null, 'ü'), (2, 'ü', null, 'é', null, string_to_vector('[3]'), 'é')")
	r.stopAtEnd()
	same(t, "t")
}

// Two readings of a table that was changed between them are not one table.
func TestATableThatChangedBetweenTwoReadings(t *testing.T) {
	read := func(columnType string) *schema.Table {
		return &schema.Table{Name: "t", Engine: "InnoDB", PrimaryKey: []schema.KeyPart{{Column: "id"}}, AutoIncrement: uint64(len(columnType)),
			Columns: []schema.Column{{Name: "id", Type: "int", ColumnType: "int"}, {Name: "n", Type: "int", ColumnType: columnType}}}
	}
	row := func(of *schema.Table) *transaction.Change {
		return &transaction.Change{Table: of, After: transaction.Image{[]byte("1"), []byte("2")}}
	}
	n := newNet(func(of *schema.Table) (*plan, error) { return newPlan(database, of) })
	for _, of := range []*schema.Table{read("int"), read("int")} {
		if err := n.add(row(of)); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.tables) != 1 || n.rows != 1 {
		t.Errorf("one table, read twice, makes %d tables and %d rows", len(n.tables), n.rows)
	}
	if err := n.add(row(read("int unsigned"))); err == nil || !strings.Contains(err.Error(), "table t: it was changed on the target") {
		t.Errorf("a table whose column has another type: %v", err)
	}
}
