package binlog

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

const (
	crashPlain  = "create table plain (id bigint auto_increment primary key, n int, v varchar(50), key (n))"
	crashUnique = "create table uniq (id int primary key, n int unique, v varchar(50))"
	crashWords  = "create table words (k varchar(10) primary key, n int)"
	crashOther  = "create table other (a int, b int, v varchar(50), primary key (a, b))"
)

// writer writes random transactions until ctx ends: inserts, updates, deletes, unique values
// that are swapped, keys that move and change their spelling, and now and then many rows.
func writer(ctx context.Context, t testing.TB, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	conn, err := world.legacy.Conn(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	defer discard(conn)
	run := func(q string) bool {
		_, err := conn.ExecContext(context.Background(), q)
		switch mysqlconn.Number(err) {
		case 0, 1062, 1205:
			if err != nil && mysqlconn.Number(err) == 0 {
				t.Errorf("%s: %v", q, err)
			}
			return true
		case 1213:
			return false // rolled back
		}
		t.Errorf("%s: %v", q, err)
		return false
	}
	run("use " + database)
	for ctx.Err() == nil {
		id, n := rnd.IntN(200), rnd.IntN(300)
		letter := fmt.Sprintf("a%d", rnd.IntN(20))
		if rnd.IntN(2) == 0 {
			letter = "A" + letter[1:]
		}
		statements := []string{
			fmt.Sprintf("insert into plain (n, v) values (%d, 'v%d')", n, n),
			fmt.Sprintf("update plain set n = n + 1 where id = %d", id),
			fmt.Sprintf("delete from plain where id = %d", id),
			fmt.Sprintf("replace into uniq values (%d, %d, 'r%d')", id, n, n),
			fmt.Sprintf("insert ignore into uniq values (%d, %d, 'i%d')", id, n, n),
			fmt.Sprintf("update uniq set n = null where id = %d", id),
			fmt.Sprintf("update ignore uniq set n = %d where id = %d", n, id),
			fmt.Sprintf("update ignore uniq set id = %d where id = %d", rnd.IntN(200), id),
			fmt.Sprintf("delete from uniq where n = %d", n),
			fmt.Sprintf("replace into words values ('%s', %d)", letter, n),
			fmt.Sprintf("update ignore words set k = concat(if(ascii(k) = 97, 'A', 'a'), substr(k, 2)), n = n + 1 where k = '%s'", letter),
			fmt.Sprintf("delete from words where k = '%s'", letter),
			fmt.Sprintf("insert into other values (%d, %d, 'o') on duplicate key update v = concat(left(v, 20), %d)", id%20, n, n),
			fmt.Sprintf("update ignore other set b = %d where a = %d and b < 30", n, id%20),
			fmt.Sprintf("delete from other where a = %d and b > %d", id%20, n),
		}
		if rnd.IntN(40) == 0 {
			run("insert into plain (n, v) with recursive c as (select 1 i union all select i + 1 from c where i < 600) select i, 'bulk' from c")
			continue
		}
		if !run("begin") {
			continue
		}
		for range 1 + rnd.IntN(4) {
			if !run(statements[rnd.IntN(len(statements))]) {
				break
			}
		}
		run("commit")
	}
}

// write runs four writers for a while.
func write(t testing.TB, d time.Duration, seed uint64) (wait func()) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { writer(ctx, t, seed*10+uint64(i)) })
	}
	return func() { wg.Wait(); cancel() }
}

func howLong() time.Duration {
	if os.Getenv("VIFL_TEST_LONG") != "" {
		return 2 * time.Minute
	}
	return 6 * time.Second
}

// killConnections ends a random connection that the stream has, or may have.
func killConnections(t testing.TB, rnd *rand.Rand) {
	rows, err := world.landing.QueryContext(within(t, time.Minute), "select id from information_schema.processlist where user = 'root' and id <> connection_id()")
	if err != nil {
		t.Error(err)
		return
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Error(err)
		}
		ids = append(ids, id)
	}
	_ = rows.Close()
	if len(ids) > 0 {
		_, err := world.landing.ExecContext(within(t, time.Minute), fmt.Sprintf("kill %d", ids[rnd.IntN(len(ids))]))
		if err != nil && mysqlconn.Number(err) != 1094 && mysqlconn.Number(err) != 1317 && !mysqlconn.IsConnectionLost(err) {
			t.Log(err)
		}
	}
}

// The stream's worker is killed at random instants, or its connections are, while four
// clients write; in the end both sides are the same.
func TestCrashesAtRandomInstants(t *testing.T) {
	for _, connections := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d connections", connections), func(t *testing.T) {
			o := options()
			o.Takeover, o.Connections, o.Limit = 150*time.Millisecond, connections, 200_000
			r := begun(t, o, crashPlain, crashUnique, crashWords, crashOther)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 2))
			wait := write(t, howLong()/2, seed)
			crashes, stops := 0, 0
			for began := time.Now(); time.Since(began) < howLong()/2; {
				time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				switch rnd.IntN(4) {
				case 0:
					killConnections(t, rnd)
				case 1:
					stops++
					p := end(t)
					if err := r.stream.StopAt(within(t, time.Minute), p); err != nil {
						t.Logf("StopAt: %v", err)
					}
					r.resume()
				default:
					r.stop(errAbandoned)
					r.start()
				}
				crashes++
			}
			wait()
			r.stopAtEnd()
			same(t, "plain", "uniq", "words", "other")
			t.Logf("%d crashes and stops", crashes)
		})
	}
}

// A stop is exact also when a batch was half applied by a worker that died: the place before
// the batch's end cannot be had any more, and is not claimed to be.
func TestAHalfAppliedBatch(t *testing.T) {
	r := begun(t, options(), "create table t (id int primary key, n int unique)", "create table o (id int primary key, n int)")
	if err := r.stream.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	legacy := func(q ...string) { do(t, world.legacy, append([]string{"use " + database}, q...)...) }
	legacy("insert into t values (1, 5)", "insert into o values (1, 1)")
	middle := end(t)
	legacy("update t set n = 6 where id = 1", "update t set n = 7 where id = 1", "insert into t values (2, 6)", "update o set n = 2", "insert into o values (2, 2)")
	ahead := end(t)
	legacy("insert into o values (3, 3)")
	r.stop(nil)
	// As a worker leaves it that died when one of two connections had committed.
	do(t, world.landing, "use "+database, "insert into t values (1, 7), (2, 6)",
		fmt.Sprintf("update _vifl.stream_progress set state='running', ahead_file='%s', ahead_pos=%d", ahead.File, ahead.Pos))
	r.start()
	if err := r.stream.StopAt(within(t, time.Minute), middle); err == nil {
		t.Error("StopAt in the midst of a half applied batch succeeded")
	}
	if err := r.stream.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	st, err := r.stream.Status(within(t, time.Minute))
	if err != nil || st.Position != ahead {
		t.Errorf("stopped at %s, %v, expected the end of the batch, %s", st.Position, err, ahead)
	}
	if got := content(t, world.landing, "o"); got != "[{1 true} {2 true}]\n[{2 true} {2 true}]\n" {
		t.Errorf("the target has\n%s", got)
	}
	r.stopAtEnd()
	same(t, "t", "o")
}

// process is a worker in a process of its own.
type process struct {
	cmd *exec.Cmd
	end io.Closer
	err bytes.Buffer
}

func startProcess(t *testing.T) *process {
	t.Helper()
	text, err := json.Marshal(workerOf{
		Target:     mysqlconn.Target{Name: "target", Socket: world.target.Socket(), Account: mysqlconn.Account{User: "root"}},
		SourcePort: world.source.Port(), Server: world.uuid, Takeover: takeover, Connections: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	p.cmd.Stderr = &p.err
	if p.end, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// Two processes take turns on one stream: whichever has it is put to sleep at a random
// instant, the other takes over, the first wakes up and goes on with what it was doing. It
// must not get anything through: both sides stay the same, byte for byte.
func TestAWorkerThatSlept(t *testing.T) {
	r := emptied(t, options(), crashPlain, crashUnique, crashWords, crashOther)
	r.stop(nil)
	defer r.start()
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	two := map[string]*process{}
	for range 2 {
		p := startProcess(t)
		two[fmt.Sprint(p.cmd.Process.Pid)] = p
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	owner := func(after uint64) (*process, uint64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			row, err := r.stream.present(within(t, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if row.generation > after && row.owner != "" {
				for pid, p := range two {
					if row.owner[len(row.owner)-len(pid):] == pid {
						return p, row.generation
					}
				}
			}
		}
		t.Fatal("nobody took the stream over")
		return nil, 0
	}
	rounds := 3
	if os.Getenv("VIFL_TEST_LONG") != "" {
		rounds = 40
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { writer(ctx, t, seed*10+uint64(i)) })
	}
	var generation uint64
	for range rounds {
		var p *process
		p, generation = owner(generation)
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		other, _ := owner(generation)
		t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
		if other == p {
			t.Fatal("the sleeping process has the stream")
		}
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
	r.stopAtEnd()
	same(t, "plain", "uniq", "words", "other")
	for _, p := range two {
		_ = p.end.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a worker ended with %v: %s", err, p.err.String())
		}
	}
}

// While the target takes no writes, as in a failover, the stream waits and then goes on.
func TestTargetThatIsReadOnlyForAWhile(t *testing.T) {
	r := begun(t, options(), simple)
	do(t, world.landing, "set global super_read_only = on")
	defer do(t, world.landing, "set global read_only = off")
	for i := range 50 {
		do(t, world.legacy, fmt.Sprintf("insert into %s.t (n) values (%d)", database, i))
	}
	time.Sleep(time.Second)
	do(t, world.landing, "set global super_read_only = off", "set global read_only = off")
	r.stopAtEnd()
	same(t, "t")
}

// Without a signal to throttle by the stream slows down, and says so.
func TestThrottle(t *testing.T) {
	o := options()
	var mu sync.Mutex
	asked := 0
	o.Throttle = func(context.Context) (time.Duration, string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if asked <= 2 {
			return 300 * time.Millisecond, "the replicas are behind", nil
		}
		return 0, "", sql.ErrConnDone
	}
	r := begun(t, o, simple)
	began := time.Now()
	do(t, world.legacy, "insert into "+database+".t (n) values (1)")
	var said bool
	for n := 0; n == 0; time.Sleep(5 * time.Millisecond) {
		st, err := r.stream.Status(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		said = said || st.Message == "throttled: the replicas are behind"
		if err := world.landing.QueryRowContext(within(t, time.Minute), "select count(*) from "+database+".t").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d < 300*time.Millisecond || !said {
		t.Errorf("applied after %v, said why: %v; expected both", d, said)
	}
	for range 3 {
		do(t, world.legacy, "insert into "+database+".t (n) values (1)")
		time.Sleep(20 * time.Millisecond)
	}
	r.stopAtEnd()
	same(t, "t")
}

// A distributed transaction that was prepared is decided behind the end of the worker that read
// its PREPARE, in another file of the binlog.
func TestXAAcrossWorkers(t *testing.T) {
	r := begun(t, options(), "create table t (id int primary key, n int)")
	prepare := func(name string, id int) {
		do(t, world.legacy, "use "+database, "xa start '"+name+"'", fmt.Sprintf("insert into t values (%d, 1)", id), "xa end '"+name+"'", "xa prepare '"+name+"'")
	}
	prepare("first", 1)
	do(t, world.legacy, "use "+database, "insert into t values (10, 1)")
	prepare("second", 2)
	prepare("third", 3)
	do(t, world.legacy, "flush binary logs", "use "+database, "insert into t values (11, 1)")
	r.stopAtEnd()
	r.resume()
	for i, decision := range []string{"xa commit 'second'", "xa rollback 'third'", "xa commit 'first'"} {
		r.stop(errAbandoned)
		r.start()
		do(t, world.legacy, decision, "use "+database, fmt.Sprintf("insert into t values (%d, 1)", 20+i))
		r.stopAtEnd()
		r.resume()
	}
	r.stopAtEnd()
	same(t, "t")
	if row, err := r.stream.present(within(t, time.Minute)); err != nil || !row.pending.IsZero() {
		t.Errorf("nothing is prepared any more, but the stream would read from %s on, %v", row.pending, err)
	}
}

// A distributed transaction that was prepared before the reader's connection broke keeps its place
// among what is applied with it: its table was read before, theirs behind.
func TestXAOverABrokenConnection(t *testing.T) {
	r := begun(t, options(), "create table t (id int auto_increment primary key, n int)")
	do(t, world.legacy, "use "+database, "insert into t values (1, 1), (2, 1), (3, 1)")
	r.stopAtEnd()
	r.resume()
	do(t, world.legacy, "use "+database, "xa start 'x'", "update t set n = 2 where id = 1", "delete from t where id = 2", "xa end 'x'", "xa prepare 'x'")
	r.stopAtEnd()
	_, readers := mysqldtest.Rows(t, world.legacy, "select id from information_schema.processlist where command = 'Binlog Dump'")
	for _, id := range readers {
		do(t, world.legacy, "kill "+id[0].String)
	}
	if len(readers) == 0 {
		t.Error("nobody reads the binlog")
	}
	do(t, world.legacy, "use "+database, "update t set n = 5 where id = 3", "xa commit 'x'", "update t set n = 3 where id = 1", "insert into t values (2, 4)", "insert into t (n) values (9)")
	r.resume()
	r.stopAtEnd()
	same(t, "t")
}
