package diff

import (
	"context"
	"sync"
	"time"
)

// lookEvery is how often Options.Watch is asked: loads change in seconds, and asking costs the
// server something too.
const lookEvery = time.Second

// pace keeps a comparison from reading faster than it may, all of its workers together.
type pace struct {
	rate  float64 // rows of the source a second; 0 is no bound
	watch func(context.Context) (string, error)
	every time.Duration

	looking sync.Mutex // one looks, or waits for a better moment, and all others behind it
	looked  time.Time

	mu sync.Mutex
	// paid is when what was read so far is within the rate.
	paid time.Time
}

// before returns when the next statement may run. say is told why it may not yet, and "" when
// that is over.
func (p *pace) before(ctx context.Context, say func(string)) error {
	if err := p.look(ctx, say); err != nil {
		return err
	}
	p.mu.Lock()
	wait := time.Until(p.paid)
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return sleep(ctx, wait)
}

func (p *pace) look(ctx context.Context, say func(string)) error {
	if p.watch == nil {
		return nil
	}
	p.looking.Lock()
	defer p.looking.Unlock()
	paused := false
	for time.Since(p.looked) >= p.every {
		why, err := p.watch(ctx)
		if err != nil {
			return err
		}
		p.looked = time.Now()
		if why == "" {
			break
		}
		paused = true
		say(why)
		if err := sleep(ctx, p.every); err != nil {
			return err
		}
	}
	if paused {
		say("")
	}
	return nil
}

// after counts the rows of the source that a statement begun at start has read.
func (p *pace) after(start time.Time, rows uint64) {
	if p.rate <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid.Before(start) {
		p.paid = start
	}
	p.paid = p.paid.Add(time.Duration(float64(rows) / p.rate * float64(time.Second)))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
