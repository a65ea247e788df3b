package shardmove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// Status is where the move of a shard stands.
type Status struct {
	Shard    string          `json:"shard"`
	Document *state.Shard    `json:"state"`
	Holder   string          `json:"lease_holder,omitempty"`
	Traffic  string          `json:"traffic"` // legacy, vitess, or what is wrong
	Sync     *SyncStatus     `json:"stream,omitempty"`
	Back     *BackStatus     `json:"stream_back,omitempty"`
	Next     string          `json:"next"`
	Refusals []guard.Finding `json:"refusals,omitempty"` // of the next step, a cutover
	// Problems are what could not be found out, and why.
	Problems []string `json:"problems,omitempty"`
}

// statusTimeout bounds asking the servers: a status is asked for when something is down.
const statusTimeout = 15 * time.Second

// Status asks everybody and never fails for one who does not answer.
func (m *Move) Status(ctx context.Context) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	defer m.atWork(fmt.Sprintf("asking the servers, up to %s", statusTimeout))()
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	if err != nil {
		return nil, err
	}
	s := &Status{Shard: m.show, Document: doc, Traffic: "unknown"}
	problem := func(what string, err error) {
		if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	s.Holder, err = m.store.Holder(ctx, m.keyspace)
	problem("lease", err)
	sw, err := m.route(ctx)
	if err == nil {
		var served route.Traffic
		if served, err = sw.Served(ctx, m.id); err == nil {
			s.Traffic = string(served)
		}
	}
	problem("mains", err)
	if doc.Stream != nil && (doc.Phase == state.Syncing || doc.Phase == state.Validated) {
		s.Sync, err = m.SyncStatus(ctx)
		problem("stream", err)
	}
	if backwards(doc) {
		s.Back, err = m.backStatus(ctx, doc, 2*time.Second)
		problem("stream back", err)
		open, err := m.reopened(ctx)
		problem("legacy", err)
		for _, name := range slices.Sorted(maps.Keys(open)) {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: found %s: somebody opened it, and what is written there is not on the landing", name, open[name]))
		}
		if s.Back != nil && s.Back.Alarm != "" {
			s.Problems = append(s.Problems, s.Back.Alarm)
		}
	}
	if next := engine.Next(doc.Phase); next != "" {
		s.Next = string(next) + " " + m.id.String()
		if next == engine.Complete {
			s.Next += " --confirm " + m.id.String()
			switch {
			case s.Back == nil:
			case s.Back.State == string(stream.Failed):
				s.Next += " --one-way, or mend what stopped the stream back and diff --reverse " + m.id.String()
			default:
				s.Next = fmt.Sprintf("diff --reverse %s, then %s; or rollback %s --confirm %s", m.id, s.Next, m.id, m.id)
			}
		}
		if next == engine.Cutover {
			s.Next += " --confirm " + m.id.String()
			o := CutoverOptions{Confirm: m.id.String()}
			observed, err := m.observe(ctx, doc, o)
			problem("refusals of the cutover", err)
			if err == nil {
				s.Refusals = guard.Refusals(observed)
			}
		}
	}
	if doc.Phase == state.Aborted {
		s.Problems = append(s.Problems, "the last move was aborted; the next begins anew")
	}
	return s, nil
}

// Listed is a line of the list of shards.
type Listed struct {
	Shard    shardid.ID        `json:"shard"`
	Keyspace string            `json:"keyspace"`
	Phase    state.Phase       `json:"phase"`
	Database string            `json:"database"`
	Sides    map[string]string `json:"sides"`
	Next     string            `json:"next"`
}

// List reads the phase of every shard of the configuration.
func List(ctx context.Context, cfg *config.Config) ([]Listed, error) {
	fleet, err := vitess.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	store, err := state.Open(ctx, fleet.Topo())
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, s := range cfg.Shards {
		ks := cfg.Landing.Keyspace.Keyspace(s.Number.ID)
		doc, _, err := store.Load(ctx, s.Number.ID, ks)
		if err != nil {
			return nil, err
		}
		next := string(engine.Next(doc.Phase))
		list = append(list, Listed{Shard: s.Number.ID, Keyspace: ks, Phase: doc.Phase, Database: s.Database, Sides: s.Sides, Next: next})
	}
	return list, nil
}
