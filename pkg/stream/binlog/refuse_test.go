package binlog

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// failsWith waits until the stream has stopped by itself, and says what it must.
func (r *runner) failsWith(want string) {
	r.t.Helper()
	ctx := within(r.t, time.Minute)
	for {
		st, err := r.stream.Status(ctx)
		switch {
		case err != nil:
			r.t.Fatal(err)
		case st.State == stream.Failed && strings.Contains(st.Message, want):
			return
		case st.State == stream.Failed || st.State == stream.Stopped:
			r.t.Fatalf("the stream is %+v, expected it failed and %q", st, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A row that the source deletes or changes, and the target does not have, says that the two
// were not equal.
func TestARowThatIsMissingIsFinal(t *testing.T) {
	r := begun(t, options(), "create table t (id int primary key, n int)", "create table uniq (id int primary key, n int unique)")
	do(t, world.legacy, "use "+database, "insert into t values (1, 1), (2, 2), (3, 3)", "insert into uniq values (1, 1), (2, 2)")
	r.stopAtEnd()
	for table, statement := range map[string]string{"t": "delete from t where id < 3", "uniq": "update uniq set n = 20 where id = 2"} {
		do(t, world.landing, "use "+database, "delete from "+table+" where id = 2")
		r.resume()
		do(t, world.legacy, "use "+database, statement)
		r.failsWith("table " + table + ": the target lacks 1 rows")
		do(t, world.landing, "use "+database, "insert into "+table+" values (2, 2)")
		r.resume()
		r.stopAtEnd()
		same(t, "t", "uniq")
	}
}

// A row that the source inserts, and the target has already, says the same.
func TestARowThatIsThereAlreadyIsFinal(t *testing.T) {
	r := begun(t, options(), simple)
	do(t, world.landing, "insert into "+database+".t values (1, 5, 'somebody')")
	do(t, world.legacy, "insert into "+database+".t values (1, 1, 'x')")
	r.failsWith("table t: the target refused a row with error 1062")
	do(t, world.landing, "delete from "+database+".t")
	r.resume()
	r.stopAtEnd()
	same(t, "t")
}

// What the target got after the start, and what would do more than the binlog says, stops
// the next worker.
func TestATriggerThatCameLaterIsRefused(t *testing.T) {
	r := begun(t, options(), simple)
	do(t, world.legacy, "insert into "+database+".t (n) values (1)")
	r.stopAtEnd()
	r.stop(nil)
	do(t, world.landing, "use "+database, "create trigger twice before insert on t for each row set new.n = 2 * new.n")
	r.start()
	r.resume()
	do(t, world.legacy, "insert into "+database+".t (n) values (1)")
	r.failsWith("triggers (twice)")
	do(t, world.landing, "use "+database, "drop trigger twice")
	r.resume()
	r.stopAtEnd()
	same(t, "t")
}

// The accounts need no more than the documentation says.
func TestAccounts(t *testing.T) {
	emptied(t, options(), simple).stop(nil)
	do(t, world.legacy, "create user reader@'127.0.0.1' identified by 'secret'", "grant replication slave, replication client on *.* to reader@'127.0.0.1'")
	defer do(t, world.legacy, "drop user reader@'127.0.0.1'")
	do(t, world.landing, "drop database if exists _vifl", "create user applier@'127.0.0.1' identified by 'secret'", "grant all on _vifl.* to applier@'127.0.0.1'",
		"grant select, insert, update, delete, trigger on "+database+".* to applier@'127.0.0.1'")
	defer do(t, world.landing, "drop user applier@'127.0.0.1'")
	to := tcp(world.target)
	to.Account = mysqlconn.Account{User: "applier", Password: "secret"}
	db, err := mysqlconn.Connect(within(t, time.Minute), to)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	from := tcp(world.source)
	from.Account = mysqlconn.Account{User: "reader", Password: "secret"}
	r := &runner{t: t, o: options(), stream: New(func(context.Context) (*sql.DB, error) { return db, nil }, "vifl_0123", database, dump.Source{Target: from, Server: world.uuid})}
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	r.start()
	do(t, world.legacy, "use "+database, "insert into t values (1, 1, 'x'), (2, 2, 'y')", "update t set n = 3", "delete from t where id = 2")
	r.stopAtEnd()
	same(t, "t")
	r.stop(nil)
	if err := r.stream.Delete(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
}

// The binlog is read, and written to the target, over TLS where the account says so.
func TestReadsOverTLS(t *testing.T) {
	do(t, world.legacy, "drop user if exists secret", "create user secret identified by 'p' require ssl", "grant select, replication slave, replication client on *.* to secret")
	ca, err := os.ReadFile(world.source.DataDir() + "/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	s := source()
	s.Target.Account = mysqlconn.Account{User: "secret", Password: "p", TLS: mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: string(ca)}}
	r := begun(t, options(), "create table t (id int primary key, n int)")
	r.stop(nil)
	r.stream = New(target, "vifl_0123", database, s)
	r.start()
	do(t, world.legacy, "use "+database, "insert into t values (1, 1), (2, 2)")
	r.stopAtEnd()
	same(t, "t")
	s.Target.TLS = mysqlconn.TLS{}
	err = s.Follow(within(t, time.Minute), end(t), func(*dump.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("without TLS: %v, expected the account to be turned away", err)
	}
}
