package binlog

import (
	"context"
	"sync"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// partOverhead is what a part and its place in a queue take beside its changes: a server
// whose other databases are busy sends many parts without any.
const partOverhead = 128

// queue holds parts that were read and not taken yet.
type queue struct {
	limit int
	// news has an entry when a part came or the end did; room when parts were taken.
	news, room chan struct{}

	mu    sync.Mutex
	parts []*transaction.Part
	bytes int
	// until lifts the limit up to there: that batch was begun before.
	until position.FilePos
	ended bool
	err   error
}

func newQueue(limit int, until position.FilePos) *queue {
	return &queue{limit: limit, until: until, news: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put waits for room and adds a part.
func (q *queue) put(ctx context.Context, p *transaction.Part) error {
	for {
		q.mu.Lock()
		if q.bytes < q.limit || !q.until.IsZero() {
			q.parts = append(q.parts, p)
			q.bytes += p.Bytes + partOverhead
			q.mu.Unlock()
			signal(q.news)
			return nil
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.room:
		}
	}
}

// end says that no part comes any more, and why.
func (q *queue) end(err error) {
	q.mu.Lock()
	q.ended, q.err = true, err
	q.mu.Unlock()
	signal(q.news)
}

// batch is some whole transactions, one after the other.
type batch struct {
	parts []*transaction.Part
	rows  int
	bytes int
	// last is the part that ends the batch.
	last *transaction.Part
}

// found is what take saw.
type found struct {
	batch batch // without last: nothing to apply
	// large says that the first transaction is larger than the queue: its parts are to be
	// taken one by one.
	large bool
	// passed says that the first transaction ends behind the bound.
	passed bool
	// ended says that the queue is empty and the reader's end is err.
	ended bool
	err   error
}

// take takes whole transactions up to the limits. With a bound none that ends behind it;
// with exact all up to the bound and nothing before they are there, whatever the limits.
func (q *queue) take(bytes, rows int, bound position.FilePos, exact bool) (found, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var f found
	var b batch
	taken := 0
	seen := batch{}
	for i, p := range q.parts {
		seen.parts = append(seen.parts, p)
		seen.rows += len(p.Changes)
		seen.bytes += p.Bytes
		if !p.Last {
			continue
		}
		if !bound.IsZero() {
			c, err := position.Compare(p.End, bound)
			if err != nil {
				return f, err
			}
			if c > 0 {
				f.passed = b.last == nil || exact
				break
			}
		}
		b = seen
		b.last, taken = p, i+1
		if !exact && (b.rows >= rows || b.bytes >= bytes) {
			break
		}
	}
	if exact && (b.last == nil || b.last.End != bound) {
		f.ended, f.err = q.ended, q.err
		return f, nil
	}
	switch {
	case b.last != nil:
		f.batch = b
		f.batch.parts = b.parts[:len(b.parts):len(b.parts)]
		q.drop(taken)
	case len(q.parts) > 0 && !f.passed && q.bytes >= q.limit:
		f.large = true
	case q.ended && !f.passed:
		f.ended, f.err = true, q.err
	}
	return f, nil
}

// next takes one part; nil when there is none.
func (q *queue) next() (p *transaction.Part, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parts) == 0 {
		return nil, q.ended, q.err
	}
	p = q.parts[0]
	q.drop(1)
	return p, false, nil
}

func (q *queue) drop(n int) {
	for i := range n {
		q.bytes -= q.parts[i].Bytes + partOverhead
		q.parts[i] = nil
	}
	q.parts = q.parts[n:]
	if !q.until.IsZero() {
		q.until = position.FilePos{}
	}
	signal(q.room)
}

// wake makes the taker look again.
func (q *queue) wake() { signal(q.news) }

// waiting says that there is something to take.
func (q *queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.parts) > 0
}
