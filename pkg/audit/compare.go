package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
)

// Verdict says how a query's plan changed.
type Verdict string

// The verdicts.
const (
	Better Verdict = "better"
	Worse  Verdict = "worse"
	Same   Verdict = "same"
)

// Comparison is two results side by side: the same queries on two vschemas. Queries are matched
// by their normalised text, and weighted by the calls of the second.
type Comparison struct {
	Version int     `json:"version"`
	A       Summary `json:"a"`
	B       Summary `json:"b"`
	// Queries are those whose plan changed, the heaviest first.
	Queries []Change `json:"queries"`
	// Same, Better and Worse are sums over the queries that both have.
	Same   Weight `json:"same"`
	Better Weight `json:"better"`
	Worse  Weight `json:"worse"`
	// OnlyA and OnlyB are queries that one result has only: not compared.
	OnlyA Weight `json:"only_a"`
	OnlyB Weight `json:"only_b"`
	// WorsePercent is the share of the compared calls that got worse.
	WorsePercent float64 `json:"worse_percent"`
}

// Summary names a side of a comparison.
type Summary struct {
	Name   string         `json:"name"`
	Shards map[string]int `json:"shards"`
	Totals Totals         `json:"totals"`
}

// Change is a query whose plan is another one.
type Change struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	Verdict Verdict `json:"verdict"`
	Calls   uint64  `json:"calls"`
	Seconds float64 `json:"seconds"`
	A       Side    `json:"a"`
	B       Side    `json:"b"`
}

// Side is a query's plan on one side.
type Side struct {
	Class        string   `json:"class"`
	Vindexes     []string `json:"vindexes,omitempty"`
	Shards       int      `json:"shards"`
	ShardQueries float64  `json:"shard_queries_per_call"`
	Reason       string   `json:"reason,omitempty"`
}

// ReadResult reads a result from JSON.
func ReadResult(r io.Reader, name string) (*Result, error) {
	var out Result
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return nil, fmt.Errorf("%s: found no result of an audit (%w), expected what vifl audit --output json prints", name, err)
	}
	if out.Version != Version {
		return nil, fmt.Errorf("%s: found version %d, expected %d: audit again with this vifl", name, out.Version, Version)
	}
	return &out, nil
}

// Compare lays two results side by side.
func Compare(a, b *Result, nameA, nameB string) (*Comparison, error) {
	if a.Target != b.Target {
		return nil, fmt.Errorf("%s is an audit of %s, %s of %s: expected two of the same", nameA, a.Target, nameB, b.Target)
	}
	c := &Comparison{
		Version: Version, Queries: []Change{},
		A: Summary{Name: nameA, Shards: a.Shards, Totals: a.Totals},
		B: Summary{Name: nameB, Shards: b.Shards, Totals: b.Totals},
	}
	before := map[string]Query{}
	for _, q := range a.Queries {
		before[q.Text] = q
	}
	for _, q := range b.Queries {
		old, ok := before[q.Text]
		if !ok {
			c.OnlyB.add(q)
			continue
		}
		delete(before, q.Text)
		verdict := compare(old, q)
		switch verdict {
		case Better:
			c.Better.add(q)
		case Worse:
			c.Worse.add(q)
		default:
			c.Same.add(q)
			continue
		}
		c.Queries = append(c.Queries, Change{ID: q.ID, Text: q.Text, Verdict: verdict, Calls: q.Calls, Seconds: q.Seconds, A: side(old), B: side(q)})
	}
	for _, q := range before {
		c.OnlyA.add(q)
	}
	c.WorsePercent = percent(float64(c.Worse.Calls), float64(c.Worse.Calls+c.Better.Calls+c.Same.Calls))
	sort.Slice(c.Queries, func(i, j int) bool {
		x, y := c.Queries[i], c.Queries[j]
		if x.Verdict != y.Verdict {
			return x.Verdict == Worse
		}
		if x.Calls != y.Calls {
			return x.Calls > y.Calls
		}
		return x.Text < y.Text
	})
	return c, nil
}

func (w *Weight) add(q Query) {
	w.Queries++
	w.Calls += q.Calls
	w.Seconds += q.Seconds
	w.Rows += q.Rows
}

func side(q Query) Side {
	return Side{Class: string(q.Class), Vindexes: q.Vindexes, Shards: q.Shards, ShardQueries: q.ShardQueries, Reason: q.Reason}
}

// tolerance is the difference in shard queries for one call below which plans are the same.
const tolerance = 0.005

// compare judges by the class first, then by the shard queries of a call.
func compare(a, b Query) Verdict {
	switch {
	case b.Class.Rank() < a.Class.Rank():
		return Better
	case b.Class.Rank() > a.Class.Rank():
		return Worse
	case math.Abs(a.ShardQueries-b.ShardQueries) <= tolerance:
		return Same
	case b.ShardQueries < a.ShardQueries:
		return Better
	}
	return Worse
}
