package shardmove

import (
	"context"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
)

// certify writes down who was compared with whom. Everything is read from the servers now,
// not copied from the state: a certificate of what the state believes proves nothing.
func (m *Move) certify(ctx context.Context, doc *state.Shard, cut *legacy.Cut, cutAt time.Time, tablets openTablets, tables *schema.Schema, result, drift *diff.Report) (*cert.Certificate, error) {
	if len(drift.NotCompared) > 0 {
		return nil, m.noKeys(drift.NotCompared) // a guard against a mistake above: not all was compared
	}
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, err
	}
	idA, err := a.Identity(ctx)
	if err != nil {
		return nil, err
	}
	idB, err := b.Identity(ctx)
	if err != nil {
		return nil, err
	}
	st, err := m.stream(doc).Status(ctx)
	if err != nil {
		return nil, err
	}
	primary := tablets.primary()
	target, err := schema.Read(ctx, primary.db, m.shard.Database)
	if err != nil {
		return nil, fmt.Errorf("landing %s: tablet %s: %w", m.keyspace, primary.Alias, err)
	}
	c := &cert.Certificate{
		Shard: m.id, A: server(idA), B: server(idB), StreamedUUID: idA.ServerUUID, Cut: cut.Position, Inspected: cut.Position,
		Landing:      cert.Landing{Keyspace: m.keyspace, PrimaryAlias: primary.Alias, PrimaryUUID: primary.ServerUUID},
		Stream:       cert.Stream{ID: st.ID, Source: m.streamSource(doc), Start: st.StartPosition},
		SchemaSource: tables.Digest(), SchemaTarget: target.Digest(),
		CutAt: cutAt, Finished: time.Now(), Version: Version,
		Differing: result.Differing(), Drift: cert.Drift{Rows: drift.Rows, Differing: drift.Differing(), Rechecked: drift.Rechecked, Accepted: acceptedRows(doc, drift)},
	}
	for _, t := range tablets {
		c.Landing.Tablets = append(c.Landing.Tablets, cert.Tablet{Alias: t.Alias, ServerUUID: t.ServerUUID})
	}
	for _, t := range result.Tables {
		c.Tables = append(c.Tables, cert.Table{Name: t.Name, Rows: t.Rows, Sum: t.Sum})
	}
	if err := c.Seal(); err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	return c, nil
}
