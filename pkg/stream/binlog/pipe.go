package binlog

import (
	"context"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/position"
)

const (
	// batchBytes and batchRows bound what is netted into one batch, and with it the time
	// that one target transaction takes.
	batchBytes = 8 << 20
	batchRows  = 20000
)

// transaction is what the reader hands over: without changes it only moves the position.
type transaction struct {
	changes   []change
	end       position.FilePos
	readFrom  position.FilePos
	committed time.Time
	born      uint32
}

// pipe is between the reader and the applier. It holds one batch at most: transactions are
// netted into it as long as nobody takes it, so that batches form only of what waits. When
// it is full the reader waits, and with it the server.
type pipe struct {
	mu sync.Mutex
	// waiting is what the next batch is made of; nil when nothing waits.
	waiting *batch
	// last is the end of the last transaction that was put in.
	last position.FilePos
	// stop is where the applier is to stop; no transaction that ends behind it is put in.
	stop position.FilePos
	// beyond is the end of the first transaction behind stop: it waits with the reader.
	beyond position.FilePos
	err    error // why the reader ended
	ended  bool

	filled  chan struct{} // something to take, or the end
	emptied chan struct{} // room, or another stop
}

func newPipe(from, stop position.FilePos) *pipe {
	return &pipe{last: from, stop: stop, filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put nets a transaction into the waiting batch. It blocks while that is full, is a piece of
// a transaction, or the transaction ends behind the stop.
func (p *pipe) put(ctx context.Context, t transaction) error {
	return p.when(ctx, func() bool {
		if p.behindStop(t.end) {
			p.beyond = t.end
			signal(p.filled)
			return false
		}
		if b := p.waiting; b != nil && (b.piece || len(t.changes) > 0 && (b.rows >= batchRows || b.bytes >= batchBytes)) {
			return false
		}
		if p.waiting == nil {
			p.waiting = newBatch()
		}
		p.finish(t)
		return true
	})
}

func (p *pipe) behindStop(end position.FilePos) bool {
	if p.stop.IsZero() {
		return false
	}
	c, err := position.Compare(end, p.stop)
	return err != nil || c > 0
}

func (p *pipe) finish(t transaction) {
	b := p.waiting
	b.add(t.changes)
	b.end, b.readFrom, b.born = t.end, t.readFrom, t.born
	if !t.committed.IsZero() {
		b.committed = t.committed
	}
	p.last = t.end
	signal(p.filled)
}

// piece hands over a part of a large transaction, by itself.
func (p *pipe) piece(ctx context.Context, changes []change) error {
	return p.when(ctx, func() bool {
		if p.waiting != nil {
			return false
		}
		p.waiting = newBatch()
		p.waiting.piece = true
		p.waiting.add(changes)
		signal(p.filled)
		return true
	})
}

// lastPiece ends a large transaction.
func (p *pipe) lastPiece(ctx context.Context, t transaction) error {
	return p.when(ctx, func() bool {
		if p.waiting != nil {
			return false
		}
		if p.behindStop(t.end) {
			// What was handed over of it must go again, and wait for other orders.
			p.beyond = t.end
			p.waiting = &batch{piece: true, void: true}
			signal(p.filled)
			return true
		}
		p.waiting = newBatch()
		p.waiting.piece = true
		p.finish(t)
		return true
	})
}

// abandon tells that the large transaction was rolled back.
func (p *pipe) abandon(ctx context.Context) error {
	return p.when(ctx, func() bool {
		if p.waiting != nil {
			return false
		}
		p.waiting = &batch{piece: true, void: true}
		signal(p.filled)
		return true
	})
}

// when blocks until do, which is called with the lock, has done it.
func (p *pipe) when(ctx context.Context, do func() bool) error {
	for {
		p.mu.Lock()
		done := do()
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.emptied:
		}
	}
}

// take is the batch that waits, nil when there is none, and then what ended the reader.
func (p *pipe) take() (*batch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.waiting
	if b != nil {
		p.waiting = nil
		signal(p.emptied)
		return b, nil
	}
	if p.ended {
		return nil, p.err
	}
	return nil, nil
}

// peek reports whether something waits, and whether it changes rows or is the end.
func (p *pipe) peek() (waits, matters bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return p.ended, p.ended
	}
	return true, p.waiting.rows > 0 || p.waiting.piece || p.ended
}

// end tells that the reader ended.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	signal(p.filled)
}

// setStop sets where to stop; zero for nowhere. It is false when what was put in already
// lies behind that: reading has to begin anew.
func (p *pipe) setStop(stop position.FilePos) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop == stop {
		return true
	}
	p.stop = stop
	if p.behindStop(p.last) {
		return false
	}
	p.beyond = position.FilePos{}
	signal(p.emptied)
	return true
}

// handedOver is the end of the last transaction that was put in.
func (p *pipe) handedOver() position.FilePos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// passed reports that the first transaction that is not put in ends behind the stop, so
// that none ends there.
func (p *pipe) passed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.beyond.IsZero() && p.waiting == nil
}
