package binlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// claimed is a claim of a new worker, with what it needs to apply rows of t.
func claimed(t *testing.T, s *Stream) (*claim, *applier, *schema.Table) {
	t.Helper()
	w := NewWorker(s, options())
	c, err := w.claim(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := schema.Read(within(t, time.Minute), world.landing, database)
	if err != nil {
		t.Fatal(err)
	}
	a := newApplier(c)
	t.Cleanup(a.close)
	return c, a, tables.Table("t")
}

// A worker that was taken over gets nothing through, whatever it was about to do, with its
// connections as they were.
func TestAFormerOwnerAppliesNothing(t *testing.T) {
	r := emptied(t, options(), simple)
	r.stop(nil)
	defer r.start()
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	former, a, table := claimed(t, r.stream)
	part := func(rows, from int) *transaction.Part {
		p := &transaction.Part{Last: true, End: end(t)}
		for i := range rows {
			p.Changes = append(p.Changes, transaction.Change{Table: table, After: transaction.Image{fmt.Append(nil, from+i), []byte("1"), []byte("NULL")}})
		}
		return p
	}
	next := func(p *transaction.Part) func(context.Context) (*transaction.Part, error) {
		return func(context.Context) (*transaction.Part, error) { return p, nil }
	}
	after := func(p *transaction.Part) (progress, bool) { return progress{at: p.End, state: stateRunning}, true }
	apply := func(p *transaction.Part) error {
		_, err := a.apply(within(t, time.Minute), &job{changes: []*transaction.Part{p}, before: progress{at: p.End, ahead: p.End, state: stateRunning}, after: progress{at: p.End, state: stateRunning}})
		return err
	}
	// It works while the claim is its own; then it gives no sign of life.
	for n, err := range []error{apply(part(1, 1)), apply(part(1000, 1001)), a.large(within(t, time.Minute), next(part(1, 2)), after)} {
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
	}
	began := time.Now()
	successor, _, _ := claimed(t, r.stream)
	if successor.generation != former.generation+1 || time.Since(began) < takeover/2 {
		t.Errorf("taken over as generation %d after %v, expected %d after %v", successor.generation, time.Since(began), former.generation+1, takeover)
	}
	ctx := within(t, time.Minute)
	for name, err := range map[string]error{
		"one row":      apply(part(1, 10_000)),
		"several rows": apply(part(1000, 20_000)),
		"one of several connections": a.transact(ctx, 0, func(ctx context.Context, s *session) error {
			return former.fence(ctx, s.conn, "FOR SHARE")
		}),
		"a large one":      a.large(ctx, next(part(1, 30_000)), after),
		"the position":     former.save(ctx, world.landing, progress{at: end(t), state: stateStopped}),
		"a sign of life":   former.renew(ctx, world.landing),
		"reading it again": (&follower{c: former, watch: newWatch(former), apply: a}).load(ctx),
	} {
		if !errors.Is(err, errLost) {
			t.Errorf("%s: %v, expected that the claim is lost", name, err)
		}
	}
	a.close()
	var n int
	if err := world.landing.QueryRowContext(ctx, "select count(*) from "+database+".t where id > 9000").Scan(&n); err != nil || n != 0 {
		t.Errorf("the former owner got %d rows through, %v", n, err)
	}
	successor.release(ctx)
}

// Taking over waits for the transaction that the former owner is in, and ends it when the
// owner sleeps in its midst.
func TestTakingOverWaitsForWhatIsBeingApplied(t *testing.T) {
	r := emptied(t, options(), simple)
	r.stop(nil)
	defer r.start()
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	for _, commits := range []bool{true, false} {
		former, a, _ := claimed(t, r.stream)
		inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- a.transact(context.Background(), 0, func(ctx context.Context, s *session) error {
				if err := former.fence(ctx, s.conn, "FOR SHARE"); err != nil {
					return err
				}
				if _, err := s.conn.ExecContext(ctx, "insert into "+database+".t (n) values (1)"); err != nil {
					return err
				}
				close(inside)
				<-goOn
				return nil
			})
		}()
		<-inside
		taken := make(chan *claim, 1)
		go func() {
			c, err := NewWorker(r.stream, options()).claim(context.Background())
			if err != nil {
				t.Error(err)
			}
			taken <- c
		}()
		var successor *claim
		if commits {
			select {
			case <-taken:
				t.Error("taken over in the midst of a transaction")
			case <-time.After(3 * takeover):
			}
			close(goOn)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			successor = <-taken
		} else {
			successor = <-taken
			close(goOn)
			if err := <-ended; err == nil {
				t.Error("a transaction that slept through being taken over was committed")
			}
		}
		if n := content(t, world.landing, "t"); n != "[{1 true} {1 true} { false}]\n" {
			t.Errorf("commits %v: the target has %q, expected the row that was committed", commits, n)
		}
		successor.release(within(t, time.Minute))
	}
}

// A command with the hosts of two shards swapped runs a worker too. It must not take the
// stream, and end it because its own address is wrong.
func TestAWorkerOfAnotherServerTakesNothing(t *testing.T) {
	r := begun(t, options(), simple)
	r.stop(nil)
	wrong := source()
	wrong.Target = tcp(world.target)
	s := New(target, "vifl_0123", database, wrong)
	if err := NewWorker(s, options()).Run(within(t, time.Minute)); !errors.Is(err, stream.ErrWrongServer) {
		t.Errorf("found %v, expected that it is another server", err)
	}
	if st, err := r.stream.Status(within(t, time.Minute)); err != nil || st.State != stream.Running {
		t.Errorf("status %+v, %v, expected running as before", st, err)
	}
	r.start()
	do(t, world.legacy, "insert into "+database+".t values (1, 1, null)")
	r.stopAtEnd()
}
