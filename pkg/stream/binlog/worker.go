package binlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vifl/vifl/pkg/stream"
)

const (
	// defaultTakeover is after how long without a sign of life a worker counts as gone.
	defaultTakeover = 6 * time.Second
	// defaultLimit is how many bytes of changes a batch may have.
	defaultLimit = 4 << 20
	// defaultRows is how many changes of rows a batch may have.
	defaultRows = 10_000
	// defaultConnections apply a batch.
	defaultConnections = 4
	// backoffMin and backoffMax lie between two attempts after a failure that may pass.
	backoffMin = 100 * time.Millisecond
	backoffMax = 5 * time.Second
)

// Options are a worker's.
type Options struct {
	// Limit is about how many bytes of changes are read ahead, and how many one batch has;
	// default 4 MiB each. Rows bounds a batch too; default 10,000.
	Limit, Rows int
	// Connections apply a batch of many changes; default 4.
	Connections int
	// Takeover is after how long without a sign of life a worker counts as gone; default
	// 6 s. The same for all workers of a stream.
	Takeover time.Duration
	// Throttle is asked before each batch how long to wait, and why. Without an answer the
	// stream slows down. A batch on the way to a place to stop at is not throttled: others
	// wait for it.
	Throttle func(context.Context) (wait time.Duration, why string, err error)
	// Name is what people call the worker; default the host and the process.
	Name string
}

// Worker applies one stream. Run it once at a time.
type Worker struct {
	stream *Stream
	o      Options
}

// NewWorker makes a worker of the stream. It does nothing.
func NewWorker(s *Stream, o Options) *Worker {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.Rows <= 0 {
		o.Rows = defaultRows
	}
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.Takeover <= 0 {
		o.Takeover = defaultTakeover
	}
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Name = fmt.Sprintf("%s, process %d", host, os.Getpid())
	}
	return &Worker{stream: s, o: o}
}

var (
	// errLost is the end of a claim: another worker has the stream, or somebody stopped it
	// because this one seemed to be gone.
	errLost = errors.New("another worker has taken the stream over")
	// errAbandoned as the cause of a context's end leaves the claim behind, as a process
	// that is killed does.
	errAbandoned = errors.New("abandoned")
)

// Run does the work. While another worker has the stream it waits as its standby. It
// returns nil when ctx ends, having released the stream so that the next worker need not
// wait; stream.ErrAbsent when there is no stream, or none any more; and stream.ErrWrongServer
// when the source's address leads to another server: the stream is then left as it was.
func (w *Worker) Run(ctx context.Context) error {
	for {
		c, err := w.claim(ctx)
		if err != nil {
			return w.end(ctx, err)
		}
		err = c.work(ctx)
		if !errors.Is(context.Cause(ctx), errAbandoned) {
			c.release(ctx)
		}
		if err := w.end(ctx, err); err == nil || errors.Is(err, stream.ErrAbsent) {
			return err
		}
	}
}

func (w *Worker) end(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, stream.ErrAbsent):
		return w.stream.errorf("%w", stream.ErrAbsent)
	}
	return err
}

// sleep waits for d, or until ctx ends; false then.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func newToken() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("random token: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
