package diff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A comparison keeps to its rate, pauses while its servers are busy and says so, ends when it
// is told to, and finds in all of this what it finds otherwise.
func TestPace(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.fresh(t, "pace")
	s.both(t, "pace", "SET SESSION cte_max_recursion_depth = 100000", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", fmt.Sprintf(numbers, "t", 6000, "i, i"))
	script(t, s.b, "pace", []string{"UPDATE t SET v = 0 WHERE id = 4321"})
	compare := func(o Options, progress func(Progress)) (*Report, time.Duration, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		a, b := snapshot(t, s.a, "pace", 3), snapshot(t, s.b, "pace", 3)
		defer closeSide(a)
		defer closeSide(b)
		start := time.Now()
		r, err := Compare(ctx, a, []Side{b}, readSchema(t, a.Conns[0], "pace"), o, progress)
		return r, time.Since(start), err
	}

	// Three connections begin a chunk of 500 rows each before the first is counted.
	const rate = 2000
	r, took, err := compare(Options{MaxRowsPerSecond: rate, ChunkRows: 500, MinChunkRows: 500, MaxChunkRows: 500}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r.Targets[0], "t 4321 changed")
	if least := time.Duration(6000-3*500) * time.Second / rate; took < least {
		t.Errorf("6000 rows at %d a second took %s, expected at least %s", rate, took, least)
	}

	var mu sync.Mutex
	looks, paused := 0, map[string]int{}
	busy := func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if looks++; looks <= 2 {
			return "side a is busy", nil
		}
		return "", nil
	}
	r, took, err = compare(Options{Watch: busy}, func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		paused[p.Paused]++
		if p.Paused != "" && p.Rows > 0 {
			t.Errorf("%d rows were read while it paused", p.Rows)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r.Targets[0], "t 4321 changed")
	if looks < 3 || took < 2*lookEvery || paused["side a is busy"] != 2 || paused[""] == 0 {
		t.Errorf("%d looks, %s, progress by reason %v", looks, took, paused)
	}

	tooMuch := errors.New("the history list is too long")
	if r, _, err := compare(Options{Watch: func(context.Context) (string, error) { return "", tooMuch }}, nil); !errors.Is(err, tooMuch) || r != nil {
		t.Errorf("%v, %v", r, err)
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped by the operator")
	a, b := snapshot(t, s.a, "pace", 2), snapshot(t, s.b, "pace", 2)
	defer closeSide(a)
	defer closeSide(b)
	sch := readSchema(t, a.Conns[0], "pace")
	forever := func(context.Context) (string, error) {
		cancel(stopped)
		return "always busy", nil
	}
	if _, err := Compare(ctx, a, []Side{b}, sch, Options{Watch: forever}, nil); err == nil || !errors.Is(err, stopped) && !strings.Contains(err.Error(), "cancel") {
		t.Errorf("cancelled while it paused: %v", err)
	}
}
