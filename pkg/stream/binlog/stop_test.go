package binlog

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/stream"
)

const simple = "create table t (id int auto_increment primary key, n int, v varchar(100))"

// A DDL stops the stream before it, and nothing goes on behind it.
func TestStatementsBlock(t *testing.T) {
	for kind, statements := range map[string][]string{
		"ALTER TABLE": {"use " + database, "alter table t add column x int"},
		"INSERT":      {"use " + database, "set binlog_format=statement", "insert into t values (2, 2, 'secret')"},
	} {
		t.Run(kind, func(t *testing.T) {
			r := begun(t, options(), simple)
			do(t, world.legacy, "insert into "+database+".t values (1, 1, 'x')")
			before := end(t)
			do(t, world.legacy, statements...)
			do(t, world.legacy, "insert into "+database+".t (n) values (9)")
			if err := r.stream.StopAt(within(t, time.Minute), end(t)); !errors.Is(err, stream.ErrBlocked) || strings.Contains(err.Error(), "secret") {
				t.Errorf("StopAt behind it: %v, expected ErrBlocked", err)
			}
			for _, err := range []error{r.stream.Resume(within(t, time.Minute)), r.stream.StopAt(within(t, time.Minute), end(t))} {
				if !errors.Is(err, stream.ErrBlocked) {
					t.Errorf("going on: %v, expected ErrBlocked", err)
				}
			}
			r.stop(errAbandoned) // the next worker knows it too
			r.start()
			if err := r.stream.Stop(within(t, time.Minute)); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * takeover)
			st, err := r.stream.Status(within(t, time.Minute))
			if err != nil || st.State != stream.Failed || st.Blocked != kind || st.Position != before {
				t.Errorf("status %+v, %v, expected an error at %s, blocked by %s", st, err, before, kind)
			}
			if got := content(t, world.landing, "t"); strings.Count(got, "\n") != 1 {
				t.Errorf("the target has\n%s\nexpected the row before the statement", got)
			}
		})
	}
}

// The place that a server calls its end just behind a rotation can be stopped at.
func TestStopAtTheStartOfAFreshBinlog(t *testing.T) {
	r := begun(t, options(), simple)
	for range 3 {
		do(t, world.legacy, "insert into "+database+".t (n) values (1)", "flush binary logs")
		r.stopAtEnd()
		same(t, "t")
		do(t, world.legacy, "flush binary logs", "flush binary logs")
		r.stopAtEnd()
		r.resume()
	}
}

// A stream that stands at a place still moves to one behind transactions that change nothing.
func TestStopBehindOtherDatabases(t *testing.T) {
	r := begun(t, options(), simple)
	do(t, world.legacy, "create database if not exists elsewhere", "create table if not exists elsewhere.x (id int)")
	for range 20 {
		do(t, world.legacy, "insert into elsewhere.x values (1)")
		p := end(t)
		do(t, world.legacy, "insert into elsewhere.x values (1)")
		if err := r.stream.StopAt(within(t, time.Minute), p); err != nil && !errors.Is(err, stream.ErrPassed) {
			t.Fatal(err)
		}
		r.stopAtEnd()
		r.resume()
	}
}

// How long it takes until a change is there, and until a stop is.
func TestLatency(t *testing.T) {
	r := begun(t, options(), simple)
	var seen, stopped []time.Duration
	for i := range 30 {
		do(t, world.legacy, fmt.Sprintf("insert into %s.t values (%d, 1, 'x')", database, i+1))
		began := time.Now()
		for n := 0; n <= i; time.Sleep(time.Millisecond) {
			if err := world.landing.QueryRowContext(within(t, time.Minute), "select count(*) from "+database+".t").Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		seen = append(seen, time.Since(began))
	}
	for i := range 30 {
		do(t, world.legacy, fmt.Sprintf("insert into %s.t values (%d, 1, 'x')", database, i+1000))
		p := end(t)
		began := time.Now()
		if err := r.stream.StopAt(within(t, time.Minute), p); err != nil {
			t.Fatal(err)
		}
		stopped = append(stopped, time.Since(began))
		r.resume()
		time.Sleep(20 * time.Millisecond)
	}
	for _, d := range [][]time.Duration{seen, stopped} {
		sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	}
	t.Logf("a change is there after %v (median) to %v; stopped after %v to %v", seen[15], seen[29], stopped[15], stopped[29])
	if seen[15] > 100*time.Millisecond || stopped[15] > 100*time.Millisecond {
		t.Errorf("a change took %v, a stop %v", seen[15], stopped[15])
	}
}

func TestTablesWithoutAKeyAreRefused(t *testing.T) {
	r := emptied(t, options(), simple, "create table nokey (n int)")
	if err := r.stream.Start(within(t, time.Minute), end(t)); err == nil || !strings.Contains(err.Error(), "nokey: no primary key") {
		t.Errorf("Start: %v, expected that nokey is named", err)
	}
	if st, err := r.stream.Status(within(t, time.Minute)); err != nil || st.State != stream.Absent {
		t.Errorf("a Start that failed left %+v, %v", st, err)
	}
}

// A stream without a worker is stopped all the same, and says what is missing.
func TestWithoutAWorker(t *testing.T) {
	r := begun(t, options(), simple)
	do(t, world.legacy, "insert into "+database+".t (n) values (1)")
	r.stopAtEnd()
	r.resume()
	r.stop(nil)
	st, err := r.stream.Status(within(t, time.Minute))
	if err != nil || st.State != stream.Running || !strings.Contains(st.Message, "no worker") {
		t.Errorf("status %+v, %v, expected that no worker has it", st, err)
	}
	do(t, world.legacy, "insert into "+database+".t (n) values (2)")
	if err := r.stream.StopAt(within(t, 300*time.Millisecond), end(t)); err == nil || !strings.Contains(err.Error(), "no worker has it") {
		t.Errorf("StopAt: %v, expected that no worker has it", err)
	}
	if err := r.stream.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.stopAtEnd()
	same(t, "t")
}

// A row that is in the way is an error that names no value, and the stream goes on once it
// is gone.
func TestADuplicateIsFinal(t *testing.T) {
	r := begun(t, options(), "create table t (id int primary key, v varchar(50) unique)")
	do(t, world.landing, "insert into "+database+".t values (7, 'secret')")
	do(t, world.legacy, "insert into "+database+".t values (1, 'secret')")
	err := r.stream.StopAt(within(t, time.Minute), end(t))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "unique key t.v") {
		t.Errorf("StopAt: %v, expected an error that names the key and no value", err)
	}
	if err := r.stream.Resume(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	do(t, world.landing, "delete from "+database+".t where id = 7")
	deadline := time.Now().Add(30 * time.Second)
	for r.stream.StopAt(within(t, time.Minute), end(t)) != nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	same(t, "t")
}
