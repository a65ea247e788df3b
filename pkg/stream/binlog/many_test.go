package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/stream"
)

// One process carries 200 streams of which most are idle; a quarter of them unless the test
// may take long.
func TestManyStreams(t *testing.T) {
	streams := 50
	if os.Getenv("VIFL_TEST_LONG") != "" {
		streams = 200
	}
	emptied(t, options(), simple).stop(nil)
	o := options()
	o.Takeover = 0
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	var all []*Stream
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	from := end(t)
	starts := make(chan struct{}, 8)
	for i := range streams {
		name := fmt.Sprintf("slack%03d", i)
		do(t, world.landing, "create database if not exists "+name)
		db, err := mysqlconn.Open(world.target.Target("target"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		s := New(func(context.Context) (*sql.DB, error) { return db, nil }, "many_"+name, name, source())
		t.Cleanup(func() {
			_ = s.Delete(context.Background())
			_, _ = world.landing.ExecContext(context.Background(), "drop database "+name)
		})
		all = append(all, s)
		starts <- struct{}{}
		workers.Go(func() {
			if err := s.Start(within(t, time.Minute), from); err != nil {
				t.Error(err)
			}
			<-starts
			if err := NewWorker(s, o).Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer workers.Wait()
	defer cancel()
	do(t, world.legacy, "insert into "+database+".t (n) values (1)")
	p := end(t)
	for _, s := range all { // each gets past a change that is not its own
		for {
			st, err := s.Status(within(t, time.Minute))
			if err != nil || st.State == stream.Failed || t.Failed() {
				t.Fatalf("%+v, %v", st, err)
			}
			if st.Position == p {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	at, began := used(), time.Now()
	time.Sleep(3 * time.Second)
	busy := float64(used()-at) / float64(time.Since(began))
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	mb := func(m runtime.MemStats) uint64 { return (m.HeapInuse + m.StackInuse) >> 20 }
	t.Logf("%d idle streams take %d MB (%d before), %d goroutines, %.2f processors", streams, mb(after), mb(before), runtime.NumGoroutine(), busy)
	if mb(after)-mb(before) > uint64(500*streams/200) {
		t.Errorf("%d streams take %d MB", streams, mb(after)-mb(before))
	}
}
