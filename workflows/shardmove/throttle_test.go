package shardmove

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAThrottleWithoutAnAnswerSlowsDown(t *testing.T) {
	answers := make(chan error)
	lag := time.Duration(0)
	th := &throttle{limit: 5 * time.Second, lag: func(context.Context) (time.Duration, string, error) {
		err := <-answers
		return lag, "tablet zone1-101", err
	}}
	answer := func(err error) {
		t.Helper()
		answers <- err
		for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(time.Millisecond) {
			th.mu.Lock()
			done := time.Since(th.good) < time.Second || th.err != nil
			th.mu.Unlock()
			if done {
				return
			}
		}
		t.Fatal("the answer does not arrive")
	}
	last := func(at time.Time) {
		th.mu.Lock()
		defer th.mu.Unlock()
		th.good, th.err = at, nil
	}
	again := func() (time.Duration, string, error) {
		th.mu.Lock()
		th.asked = time.Now().Add(-2 * throttleSample)
		th.mu.Unlock()
		return th.wait(t.Context())
	}
	if d, _, err := again(); d != 0 || err != nil {
		t.Errorf("before the first answer: %s, %v, expected to go on", d, err)
	}
	answer(nil)
	if d, _, err := again(); d != 0 || err != nil {
		t.Errorf("no lag: %s, %v", d, err)
	}
	last(time.Time{})
	lag = 12 * time.Second
	answer(nil)
	if d, why, err := again(); d <= 0 || err != nil || !strings.Contains(why, "zone1-101 is 12s behind") {
		t.Errorf("a lag of 12 s: %s, %q, %v, expected a pause and the reason", d, why, err)
	}
	last(time.Now().Add(-throttleStale - time.Second))
	answer(errors.New("tablet zone1-101: connection refused"))
	if d, _, err := again(); d != 0 || err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a stale answer: %s, %v, expected an error, at which the stream slows down", d, err)
	}
	answer(nil)
	// Behind a time without batches the last answer is old because nobody asked.
	last(time.Now().Add(-time.Hour))
	th.mu.Lock()
	th.asked = time.Now().Add(-time.Hour)
	th.mu.Unlock()
	if d, _, err := th.wait(t.Context()); d != 0 || err != nil {
		t.Errorf("after a quiet hour: %s, %v, expected to go on", d, err)
	}
	answer(nil)
}
