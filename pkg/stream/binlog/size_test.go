package binlog

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/stream"
)

// Large transactions are applied in bounded memory, whole or not at all.
func TestLargeTransactions(t *testing.T) {
	r := begun(t, options(), "create table t (id int auto_increment primary key, n int, v varchar(200))", "create table uniq (id int primary key, n int unique)", "create table b (id int primary key, b longblob)")
	peak := measure(t)
	digits := "(select 0 d union select 1 union select 2 union select 3 union select 4 union select 5 union select 6 union select 7 union select 8 union select 9)"
	numbers := fmt.Sprintf("%s a, %s b, %s c, %s d, (select 0 d union select 1 union select 2 union select 3 union select 4) e", digits, digits, digits, digits)
	number := "a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d"
	do(t, world.legacy, "use "+database, "insert into t (n, v) select "+number+", repeat('v', 150) from "+numbers)
	r.stopAtEnd()
	same(t, "t")
	r.resume()
	do(t, world.legacy, "use "+database, "begin", "insert into uniq select "+number+", "+number+" from "+numbers,
		"update uniq set n = n + 1 order by n desc", "update uniq set n = 0 where id = 49999", "update t set v = concat('w', id)", "delete from t where id % 3 = 0", "commit")
	r.stopAtEnd()
	same(t, "t", "uniq")
	r.resume()
	do(t, world.legacy, "use "+database, "begin", "insert into b values (1, repeat('x', 8000000))", "insert into b values (2, repeat('y', 8000000))",
		"insert into b values (3, repeat('z', 8000000))", "update b set b = concat(b, '!')", "commit")
	r.stopAtEnd()
	same(t, "b")
	// Hexadecimal doubles a value; a change has two of 16 MB, and it is there as read, as
	// handed over, and as a statement. All rows together would be ten times as much.
	if mb := peak(); mb > 400 {
		t.Errorf("the heap grew to %d MB, expected less than 400", mb)
	} else {
		t.Logf("the heap grew to %d MB", mb)
	}
}

// To stop inside a transaction of many parts leaves nothing of it.
func TestLargeTransactionAndAStopInside(t *testing.T) {
	r := begun(t, options(), "create table t (id int auto_increment primary key, v varchar(200))")
	do(t, world.legacy, "insert into "+database+".t values (1, 'before')")
	r.stopAtEnd()
	before := end(t)
	do(t, world.legacy, "set cte_max_recursion_depth=100000", "insert into "+database+".t (v) with recursive n as (select 1 i union all select i+1 from n where i < 50000) select repeat('v', 150) from n")
	p := before
	p.Pos += 5_000_000
	if err := r.stream.StopAt(within(t, time.Minute), p); !errors.Is(err, stream.ErrPassed) {
		t.Errorf("StopAt inside a large transaction: %v, expected ErrPassed", err)
	}
	st, err := r.stream.Status(within(t, time.Minute))
	if err != nil || st.State != stream.Stopped || st.Position != before {
		t.Errorf("the stream is %+v, %v, expected stopped at %s", st, err, before)
	}
	if got := content(t, world.landing, "t"); strings.Count(got, "\n") != 1 {
		t.Errorf("the target has a part of the transaction: %d rows", strings.Count(got, "\n"))
	}
	r.stopAtEnd()
	same(t, "t")
}

// measure samples the heap; its result is the peak in MB.
func measure(t *testing.T) func() uint64 {
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse > peak.Load() {
				peak.Store(m.HeapInuse)
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(done) })
	return func() uint64 { return peak.Load() >> 20 }
}
