package shardmove

import (
	"context"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/vreplication"
)

// streamSide is the side whose binlog the landing follows: a, which has b's writes in its
// own binlog by log_replica_updates.
const streamSide = config.SideA

// stream is the forward stream of the shard, from the server it was seeded from.
func (m *Move) stream(doc *state.Shard) stream.Stream {
	return vreplication.New(m.landing, m.id, m.cfg.ExternalConnection(m.id, streamSide), m.shard.Database, doc.Seed.SourceA.ServerUUID, vreplication.WithSource(m.source))
}

// verifier is a stream that reads its server through somebody else's connection, which must
// be proven to lead to the server that is meant.
type verifier interface {
	Verify(ctx context.Context) error
}
