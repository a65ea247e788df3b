// Package audit says what the queries of a log would do behind a vtgate: which go to one shard,
// which scatter, which Vitess does not support, what their transactions touch, and what is known
// to bite. Vitess' own parser and planner decide (package planner); this package weighs and sums.
//
// Memory is bounded by the number of distinct normalised queries (Options.MaxQueries) and of
// connections open at once, not by the length of the log.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"runtime/debug"
	"sort"

	"vitess.io/vitess/go/sqltypes"
	querypb "vitess.io/vitess/go/vt/proto/query"

	"github.com/vifl/vifl/pkg/audit/fingerprint"
	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/audit/querylog"
)

// DefaultMaxQueries is how many distinct normalised queries are told apart.
const DefaultMaxQueries = 10_000

// shapesPerQuery bounds the cache of fingerprints: some shapes are one query.
const shapesPerQuery = 4

// Options says what to audit against.
type Options struct {
	Planner  *planner.Planner
	Keyspace string
	// Landing is set for the queries of a legacy shard on an unsharded keyspace.
	Landing *Landing
	// MaxQueries bounds the distinct normalised queries; 0 for DefaultMaxQueries.
	MaxQueries int
	// Examples keeps one statement of each query with its values.
	Examples bool
	Inputs   []string
}

// Auditor takes the events of logs and sums them up. It is not for concurrent use.
type Auditor struct {
	o            Options
	scanner      fingerprint.Scanner
	shapes       map[string]*shape
	queries      map[string]*query
	transactions tracker
	cutOff       uint64
	beyond       uint64
	calls        uint64
}

// New makes an auditor.
func New(o Options) *Auditor {
	if o.MaxQueries <= 0 {
		o.MaxQueries = DefaultMaxQueries
	}
	return &Auditor{o: o, shapes: map[string]*shape{}, queries: map[string]*query{}, transactions: newTracker(o.Planner)}
}

// query is the sum over all calls of one normalised query.
type query struct {
	kind, text, example   string
	plan                  *planner.Plan
	remedies              []string
	findings              []string
	calls, timed, rows    uint64
	byLog                 uint64
	seconds, shardQueries float64
	least                 bool
}

// shape is what is known of all statements of one fingerprint.
type shape struct {
	q       *query // nil beyond the limit
	control planner.Control
	// lists are, for each part of the plan, the index of the fingerprint's list behind it, -1 for none.
	lists []int
	// slots are, for each part, the slots of its vindex values, nil when they cannot be told.
	slots [][]int
}

// Observe takes one event.
func (a *Auditor) Observe(ctx context.Context, e querylog.Event) error {
	if e.Kind == querylog.Closed {
		a.transactions.closed(e.Connection)
		return nil
	}
	a.calls += e.Calls
	if e.Cut {
		a.cutOff += e.Calls
		a.transactions.unknown(e.Connection)
		return nil
	}
	scanned := a.scanner.Scan(e.Text)
	if scanned {
		if s, ok := a.shapes[string(a.scanner.Key())]; ok {
			a.count(ctx, e, s, nil)
			return nil
		}
	}
	return a.meet(ctx, e, scanned)
}

// meet takes an event whose shape is not in the cache.
func (a *Auditor) meet(ctx context.Context, e querylog.Event, scanned bool) error {
	text := e.Text
	if scanned {
		text = a.scanner.Representative()
	}
	st, err := a.o.Planner.Parse(text)
	if err == nil && scanned && st.Residual {
		// Values that Vitess leaves in the statement may decide: this one is read as it is, each time.
		scanned = false
		st, err = a.o.Planner.Parse(e.Text)
	}
	var unparsed *planner.Unparsed
	if err != nil && !errors.As(err, &unparsed) {
		return err
	}
	s := &shape{}
	if unparsed != nil {
		s.q = a.query(fingerprint.Hide(e.Text), e, func(q *query) {
			q.kind, q.plan = "unknown", &planner.Plan{Class: planner.Unsupported, Reason: unparsed.Reason}
			if a.o.Landing != nil {
				q.findings = []string{findUnparsed}
			}
		})
	} else {
		s.control = st.Control
		plain := st.Values
		s.q = a.query(st.Text, e, func(q *query) {
			q.kind, q.plan = st.Kind, a.o.Planner.Plan(ctx, st)
			if q.plan.Class == planner.Scatter || q.plan.Class == planner.Several {
				q.remedies = a.o.Planner.Remedies(ctx, text)
			}
			if a.o.Landing != nil {
				q.findings = a.o.Landing.judge(ctx, text, st, q.plan)
			} else {
				q.findings = judge(st, q.plan)
			}
		})
		if s.q != nil {
			a.bind(s, plain, scanned)
			if !scanned {
				a.count(ctx, e, s, plain)
				return nil
			}
		}
	}
	if scanned {
		if len(a.shapes) >= shapesPerQuery*a.o.MaxQueries {
			clear(a.shapes)
		}
		a.shapes[string(a.scanner.Key())] = s
	}
	a.count(ctx, e, s, nil)
	return nil
}

// query is the sum of a text, made by fill when it is new; nil beyond the limit.
func (a *Auditor) query(text string, e querylog.Event, fill func(*query)) *query {
	if q, ok := a.queries[text]; ok {
		return q
	}
	if len(a.queries) >= a.o.MaxQueries {
		return nil
	}
	q := &query{text: text}
	fill(q)
	if a.o.Examples {
		q.example = e.Text
	}
	a.queries[text] = q
	return q
}

// bind finds, for each part of the plan, where in the statement its vindex values are. The plan
// is that of the query's first shape; the names of bind variables are those of the normalised
// text, which is the same for all its shapes.
func (a *Auditor) bind(s *shape, values map[string]*querypb.BindVariable, scanned bool) {
	parts := s.q.plan.Parts
	s.lists, s.slots = make([]int, len(parts)), make([][]int, len(parts))
	for i, part := range parts {
		s.lists[i] = -1
		names, list, ok := part.Variables()
		if !ok || !scanned {
			continue
		}
		if list {
			v := values[names[len(names)-1]]
			if v == nil || len(v.Values) == 0 {
				continue
			}
			if slot, ok := fingerprint.Slot(string(v.Values[0].Value)); ok {
				for j, l := range a.scanner.Lists {
					if l.Slot == slot {
						s.lists[i] = j
					}
				}
			}
			continue
		}
		var slots []int
		for _, name := range names {
			v := values[name]
			if v == nil {
				break
			}
			slot, ok := fingerprint.Slot(string(v.Value))
			if !ok {
				break
			}
			slots = append(slots, slot)
		}
		if len(slots) == len(names) {
			s.slots[i] = slots
		}
	}
}

// count adds an event. values are the bind variables of a statement that was parsed as it is,
// nil when the scanner has its literals.
func (a *Auditor) count(ctx context.Context, e querylog.Event, s *shape, values map[string]*querypb.BindVariable) {
	q := s.q
	if q == nil {
		a.beyond += e.Calls
		a.transactions.control(e.Connection, s.control)
		a.transactions.unknown(e.Connection)
		return
	}
	q.calls += e.Calls
	q.rows += e.Rows
	q.byLog += e.ShardQueries
	if e.Timed {
		q.timed += e.Calls
		q.seconds += e.Seconds
	}
	if len(q.plan.Parts) > 0 {
		i := -1
		n, least := q.plan.ShardQueries(func(part planner.Part) int { return a.listLength(q.plan, part, s, values, &i) }, a.rows(values))
		q.shardQueries += n * float64(e.Calls)
		q.least = q.least || least
	}
	if e.Connection == "" || e.Calls != 1 {
		return
	}
	a.transactions.control(e.Connection, s.control)
	if len(q.plan.Parts) > 0 {
		a.transactions.touch(ctx, e.Connection, q.plan, func(i int) []sqltypes.Value { return a.vindexValues(i, q.plan.Parts[i], s, values) })
	}
}

// listLength is the number of values in the list behind the next part that has one. ShardQueries
// asks for the parts in their order.
func (a *Auditor) listLength(plan *planner.Plan, part planner.Part, s *shape, values map[string]*querypb.BindVariable, i *int) int {
	for *i++; *i < len(plan.Parts); *i++ {
		if plan.Parts[*i].Listed() {
			break
		}
	}
	if values != nil {
		names, list, ok := part.Variables()
		if !ok || !list {
			return 0
		}
		return len(values[names[len(names)-1]].GetValues())
	}
	if *i >= len(s.lists) || s.lists[*i] < 0 || s.lists[*i] >= len(a.scanner.Lists) {
		return 0
	}
	return a.scanner.Lists[s.lists[*i]].Count
}

// rows is the number of rows of an INSERT; for one that was parsed as it is, 1 or 2.
func (a *Auditor) rows(map[string]*querypb.BindVariable) int { return max(a.scanner.Rows, 1) }

// vindexValues are the values of a part's vindex columns, nil when they cannot be told.
func (a *Auditor) vindexValues(i int, part planner.Part, s *shape, values map[string]*querypb.BindVariable) []sqltypes.Value {
	if values != nil {
		names, list, ok := part.Variables()
		if !ok || list {
			return nil
		}
		out := make([]sqltypes.Value, 0, len(names))
		for _, name := range names {
			v := values[name]
			if v == nil {
				return nil
			}
			out = append(out, sqltypes.MakeTrusted(v.Type, v.Value))
		}
		return out
	}
	if i >= len(s.slots) || s.slots[i] == nil {
		return nil
	}
	out := make([]sqltypes.Value, 0, len(s.slots[i]))
	for _, slot := range s.slots[i] {
		text, kind, ok := a.scanner.Value(slot)
		if !ok {
			return nil
		}
		typ := sqltypes.VarChar
		if kind == fingerprint.Integer {
			typ = sqltypes.Int64
		}
		out = append(out, sqltypes.MakeTrusted(typ, []byte(text)))
	}
	return out
}

// VitessVersion is the version of Vitess that is linked in, as go.mod names it.
func VitessVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "vitess.io/vitess" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// Result sums up what was observed. Transactions that are open are ended as if their connections
// had closed.
func (a *Auditor) Result() *Result {
	r := &Result{
		Version: Version, Vitess: VitessVersion(), Target: "keyspaces", Keyspace: a.o.Keyspace, Inputs: a.o.Inputs,
		Shards: a.o.Planner.Keyspaces(), Queries: []Query{}, Findings: []Finding{},
	}
	if a.o.Landing != nil {
		r.Target = "landing"
	}
	t := &r.Totals
	t.ByClass, t.LimitOfQueries = map[planner.Class]Weight{}, a.o.MaxQueries
	t.Calls, t.CutOff, t.BeyondLimit = a.calls, a.cutOff, a.beyond
	var reachingSeconds, supported float64
	for _, q := range a.queries {
		sum := sha256.Sum256([]byte(q.text))
		out := Query{
			ID: hex.EncodeToString(sum[:6]), Text: q.text, Kind: q.kind, Class: q.plan.Class, Reason: q.plan.Reason,
			Vindexes: q.plan.Vindexes(), Shards: q.plan.Fanout(), Parts: q.plan.Parts, Calls: q.calls, Seconds: q.seconds, Timed: q.timed, Rows: q.rows,
			LowerBound: q.least, Tables: q.plan.Tables, Memory: q.plan.Memory, Remedies: q.remedies, Findings: q.findings, Example: q.example,
		}
		if q.calls > 0 {
			out.ShardQueries = q.shardQueries / float64(q.calls)
		}
		r.Queries = append(r.Queries, out)
		w := t.ByClass[out.Class]
		w.Queries++
		w.Calls += q.calls
		w.Seconds += q.seconds
		w.Rows += q.rows
		t.ByClass[out.Class] = w
		t.Judged += q.calls
		t.Seconds += q.seconds
		t.Timed += q.timed
		t.ShardQueriesByLog += q.byLog
		if out.Class == planner.None {
			continue
		}
		t.Reaching += q.calls
		reachingSeconds += q.seconds
		if out.Class != planner.Unsupported {
			supported += float64(q.calls)
			t.ShardQueries += q.shardQueries
			t.LowerBound = t.LowerBound || q.least
		}
	}
	t.Queries = len(a.queries)
	for class, w := range t.ByClass {
		calls, seconds := percent(float64(w.Calls), float64(t.Reaching)), percent(w.Seconds, reachingSeconds)
		switch {
		case class.Single():
			t.SingleShard += calls
			t.SingleShardTime += seconds
		case class == planner.Scatter:
			t.Scatter, t.ScatterTime = calls, seconds
		case class == planner.Unsupported:
			t.Unsupported, t.UnsupportedTotal = calls, w.Queries
		}
	}
	if supported > 0 {
		t.Amplification = t.ShardQueries / supported
	}
	// What costs most comes first; equal costs are ordered by the text, so that two runs print alike.
	sort.Slice(r.Queries, func(i, j int) bool {
		x, y := r.Queries[i], r.Queries[j]
		if c, d := x.cost(), y.cost(); c != d {
			return c > d
		}
		return x.Text < y.Text
	})
	r.Transactions = a.transactions.result()
	if a.o.Landing == nil {
		r.Storm = storm(r.Shards)
	}
	r.Findings = a.findings(r.Queries)
	return r
}

// cost orders queries: shard queries, and calls for those that are not supported.
func (q Query) cost() float64 {
	return math.Max(q.ShardQueries, 1) * float64(q.Calls)
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

// storm is the table of an emptied cache for each sharded keyspace.
func storm(shards map[string]int) []Storm {
	var names []string
	for name, n := range shards {
		if n > 1 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var out []Storm
	for _, name := range names {
		for _, q := range []float64{0.001, 0.01, 0.05, 0.1, 0.2} {
			p := math.Pow(1-q, float64(shards[name]))
			out = append(out, Storm{Keyspace: name, Shards: shards[name], Fails: q, Succeeds: p, Tries: 1 / p, ShardQueries: float64(shards[name]) / p})
		}
	}
	return out
}
