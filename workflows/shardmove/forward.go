package shardmove

import (
	"context"
	"errors"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/binlog"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/vreplication"
)

// streamSide is the side whose binlog the landing follows: a, which has b's writes in its
// own binlog by log_replica_updates.
const streamSide = config.SideA

// streamKind is what the shard is moved by: the stream that is there, or the one that the
// last preflight picked; empty when there was neither.
func streamKind(doc *state.Shard) string {
	switch {
	case doc.Stream != nil:
		return doc.Stream.Kind
	case doc.Preflight != nil:
		return doc.Preflight.Stream
	}
	return ""
}

// stream is the forward stream of the shard, from the server it was seeded from.
func (m *Move) stream(doc *state.Shard) stream.Stream {
	if streamKind(doc) == state.Binlog {
		return m.binlog(doc)
	}
	return vreplication.New(m.landing, m.id, m.cfg.ExternalConnection(m.id, streamSide), m.shard.Database, doc.Seed.SourceA.ServerUUID, vreplication.WithSource(m.source))
}

// binlog is the handle of vifl's own stream.
func (m *Move) binlog(doc *state.Shard) *binlog.Stream {
	return binlog.New(m.primary.get, "vifl_"+m.id.String(), m.shard.Database, dump.Source{Target: m.source, Server: doc.Seed.SourceA.ServerUUID})
}

// streamSource is what the stream reads, as people configured it.
func (m *Move) streamSource(doc *state.Shard) string {
	if streamKind(doc) == state.Binlog {
		return m.source.String()
	}
	return m.cfg.ExternalConnection(m.id, streamSide)
}

// work runs a worker of the shard's binlog stream in this process until stop is called: a
// verb must not depend on a vifl serve that is not there. While there is one, this worker is
// its standby. Vitess' own stream has its worker in the tablet.
func (m *Move) work(ctx context.Context, doc *state.Shard) (stop func()) {
	run := m.worker(doc)
	if run == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// What goes wrong with the stream stands in its status; one that is not there any
		// more was deleted by the verb.
		if err := run(ctx); err != nil && !errors.Is(err, stream.ErrAbsent) {
			m.reporter.Note("the worker of the stream ended: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// worker is the work there is for a shard's stream of vifl's own, in whichever direction;
// nil for none.
func (m *Move) worker(doc *state.Shard) func(context.Context) error {
	switch {
	case backwards(doc):
		return binlog.NewWorker(m.back(), binlog.Options{Throttle: m.throttle(doc).wait}).Run
	case doc.Phase != state.Switched && doc.Stream != nil && doc.Seed != nil && doc.Stream.Kind == state.Binlog:
		return binlog.NewWorker(m.binlog(doc), binlog.Options{Throttle: m.throttle(doc).wait}).Run
	}
	return nil
}

// verifier is a stream that reads its server through somebody else's connection, which must
// be proven to lead to the server that is meant.
type verifier interface {
	Verify(ctx context.Context) error
}

// expecter is a stream that carries orders out faster when it is told that some will come.
type expecter interface {
	Expect(ctx context.Context) error
}
