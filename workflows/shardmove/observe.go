package shardmove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
)

// observe asks every server what the refusals need to know. A server that cannot be asked is
// an error: a guard that could not look must not be taken for one that found nothing.
func (m *Move) observe(ctx context.Context, doc *state.Shard, o CutoverOptions) (*guard.Observed, error) {
	defer m.atWork("asking the servers for what would refuse a switch")()
	out, err := m.observePair(ctx, doc, o)
	if err != nil {
		return nil, err
	}
	if err := m.observeLanding(ctx, doc, out); err != nil {
		return nil, err
	}
	if out.OneWay = o.OneWay; !o.OneWay && !out.NoLanding {
		if out.LacksBack, err = m.lacksBack(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// observePair asks both sides, and mains.
func (m *Move) observePair(ctx context.Context, doc *state.Shard, o CutoverOptions) (*guard.Observed, error) {
	out, err := m.observation(doc, o)
	if err != nil {
		return nil, err
	}
	if err := m.observeLegacy(ctx, out); err != nil {
		return nil, err
	}
	maps, err := m.mains(ctx)
	if err != nil {
		return nil, err
	}
	out.Places, err = maps.Where(ctx, m.id)
	return out, err
}

// observation is what is known without asking a server.
func (m *Move) observation(doc *state.Shard, o CutoverOptions) (*guard.Observed, error) {
	before, err := m.legacyPlaces(m.id)
	if err != nil {
		return nil, err
	}
	after, err := m.vitessPlaces(m.id)
	if err != nil {
		return nil, err
	}
	out := &guard.Observed{
		Shard: m.id, Template: m.cfg.Landing.Keyspace, Keyspace: m.keyspace, Database: m.shard.Database, Now: time.Now(),
		Confirm: o.Confirm, MaxAge: m.cfg.Limits.MaxAge, MaxLag: m.cfg.Limits.MaxLag,
		Certificate: doc.Certificate, CertificateVoid: doc.CertificateVoid, AcceptedDrift: doc.AcceptedDrift,
		WantTablets: m.cfg.Landing.Tablets, Connection: m.streamSource(doc),
		Legacy: before, Vitess: after, PreparedXA: map[string][]string{}, Piercing: map[string][]string{}, Lag: -1,
	}
	if o.MaxAge > 0 {
		out.MaxAge = o.MaxAge
	}
	if o.MaxLag > 0 {
		out.MaxLag = o.MaxLag
	}
	if h := doc.Hold; h != nil {
		out.Hold = fmt.Sprintf("%s (%s, %s)", h.Why, h.Who, h.At.Format(time.RFC3339))
	}
	return out, nil
}

func (m *Move) observeLegacy(ctx context.Context, out *guard.Observed) error {
	a, b, err := m.pair(ctx)
	if err != nil {
		return err
	}
	for _, side := range []*legacy.Server{a, b} {
		id, err := side.Identity(ctx)
		if err != nil {
			return err
		}
		tables, err := schema.Read(ctx, side.DB(), m.shard.Database)
		if err != nil {
			return fmt.Errorf("%s: %w", side.Name(), err)
		}
		if side.Side() == config.SideA {
			out.A, out.SchemaA = server(id), tables.Digest()
		} else {
			out.B, out.SchemaB = server(id), tables.Digest()
		}
		if out.PreparedXA[side.Name()], err = side.PreparedXA(ctx); err != nil {
			return err
		}
		if out.Piercing[side.Name()], err = side.Piercing(ctx, m.cfg.Legacy.Exempt); err != nil {
			return err
		}
	}
	return nil
}

func (m *Move) observeLanding(ctx context.Context, doc *state.Shard, out *guard.Observed) error {
	exists, err := m.landing.Exists(ctx)
	if err != nil || !exists {
		out.NoLanding = err == nil
		return err // what there is not refuses by its absence
	}
	tablets, err := m.landing.Tablets(ctx)
	if err != nil {
		return err
	}
	out.Tablets = make([]guard.Tablet, len(tablets))
	group, gctx := errgroup.WithContext(ctx)
	for i, t := range tablets {
		group.Go(func() error {
			seen, err := m.observeTablet(gctx, t)
			out.Tablets[i] = seen
			return err
		})
	}
	group.Go(func() (err error) {
		out.Fenced, err = m.landing.Fenced(gctx)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	primary, err := m.landing.Primary(ctx)
	if err != nil {
		return err
	}
	out.PrimaryAlias, out.PrimaryUUID = primary.Alias, primary.ServerUUID
	if out.SchemaTarget, err = m.targetDigest(ctx, primary); err != nil {
		return err
	}
	if out.SemiSyncHave, out.SemiSyncNeed, err = m.landing.SemiSyncReady(ctx); err != nil {
		return err
	}
	var own int64
	if doc.Stream != nil && doc.Seed != nil {
		if own, err = m.observeStream(ctx, doc, out); err != nil {
			return err
		}
	}
	// A shard lock that ctx itself carries is not somebody else's.
	out.Automation, err = m.landing.Automation(ctx, own)
	return err
}

func (m *Move) observeTablet(ctx context.Context, t vitess.Tablet) (guard.Tablet, error) {
	seen := guard.Tablet{Alias: t.Alias, ServerUUID: t.ServerUUID, Problem: t.Problem}
	if t.Problem != "" {
		return seen, nil
	}
	r, err := m.readRecord(ctx, t)
	if errors.Is(err, seed.ErrNoRecord) {
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	seen.Seed = &guard.SeedRecord{Shard: r.Shard, Keyspace: r.Keyspace, Database: r.Database, UUIDA: r.ServerA.ServerUUID, UUIDB: r.ServerB.ServerUUID, Position: r.Position}
	return seen, nil
}

func (m *Move) targetDigest(ctx context.Context, primary vitess.Tablet) (string, error) {
	acc, err := m.landingAccount()
	if err != nil {
		return "", err
	}
	db, err := m.landing.Connect(ctx, primary, acc, m.shard.Database)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	tables, err := schema.Read(ctx, db, m.shard.Database)
	if err != nil {
		return "", fmt.Errorf("landing %s: tablet %s: %w", m.keyspace, primary.Alias, err)
	}
	return tables.Digest(), nil
}

// observeStream fills in the stream and its lag, and says which stream is ours.
func (m *Move) observeStream(ctx context.Context, doc *state.Shard, out *guard.Observed) (int64, error) {
	st, err := m.stream(doc).Status(ctx)
	if err != nil {
		return 0, err
	}
	out.Stream = guard.Stream{State: string(st.State), Message: st.Message, ID: st.ID, Source: st.Source, Start: st.StartPosition, Taints: len(doc.Stream.Taints)}
	// Ids of the two kinds are not of one kind: every stream of Vitess' is somebody else's
	// where ours is none of them.
	own := doc.Stream.ID
	if doc.Stream.Kind != state.VReplication {
		own = 0
	}
	// Measuring the lag writes a heartbeat: never on a server that is not the one that was
	// seeded from. Another refusal speaks of that; this one says that the lag is not known.
	if out.A.ServerUUID != doc.Seed.SourceA.ServerUUID {
		return own, nil
	}
	if lag, err := m.lag(ctx, doc, out.MaxLag+time.Second); err == nil {
		out.Lag = lag
	}
	return own, nil
}
