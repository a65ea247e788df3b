package audit

import (
	"context"

	"vitess.io/vitess/go/sqltypes"

	"github.com/vifl/vifl/pkg/audit/planner"
)

// maxConnections bounds the connections that are followed at once. A log that never says that
// one ends grows beyond it; the oldest cannot be told, so any that has no transaction goes.
const maxConnections = 100_000

// tracker follows the transactions of all connections.
type tracker struct {
	planner     *planner.Planner
	connections map[string]*connection
	sum         Transactions
	seen        bool
}

func newTracker(p *planner.Planner) tracker {
	return tracker{planner: p, connections: map[string]*connection{}}
}

// connection is one client's. A log that begins in the middle of it is taken to begin outside
// of a transaction, with autocommit on.
type connection struct {
	open          bool
	autocommitOff bool
	touched       bool // a statement reached a shard
	first         place
	firstWrite    place
	otherID       bool // another keyspace id, on the same shard
	otherShard    bool
	otherWrite    bool // a write on another shard than firstWrite
	scatter       bool
	several       bool // one statement goes to several shards by itself
	unknown       bool
}

// place is where a statement went.
type place struct {
	keyspace string
	id       string // keyspace id, empty in an unsharded keyspace
	shard    int
}

func (c *connection) reset() { *c = connection{autocommitOff: c.autocommitOff} }

func (t *tracker) connection(name string) *connection {
	c := t.connections[name]
	if c == nil {
		if len(t.connections) >= maxConnections {
			for n, other := range t.connections {
				if !other.open {
					delete(t.connections, n)
				}
			}
			if len(t.connections) >= maxConnections {
				t.sum.Dropped += uint64(len(t.connections))
				clear(t.connections)
			}
		}
		c = &connection{}
		t.connections[name] = c
	}
	return c
}

// control follows BEGIN, COMMIT and their like. DDL and LOCK TABLES end a transaction, as does
// another BEGIN.
func (t *tracker) control(name string, what planner.Control) {
	if name == "" || what == planner.NoControl {
		return
	}
	t.seen = true
	c := t.connection(name)
	switch what {
	case planner.Begin:
		t.end(c)
		c.open = true
	case planner.Commit, planner.Rollback, planner.ImplicitCommit:
		t.end(c)
	case planner.AutocommitOff:
		c.autocommitOff = true
	case planner.AutocommitOn:
		t.end(c)
		c.autocommitOff = false
	}
}

// closed ends a connection and what it had open.
func (t *tracker) closed(name string) {
	if c := t.connections[name]; c != nil {
		t.end(c)
		delete(t.connections, name)
	}
}

// unknown notes a statement that nobody could read.
func (t *tracker) unknown(name string) {
	if c := t.connections[name]; c != nil && (c.open || c.autocommitOff) {
		c.unknown, c.touched = true, true
	}
}

// touch notes where a statement of an open transaction goes. values gives the vindex values of a
// part of the plan, nil when they cannot be told.
func (t *tracker) touch(ctx context.Context, name string, plan *planner.Plan, values func(part int) []sqltypes.Value) {
	t.seen = true
	c := t.connections[name]
	if c == nil || !(c.open || c.autocommitOff) {
		return
	}
	c.open = true
	for i, part := range plan.Parts {
		switch {
		case part.Lookup:
			// Lookup rows are mostly on another shard; vtgate writes them in transactions of its
			// own order (consistent_lookup) or in this one.
		case part.Anywhere():
		case part.Scatters():
			c.scatter, c.touched = true, true
			c.otherWrite = c.otherWrite || part.Writes
		case part.Unsharded():
			c.note(place{keyspace: part.Keyspace}, part.Writes)
		case part.Routed():
			id, ok := part.KeyspaceID(ctx, values(i))
			if !ok {
				c.unknown, c.touched = true, true
				continue
			}
			c.note(place{keyspace: part.Keyspace, id: id, shard: planner.ShardOf(id, t.planner.Shards(part.Keyspace))}, part.Writes)
		case t.planner.Shards(part.Keyspace) > 1:
			c.several, c.touched = true, true
			c.otherWrite = c.otherWrite || part.Writes
		default:
			c.note(place{keyspace: part.Keyspace}, part.Writes)
		}
	}
}

func (c *connection) note(p place, writes bool) {
	switch {
	case c.first.keyspace == "":
		c.first = p
	case c.first.keyspace != p.keyspace || c.first.shard != p.shard:
		c.otherShard = true
	case c.first.id != p.id:
		c.otherID = true
	}
	c.touched = true
	if !writes {
		return
	}
	if c.firstWrite.keyspace == "" {
		c.firstWrite = p
	} else if c.firstWrite.keyspace != p.keyspace || c.firstWrite.shard != p.shard {
		c.otherWrite = true
	}
}

// end counts the transaction of a connection, when it has one that reached a shard.
func (t *tracker) end(c *connection) {
	defer c.reset()
	if !c.touched {
		return
	}
	t.sum.Total++
	switch {
	case c.scatter:
		t.sum.Scattering++
	case c.several || c.otherShard:
		t.sum.Several++
	case c.unknown:
		t.sum.Unknown++
	case c.otherID:
		t.sum.OneShard++
	default:
		t.sum.OneValue++
	}
	if c.otherWrite {
		t.sum.SeveralWrites++
	}
}

func (t *tracker) result() *Transactions {
	for _, c := range t.connections {
		t.end(c)
	}
	if !t.seen {
		return nil
	}
	sum := t.sum
	sum.Percent = percent(float64(sum.OneValue+sum.OneShard), float64(sum.Total-sum.Unknown))
	return &sum
}
