package planner

import (
	"context"
	"strings"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vtgate/engine"
	"vitess.io/vitess/go/vt/vtgate/evalengine"
	"vitess.io/vitess/go/vt/vtgate/vindexes"
)

// Routed is true for parts that one value of a unique vindex routes to one shard.
func (p Part) Routed() bool { return p.opcode == engine.EqualUnique && !p.Lookup && !p.PerRow }

// Anywhere is true for parts that any shard can answer, or none.
func (p Part) Anywhere() bool {
	return p.opcode == engine.Reference || p.opcode == engine.DBA || p.opcode == engine.Next || p.opcode == engine.None
}

// Unsharded is true for parts in an unsharded keyspace.
func (p Part) Unsharded() bool { return p.opcode == engine.Unsharded }

// Scatters is true for parts that go to all shards.
func (p Part) Scatters() bool { return p.opcode == engine.Scatter }

// Variables are the bind variables that hold the values of a part's vindex columns, in their
// order; list is true when the only one holds a list. ok is false when a value is no bind
// variable: an expression, a column of another table, the next number of a sequence.
func (p Part) Variables() (names []string, list, ok bool) {
	for _, v := range p.values {
		switch v := v.IR().(type) {
		case *evalengine.BindVariable:
			if strings.HasPrefix(v.Key, "__") {
				return nil, false, false
			}
			names, list = append(names, v.Key), list || v.Type == sqltypes.Tuple
		case *evalengine.TupleBindVariable:
			names, list = append(names, v.Key), true
		default:
			return nil, false, false
		}
	}
	return names, list, len(names) > 0
}

// KeyspaceID is where the values of a part's vindex columns lead. ok is false when the vindex
// has to ask another table, or does not take the value.
func (p Part) KeyspaceID(ctx context.Context, values []sqltypes.Value) (id string, ok bool) {
	if p.vindex == nil || p.vindex.NeedsVCursor() || len(values) == 0 {
		return "", false
	}
	var to []key.ShardDestination
	var err error
	switch v := p.vindex.(type) {
	case vindexes.SingleColumn:
		to, err = v.Map(ctx, nil, values[:1])
	case vindexes.MultiColumn:
		to, err = v.Map(ctx, nil, [][]sqltypes.Value{values})
	default:
		return "", false
	}
	if err != nil || len(to) != 1 {
		return "", false
	}
	d, ok := to[0].(key.DestinationKeyspaceID)
	return string(d), ok
}

// ShardOf is the number of the shard, from 0, that has a keyspace id when a keyspace is cut into
// equal key ranges.
func ShardOf(id string, shards int) int {
	var n uint64
	for i := range 4 {
		n <<= 8
		if i < len(id) {
			n |= uint64(id[i])
		}
	}
	return int(n * uint64(shards) >> 32)
}

// UniqueKey is a unique key that MySQL enforces on each shard by itself only.
type UniqueKey struct {
	Table   string   `json:"table"` // keyspace.table
	Columns []string `json:"columns"`
	Primary bool     `json:"primary"`
}

// Listed is true for parts that a list of values routes.
func (p Part) Listed() bool {
	return !p.Lookup && !p.rows && (p.opcode == engine.IN || p.opcode == engine.MultiEqual)
}

// Null is true for an INSERT that gives no value to a column of the primary vindex: vtgate
// refuses it when it runs.
func (p Part) Null() bool { return p.null }
