package shardmove

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/state"
)

const (
	// throttleSample is how often the replicas are asked while a stream is busy.
	throttleSample = time.Second
	// throttleStale is how old an answer may be. Behind it nobody knows how the replicas are:
	// the stream slows down, it does not go on as if all were well.
	throttleStale = 5 * time.Second
	// throttleWait is the pause in front of a batch while a replica is too far behind.
	throttleWait = 250 * time.Millisecond
)

// throttle slows a stream of vifl's own down while a replica of the server that it writes to
// lags: the primary takes what it is given faster than its replicas follow, and a failover,
// or a cut that waits for them, would find them far behind.
type throttle struct {
	limit time.Duration
	// lag is the largest lag of the replicas, and whose.
	lag func(context.Context) (time.Duration, string, error)

	mu    sync.Mutex
	asked time.Time // the last question began
	good  time.Time // the last answer came
	worst time.Duration
	whose string
	err   error
}

// wait is binlog.Options.Throttle.
func (t *throttle) wait(ctx context.Context) (time.Duration, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.asked) > throttleStale {
		t.good, t.err = time.Time{}, nil // there was nothing to ask for
	}
	if time.Since(t.asked) >= throttleSample {
		t.asked = time.Now()
		// Not in the way of the batch: an answer may take as long as a tablet is down.
		go t.ask(context.WithoutCancel(ctx))
	}
	switch {
	case t.good.IsZero() && t.err == nil:
		return 0, "", nil // the first question is under way
	case time.Since(t.good) > throttleStale:
		return 0, "", errors.Join(fmt.Errorf("no answer for more than %s", throttleStale), t.err)
	case t.worst > t.limit:
		return throttleWait, fmt.Sprintf("%s is %s behind, expected at most %s (limits.throttle_lag)", t.whose, t.worst.Round(time.Second), t.limit), nil
	}
	return 0, "", nil
}

func (t *throttle) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, throttleStale)
	defer cancel()
	worst, whose, err := t.lag(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err = err; err == nil {
		t.good, t.worst, t.whose = time.Now(), worst, whose
	}
}

// throttle is the one for the stream that the shard has.
func (m *Move) throttle(doc *state.Shard) *throttle {
	lag := m.landingLag
	if backwards(doc) {
		lag = m.sideLag
	}
	return &throttle{limit: m.cfg.Limits.ThrottleLag, lag: lag}
}

// landingLag is the largest lag of the landing's replicas. One that does not replicate makes
// it unknown.
func (m *Move) landingLag(ctx context.Context) (worst time.Duration, whose string, err error) {
	tablets, err := m.landing.Tablets(ctx)
	if err != nil {
		return 0, "", err
	}
	for _, t := range tablets {
		switch {
		case t.Type != "REPLICA":
		case t.Problem != "":
			return 0, "", fmt.Errorf("tablet %s: %s", t.Alias, t.Problem)
		case t.LagSeconds < 0:
			return 0, "", fmt.Errorf("tablet %s does not know how far it is behind", t.Alias)
		default:
			if d := time.Duration(t.LagSeconds) * time.Second; d >= worst {
				worst, whose = d, "tablet "+t.Alias
			}
		}
	}
	return worst, whose, nil
}

// sideLag is the lag of side b behind side a, which a stream back writes to.
func (m *Move) sideLag(ctx context.Context) (time.Duration, string, error) {
	b, err := m.side(ctx, config.SideB)
	if err != nil {
		return 0, "", err
	}
	st, err := b.Replica(ctx)
	switch {
	case err != nil:
		return 0, "", err
	case st == nil || st.SecondsBehind < 0:
		return 0, "", fmt.Errorf("%s does not know how far it is behind", b.Name())
	}
	return time.Duration(st.SecondsBehind) * time.Second, b.Name(), nil
}
