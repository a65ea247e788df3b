package shardmove

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/vitess"
)

// serveLook is how often the state of a shard is read for whether it has a stream to work
// for; a shard that was just given one waits so long.
const serveLook = 2 * time.Second

// Serve runs the workers of the binlog streams of these shards, also of those whose stream
// is made later, until ctx ends. It takes no lease: verbs that hold one give orders to the
// streams, which any worker carries out, and a stream lets one worker at a time write. Many
// of these processes may run; one works, the others are its standbys.
func Serve(ctx context.Context, cfg *config.Config, shards []config.Shard, r Reporter) error {
	fleet, err := vitess.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer fleet.Close()
	var moves []*Move
	defer func() {
		for _, m := range moves {
			m.Close()
		}
	}()
	for _, shard := range shards {
		m, err := open(ctx, cfg, fleet, shard, r)
		if err != nil {
			return err
		}
		moves = append(moves, m)
	}
	var wg sync.WaitGroup
	for _, m := range moves {
		wg.Go(func() { m.serve(ctx) })
	}
	wg.Wait()
	return nil
}

// serve works for the shard's stream whenever there is one.
func (m *Move) serve(ctx context.Context) {
	failed := ""
	for {
		doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && (followed(doc) || backwards(doc)):
			err = m.serveStream(ctx, doc)
		}
		// One that keeps failing in one way says so once.
		if err == nil {
			failed = ""
		} else if err.Error() != failed {
			failed = err.Error()
			m.reporter.Note("%s: %v: trying again", m.show, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(serveLook):
		}
	}
}

// followed says whether the shard has a binlog stream that is wanted: not behind the switch.
func followed(doc *state.Shard) bool {
	return doc.Stream != nil && doc.Seed != nil && doc.Stream.Kind == state.Binlog && (doc.Phase == state.Syncing || doc.Phase == state.Validated)
}

// serveStream works until the stream is deleted, or the shard's state wants it no more.
func (m *Move) serveStream(ctx context.Context, doc *state.Shard) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wanted, from := followed, m.source.String()
	if backwards(doc) {
		wanted, from = backwards, m.landing.String()
	}
	m.reporter.Note("%s: following %s", m.show, from)
	done := make(chan error, 1)
	go func() { done <- m.worker(doc)(ctx) }()
	look := time.NewTicker(serveLook)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			if errors.Is(err, stream.ErrAbsent) {
				err = nil
			}
			m.reporter.Note("%s: no longer following", m.show)
			return err
		case <-look.C:
			// A topo server that does not answer is no reason to stop following.
			if now, _, err := m.store.Load(ctx, m.id, m.keyspace); err == nil && !wanted(now) {
				cancel()
			}
		}
	}
}
