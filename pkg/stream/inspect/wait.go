package inspect

import (
	"context"
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
)

// handler hands the events of one connection to the reader and publishes where it is.
type handler struct {
	i *Inspector
	r *reader
}

// HandleEvent is called for each event in order.
func (h *handler) HandleEvent(e *replication.BinlogEvent) error {
	switch ev := e.Event.(type) {
	case *replication.RotateEvent:
		h.r.rotate(string(ev.NextLogName), ev.Position)
	case *replication.GenericEvent:
		if err := h.r.event(e.Header, ev.Data); err != nil {
			return permanent{err}
		}
	default: // the format description, which go-mysql decodes in any case
		if err := h.r.event(e.Header, nil); err != nil {
			return permanent{err}
		}
	}
	h.i.publish(h.r.at, h.r.boundary)
	return nil
}

// found notes a taint. Events behind the last transaction's end are read a second time
// after a connection broke; a taint among them is noted once.
func (h *handler) found(kind Kind, detail string) {
	i := h.i
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, err := position.Compare(h.r.at, i.last); !i.last.IsZero() && err == nil && c <= 0 {
		return
	}
	i.last = h.r.at
	if len(i.taints) == maxTaints {
		i.more++
		return
	}
	i.taints = append(i.taints, Taint{Position: h.r.at, Kind: kind, Detail: detail})
}

func (i *Inspector) publish(at, resume position.FilePos) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resume = resume
	// Read again after a broken connection: what was read stays read.
	if c, err := position.Compare(at, i.at); err == nil && c > 0 {
		i.at = at
	}
	for w := range i.waiters {
		if reached(i.at, w.p) {
			close(w.done)
			delete(i.waiters, w)
		}
	}
}

func reached(at, p position.FilePos) bool {
	c, err := position.Compare(at, p)
	return err == nil && c >= 0
}

// Wait blocks until everything up to p has been read, and returns the taints found up to
// there, none when the stream is sound. It fails when ctx ends, when Run has ended before,
// or when p is of another server.
func (i *Inspector) Wait(ctx context.Context, p position.FilePos) ([]Taint, error) {
	w := &waiter{p: p, done: make(chan struct{})}
	i.mu.Lock()
	if _, err := position.Compare(i.at, p); err != nil {
		i.mu.Unlock()
		return nil, fmt.Errorf("%s: inspecting up to %s: %w", i.target, p, err)
	}
	if reached(i.at, p) || i.ended {
		close(w.done)
	} else {
		i.waiters[w] = struct{}{}
	}
	i.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		i.mu.Lock()
		delete(i.waiters, w)
		at := i.at
		i.mu.Unlock()
		return nil, fmt.Errorf("%s: waiting for the binlog's reader to get from %s to %s: %w", i.target, at, p, context.Cause(ctx))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !reached(i.at, p) {
		return nil, fmt.Errorf("%s: the binlog's reader ended at %s, before %s: %w", i.target, i.at, p, i.err)
	}
	var upTo []Taint
	for _, t := range i.taints {
		if c, err := position.Compare(t.Position, p); err == nil && c <= 0 {
			upTo = append(upTo, t)
		}
	}
	return upTo, nil
}

// Taints are all taints found so far, at most maxTaints of them.
func (i *Inspector) Taints() []Taint {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]Taint(nil), i.taints...)
}

// Position is where reading can go on, between two transactions: what to give to New after
// a restart of vifl, together with the taints found so far.
func (i *Inspector) Position() position.FilePos {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.resume
}
