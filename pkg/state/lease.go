package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"sync"
	"time"

	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/shardid"
)

// leaseTTL is how long a dead owner keeps others out. Shorter, and a garbage collection or
// a slow topo server loses the lease in the middle of a freeze; longer, and the shard of a
// crashed vifl stays frozen while the next one waits.
const leaseTTL = 10 * time.Second

// checkEvery is how often the owner proves to itself that it still has the lease; it gives
// up after leaseTTL-2*checkEvery without proof, before the topo server would let another in.
const checkEvery = 2 * time.Second

// updateTimeout bounds one write of the document.
const updateTimeout = 10 * time.Second

// ErrHeld means that another vifl works on the shard.
var ErrHeld = errors.New("another vifl holds the shard")

// Lease is the right to work on a shard. Its context ends when the lease is lost.
type Lease struct {
	store   *Store
	lock    topo.LockDescriptor
	cancel  context.CancelCauseFunc
	done    chan struct{}
	who     string
	writing sync.Mutex // one Update at a time; taken before mu
	mu      sync.Mutex // covers doc, version and proven, never held while anything is called
	proven  time.Time  // the lease was ours then
	doc     *Shard
	version topo.Version
}

// holder is what the lock's file says of its owner.
type holder struct {
	Who   string    `json:"who"`
	Verb  string    `json:"verb"`
	Since time.Time `json:"since"`
}

func (h holder) String() string {
	return fmt.Sprintf("%s (vifl %s since %s)", h.Who, h.Verb, h.Since.Format(time.RFC3339))
}

// Whoami is user@host, as histories and locks show it.
func Whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s", name, host)
}

// Acquire takes the lease of a shard, waiting up to wait for another owner to end (a
// killed one is let go after ten seconds). It raises the epoch. waiting is told once, in
// words, when there is somebody to wait for.
func (s *Store) Acquire(ctx context.Context, id shardid.ID, keyspace, verb string, wait time.Duration, waiting func(string)) (context.Context, *Lease, error) {
	// The topo server locks folders that exist: make sure that there is one, without
	// touching a document that is there.
	doc, version, err := s.Load(ctx, id, keyspace)
	if err != nil {
		return nil, nil, err
	}
	if version == nil {
		if _, err := s.save(ctx, doc, nil); err != nil && !errors.Is(err, ErrConflict) {
			return nil, nil, err
		}
	}
	me := holder{Who: fmt.Sprintf("%s pid %d", Whoami(), os.Getpid()), Verb: verb, Since: time.Now().UTC()}
	contents, err := json.Marshal(me)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the lease: %w", err)
	}
	var other string
	if h, err := s.Holder(ctx, keyspace); err == nil && h != "" {
		other = h
		waiting(fmt.Sprintf("waiting up to %s for the lease of %s, held by %s", wait, keyspace, h))
	}
	// The lease's keep-alive lives as long as the context it was taken with, so the wait
	// must be bounded by something else than a deadline of that context.
	leaseCtx, cancel := context.WithCancelCause(ctx)
	if other == "" {
		// Nobody yet: another may still be quicker, and a wait must not be silent.
		late := time.AfterFunc(time.Second, func() {
			if h, err := s.holder(ctx, keyspace, &me); err == nil && h != "" {
				waiting(fmt.Sprintf("waiting up to %s for the lease of %s, held by %s", wait, keyspace, h))
			}
		})
		defer late.Stop()
	}
	timer := time.AfterFunc(wait, func() { cancel(context.DeadlineExceeded) })
	asked := time.Now()
	lock, err := s.conn.LockWithTTL(leaseCtx, dir(keyspace), string(contents), leaseTTL)
	if err == nil && !timer.Stop() {
		<-leaseCtx.Done()
		err = context.Cause(leaseCtx)
	}
	if err != nil {
		cancel(err)
		if ctx.Err() == nil && (topo.IsErrType(err, topo.Timeout) || topo.IsErrType(err, topo.Interrupted) || errors.Is(err, context.DeadlineExceeded)) {
			if h, herr := s.holder(ctx, keyspace, &me); herr == nil && h != "" {
				other = h
			}
			return nil, nil, fmt.Errorf("shard %s (%s): %w: %s; waited %s: let it end, or stop it, and run this again", id, keyspace, ErrHeld, other, wait)
		}
		return nil, nil, fmt.Errorf("shard %s (%s): take its lease: %w", id, keyspace, err)
	}
	l := &Lease{store: s, lock: lock, cancel: cancel, done: make(chan struct{}), who: Whoami(), proven: asked}
	go l.watch(leaseCtx)
	l.doc, l.version, err = s.Load(ctx, id, keyspace)
	if err == nil {
		err = l.Update(leaseCtx, func(d *Shard) { d.Epoch++ })
	}
	if err != nil {
		l.Release()
		return nil, nil, err
	}
	return leaseCtx, l, nil
}

// Holder says who holds the lease of a shard, empty for nobody.
func (s *Store) Holder(ctx context.Context, keyspace string) (string, error) {
	return s.holder(ctx, keyspace, nil)
}

// holder is Holder for one who waits, and is not the holder.
func (s *Store) holder(ctx context.Context, keyspace string, waiter *holder) (string, error) {
	folder := path.Join(dir(keyspace), "locks")
	entries, err := s.conn.ListDir(ctx, folder, true)
	if topo.IsErrType(err, topo.NoNode) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: look for the holder of its lease: %w", keyspace, err)
	}
	// Those who wait have a file there too: the one that came first has the lease. Two that
	// came at one instant by their clocks may have got it in the other order: then a waiter
	// must not find itself.
	var first *holder
	for _, e := range entries {
		raw, _, err := s.conn.Get(ctx, path.Join(folder, e.Name))
		if err != nil {
			continue // gone in between
		}
		var h holder
		if json.Unmarshal(raw, &h) == nil && (waiter == nil || h.String() != waiter.String()) && (first == nil || h.Since.Before(first.Since)) {
			first = &h
		}
	}
	if first == nil {
		return "", nil
	}
	return first.String(), nil
}

func (l *Lease) watch(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkEvery):
		}
		if err := l.check(ctx); err != nil && time.Since(l.lastProof()) > leaseTTL-2*checkEvery {
			l.cancel(fmt.Errorf("the lease of %s was lost: %w", l.doc.Keyspace, err))
			return
		}
	}
}

// check asks the topo server, which also renews the lease.
func (l *Lease) check(ctx context.Context) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	if err := l.lock.Check(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked.After(l.proven) {
		l.proven = asked
	}
	return nil
}

func (l *Lease) lastProof() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proven
}

// Prove returns nil when the lease is certainly still ours: it was proven less than a second
// ago, or the topo server says so now. While that does not answer, the last proof counts for
// as long as nobody else can have the lease.
func (l *Lease) Prove(ctx context.Context) error {
	for {
		if time.Since(l.lastProof()) < time.Second {
			return nil
		}
		err := l.check(ctx)
		switch {
		case err == nil:
			return nil
		case topo.IsErrType(err, topo.NoNode):
			return fmt.Errorf("the lease of %s was lost: %w", l.Doc().Keyspace, err)
		case time.Since(l.lastProof()) < leaseTTL-2*checkEvery:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the lease of %s cannot be proven: the topo server does not answer: %w", l.Doc().Keyspace, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Doc is a copy of the document as last written.
func (l *Lease) Doc() Shard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.doc
}

// Epoch is this ownership's number.
func (l *Lease) Epoch() uint64 { return l.Doc().Epoch }

// Update changes the document and writes it. On an error the copy in memory is unchanged.
// The change works on a shallow copy: it must replace slices and pointers, not write
// through them.
func (l *Lease) Update(ctx context.Context, change func(*Shard)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	// Not under mu: a change that asks for Doc or Epoch would wait for itself for ever.
	next := l.Doc()
	change(&next)
	next.Owner = l.who
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("shard %s (%s): write its state: %w", next.Shard, next.Keyspace, err)
	}
	// A write that is cut off may have been taken: its version would not be known, and every
	// later write, the notes of an undo too, would be refused as somebody else's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateTimeout)
	defer cancel()
	version, err := l.store.save(ctx, &next, l.version)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doc, l.version = &next, version
	return nil
}

// Record appends to the shard's history.
func (l *Lease) Record(ctx context.Context, e Event) error {
	e.Who = l.who
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	return l.store.Append(ctx, l.Doc().Keyspace, e)
}

// Release gives the lease back; the shard is free at once.
func (l *Lease) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.lock.Unlock(ctx) // a lease that is not given back ends by itself
	l.cancel(context.Canceled)
	<-l.done
}
