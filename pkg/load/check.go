package load

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// readers is how many batches are read at once.
	readers = 4
	// batchKeys is how many rows one SELECT asks for: far below the 10,000 rows to which a
	// tablet cuts a result by default.
	batchKeys = 500
)

// batch is some keys of one table of one shard.
type batch struct {
	group
	entries []*entry
}

// verdictOf is what was found about one key.
type verdictOf struct {
	problems []Problem
	present  bool // on the servers that must have the last state
	applied  bool // of an unknown write
}

// check reads every row, and those that are not right again, until they are or the wait is
// over.
func (v *verifier) check(ctx context.Context) error {
	deadline := time.Now().Add(v.options.Wait)
	todo := v.batches()
	for pause := 100 * time.Millisecond; len(todo) > 0; pause = min(2*pause, 2*time.Second) {
		last := !time.Now().Before(deadline)
		var mu sync.Mutex
		var left []batch
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readers)
		for _, b := range todo {
			g.Go(func() error {
				found, err := v.readAll(gctx, b)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				again := batch{group: b.group}
				for i, e := range b.entries {
					d := v.decide(b.group, e, found[i])
					if len(d.problems) > 0 && !last {
						again.entries = append(again.entries, e)
						continue
					}
					v.settle(e, d)
				}
				if len(again.entries) > 0 {
					left = append(left, again)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if todo = left; len(todo) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("verify: while rows are read again: %w", ctx.Err())
		case <-time.After(min(pause, max(time.Until(deadline), time.Millisecond))):
		}
	}
	return nil
}

// batches cuts the book into batches, in the order of keys, and lists the shards.
func (v *verifier) batches() []batch {
	var out []batch
	keys := map[*shard]int{}
	for g, entries := range v.book.entries {
		all := make([]*entry, 0, len(entries))
		for _, e := range entries {
			all = append(all, e)
		}
		sort.Slice(all, func(i, j int) bool { return all[i].key < all[j].key })
		keys[v.shards[g.shard]] += len(all)
		for len(all) > 0 {
			n := min(batchKeys, len(all))
			out = append(out, batch{g, all[:n]})
			all = all[n:]
		}
	}
	for id, s := range v.shards {
		r := ShardResult{Shard: id, Served: s.served, Keys: keys[s]}
		for _, srv := range s.servers {
			r.Servers = append(r.Servers, srv.name)
		}
		v.result.Shards = append(v.result.Shards, r)
	}
	sort.Slice(v.result.Shards, func(i, j int) bool { return v.result.Shards[i].Shard < v.result.Shards[j].Shard })
	return out
}

func (v *verifier) settle(e *entry, d verdictOf) {
	for _, p := range d.problems {
		v.problem(p)
	}
	if len(d.problems) > 0 {
		return
	}
	if d.present {
		v.result.Found++
	} else {
		v.result.Gone++
	}
	if e.unknown && d.applied {
		v.result.Applied++
	} else if e.unknown {
		v.result.NotApplied++
	}
}

// decide compares one key's rows, found on each of the shard's servers, with the ledger.
func (v *verifier) decide(g group, e *entry, found []rows) verdictOf {
	s := v.shards[g.shard]
	var d verdictOf
	add := func(kind string, srv *server, found, expected string) {
		d.problems = append(d.problems, Problem{Kind: kind, Shard: g.shard, Server: srv.name, Table: g.table.name, Key: e.key, Found: found, Expected: expected})
	}
	// What the servers have that must have the last state, and which these are.
	var seen []state
	var at []*server
	for i, srv := range s.servers {
		f := found[i]
		if len(f) > 1 {
			add(Doubled, srv, fmt.Sprintf("%d rows", len(f)), "one at most")
			continue
		}
		var is state
		if len(f) == 1 {
			is = f[0].state
		}
		want, or := e.now, e.before
		// The last write went to the landing, and mains serves from there: the legacy was
		// left with what it acknowledged itself. (When mains serves from the legacy again,
		// the legacy must have everything, as where it follows the landing.)
		behind := srv.kind == onLegacy && e.onVitess && s.served != "legacy" && !v.options.Follows
		if behind {
			want, or = e.legacy, e.legacy
		} else {
			seen, at = append(seen, is), append(at, srv)
		}
		switch {
		case is == want || is == or:
		case behind && (is == e.now || is == e.before):
			add(Doubled, srv, is.String()+", which "+e.lastAcked+" took", want.String())
		case !is.present:
			add(Missing, srv, is.String(), expected(e, want, or))
		case !want.present && !or.present:
			add(Extra, srv, is.String(), expected(e, want, or))
		default:
			add(Changed, srv, is.String(), expected(e, want, or))
		}
		if is.present && e.id != 0 && f[0].id != e.id {
			add(Changed, srv, fmt.Sprintf("id %d", f[0].id), fmt.Sprintf("id %d", e.id))
		}
	}
	if len(d.problems) > 0 || len(seen) == 0 {
		return d
	}
	d.present, d.applied = seen[0].present, seen[0] == e.now
	for i, is := range seen {
		if is != seen[0] {
			add(Split, at[i], is.String(), "the same on all servers, as "+seen[0].String())
		}
	}
	return d
}

func expected(e *entry, want, or state) string {
	parts := []string{want.String()}
	if or != want {
		parts = append(parts, "or", or.String())
	}
	switch {
	case e.unknown:
		parts = append(parts, "(the reply of the last write was lost)")
	case e.rolled && !want.present:
		parts = append(parts, "(rolled back or refused)")
	}
	return strings.Join(parts, " ")
}
