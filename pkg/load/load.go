// Package load is the old application: clients that look a team's shard up in mains,
// connect to the side that the team prefers, and write. It writes down in a ledger what the
// servers acknowledged, measures how long each client waited, and can verify afterwards
// that every acknowledged write is where it must be, once, and nowhere else.
//
// It knows mains and the application's account, nothing of vifl or Vitess: after a switch
// mains names a vtgate, and the same code goes on there. Its own schema is package
// appschema's, its file package ledger's.
//
// Invariants, on which Verify rests:
//   - No two writers ever touch the same row; a row has one writer for life.
//   - A row whose last write has an unknown outcome is never touched again, so it has at
//     most two possible states.
//   - A key is never used twice, not even by a retry of an operation whose reply was lost.
//   - The ledger has the attempt before a server does.
package load

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/load/ledger"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// Options say what load to make.
type Options struct {
	// Mains is the MySQL that the application asks, as the application's account.
	Mains mysqlconn.Target
	// App is the application's account on whatever mains names.
	App mysqlconn.Account
	// Shards limits the load to the teams of these; all teams in mains when empty.
	Shards []shardid.ID
	// Writers is how many clients write at once; at most 512.
	Writers int
	// Rate is the operations a second of all writers together; 0 is as fast as it goes.
	Rate float64
	// Duration ends the load by itself; 0 is until Stop, or until the context ends.
	Duration time.Duration
	// Ledger is the file, appended to when it is there.
	Ledger string
	// Seed makes the choice of operations repeatable (not their keys, nor their timing).
	Seed uint64
}

// Run is a load under way.
type Run struct {
	options   Options
	id        string
	started   time.Time
	teams     []int64
	directory *directory
	servers   *servers
	ledger    *ledger.Writer
	stats     *stats

	stop     chan struct{} // closed: begin nothing new, retry nothing
	stopOnce sync.Once
	hard     context.Context // its end breaks off statements
	cancel   context.CancelFunc
	group    errgroup.Group
	finished chan struct{}
	err      error // these two readable after finished
	ended    time.Time
}

// Start reads the teams from mains, opens the ledger and starts the writers. The load ends
// when its Duration is over, at Stop, or when ctx ends, which is like Stop: what was sent is
// waited for.
func Start(ctx context.Context, o Options) (*Run, error) {
	if o.Writers < 1 || o.Writers > 512 || o.Rate < 0 || o.Ledger == "" {
		return nil, fmt.Errorf("load: found %d writers, rate %v, ledger %q, expected 1 to 512 writers, a rate of 0 or more and a file", o.Writers, o.Rate, o.Ledger)
	}
	db, err := mysqlconn.Connect(ctx, o.Mains, asApplication)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	db.SetMaxIdleConns(o.Writers)
	r := &Run{
		options: o, started: time.Now(), directory: newDirectory(db), servers: &servers{account: o.App, pools: map[string]*sql.DB{}},
		stop: make(chan struct{}), finished: make(chan struct{}), stats: newStats(o.Writers, time.Now()),
	}
	if r.teams, err = readTeams(ctx, db, o.Shards); err == nil {
		r.id, err = newRunID()
	}
	if err == nil {
		r.ledger, err = ledger.Open(o.Ledger, ledger.Header{Run: r.id, Started: r.started, Writers: o.Writers})
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("load: %w", err)
	}
	r.hard, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.begin(ctx)
	return r, nil
}

// newRunID is what tells the keys of one run from those of another.
func newRunID() (string, error) {
	var b [5]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("random name of the run: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

func (r *Run) begin(ctx context.Context) {
	base := mathrand.Uint64N(1024) // two loads at once hardly use the same nodes
	for n := range r.options.Writers {
		w := &writer{
			run: r, number: n, sessions: sessions{servers: r.servers, open: map[string]*session{}},
			gen: &generator{Rand: mathrand.New(mathrand.NewPCG(r.options.Seed, uint64(n))), run: r.id, node: (base + uint64(n)) & 1023},
		}
		r.group.Go(func() error {
			err := w.loop()
			if err != nil {
				r.requestStop()
			}
			return err
		})
	}
	var over <-chan time.Time
	if r.options.Duration > 0 {
		over = time.After(r.options.Duration)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-over:
		case <-r.stop:
		}
		r.requestStop()
	}()
	go func() {
		r.err = r.group.Wait()
		if err := r.ledger.Close(); r.err == nil {
			r.err = err
		}
		r.servers.close()
		_ = r.directory.db.Close()
		r.cancel()
		r.ended = time.Now()
		close(r.finished)
	}()
}

func (r *Run) requestStop() { r.stopOnce.Do(func() { close(r.stop) }) }

// sleep reports false as soon as the load is being stopped.
func (r *Run) sleep(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-r.stop:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.stop:
		return false
	case <-t.C:
		return true
	}
}

// Done is closed when all writers have ended.
func (r *Run) Done() <-chan struct{} { return r.finished }

// Mark begins a new window: waits and counts from now on are also counted by that name.
func (r *Run) Mark(name string) { r.stats.mark(name, time.Now()) }

// Snapshot is the load's numbers as of now.
func (r *Run) Snapshot() Summary {
	now := time.Now()
	select {
	case <-r.finished:
		now = r.ended
	default:
	}
	s := r.stats.snapshot(now)
	s.Ledger, s.Run, s.Started, s.Elapsed = r.options.Ledger, r.id, r.started, now.Sub(r.started)
	return s
}

// Stop lets every writer end the operation that it has sent, and waits for that. When ctx
// ends first, the connections are broken off, and those operations are unknown. The error
// is that of the ledger: the load itself has none that is not counted in the summary.
func (r *Run) Stop(ctx context.Context) (*Summary, error) {
	r.requestStop()
	return r.Wait(ctx)
}

// Wait waits until the load ends by itself. When ctx ends first, it is stopped at once.
func (r *Run) Wait(ctx context.Context) (*Summary, error) {
	select {
	case <-r.finished:
	case <-ctx.Done():
		r.requestStop()
		r.cancel()
		<-r.finished // bounded: every wait of a writer ends with r.hard
	}
	s := r.Snapshot()
	if r.err != nil {
		return &s, fmt.Errorf("load: %w", r.err)
	}
	return &s, nil
}
