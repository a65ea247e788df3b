package audit

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/audit/planner"
)

// Limit is one condition under which an audit fails, such as scatter>1%.
type Limit struct {
	Metric  string
	Above   bool // fails above the value, else below
	OrEqual bool
	Value   float64
	Percent bool
}

func (l Limit) String() string {
	op := map[bool]string{true: ">", false: "<"}[l.Above]
	if l.OrEqual {
		op += "="
	}
	unit := ""
	if l.Percent {
		unit = "%"
	}
	return l.Metric + op + strconv.FormatFloat(l.Value, 'g', -1, 64) + unit
}

// metrics are what a limit can name, with what each is without and with a percent sign; nil for
// one that it does not have.
var metrics = map[string]struct {
	plain, percent func(*Result) float64
}{
	"single_shard":      {classCalls(func(c planner.Class) bool { return c.Single() }, true), func(r *Result) float64 { return r.Totals.SingleShard }},
	"single_shard_time": {nil, func(r *Result) float64 { return r.Totals.SingleShardTime }},
	"several":           {classCalls(is(planner.Several), true), classCalls(is(planner.Several), false)},
	"scatter":           {classCalls(is(planner.Scatter), true), func(r *Result) float64 { return r.Totals.Scatter }},
	"scatter_time":      {nil, func(r *Result) float64 { return r.Totals.ScatterTime }},
	"unsupported":       {func(r *Result) float64 { return float64(r.Totals.UnsupportedTotal) }, func(r *Result) float64 { return r.Totals.Unsupported }},
	"amplification":     {func(r *Result) float64 { return r.Totals.Amplification }, nil},
	"unjudged": {func(r *Result) float64 { return float64(r.Totals.Calls - r.Totals.Judged) }, func(r *Result) float64 {
		return percent(float64(r.Totals.Calls-r.Totals.Judged), float64(r.Totals.Calls))
	}},
	"breaking":                 {breaking, nil},
	"cross_shard_transactions": {func(r *Result) float64 { return crossing(r) }, func(r *Result) float64 { return percent(crossing(r), transactions(r)) }},
}

func is(want planner.Class) func(planner.Class) bool {
	return func(c planner.Class) bool { return c == want }
}

// classCalls is the number of distinct queries of some classes, or the percentage of calls.
func classCalls(in func(planner.Class) bool, distinct bool) func(*Result) float64 {
	return func(r *Result) float64 {
		var queries int
		var calls uint64
		for c, w := range r.Totals.ByClass {
			if in(c) {
				queries += w.Queries
				calls += w.Calls
			}
		}
		if distinct {
			return float64(queries)
		}
		return percent(float64(calls), float64(r.Totals.Reaching))
	}
}

func breaking(r *Result) float64 {
	n := 0
	for _, f := range r.Findings {
		if f.Breaks {
			n += f.Distinct
		}
	}
	return float64(n)
}

func crossing(r *Result) float64 {
	if r.Transactions == nil {
		return 0
	}
	return float64(r.Transactions.Several + r.Transactions.Scattering)
}

func transactions(r *Result) float64 {
	if r.Transactions == nil {
		return 0
	}
	return float64(r.Transactions.Total)
}

// Metrics lists the names, sorted.
func Metrics() []string {
	var names []string
	for name := range metrics {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

var limitForm = regexp.MustCompile(`^\s*([a-z_]+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*$`)

// ParseLimits reads limits such as scatter>1%,unsupported>0. With a percent sign a metric is a
// share of the calls that reach a shard (of all transactions, of all calls), without one a number
// of distinct queries (or transactions, or calls, or the amplification itself).
func ParseLimits(text string) ([]Limit, error) {
	known := map[string]units{}
	for name, m := range metrics {
		known[name] = units{plain: m.plain != nil, percent: m.percent != nil}
	}
	return parseLimits(text, known)
}

// ParseCompareLimits reads limits on a comparison: worse>0 (queries), worse>1% (of the calls
// that are compared).
func ParseCompareLimits(text string) ([]Limit, error) {
	return parseLimits(text, map[string]units{"worse": {plain: true, percent: true}})
}

// units says which forms of a metric there are.
type units struct{ plain, percent bool }

func parseLimits(text string, known map[string]units) ([]Limit, error) {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []Limit
	for _, item := range strings.Split(text, ",") {
		m := limitForm.FindStringSubmatch(item)
		if m == nil {
			return nil, fmt.Errorf("found %q, expected METRIC>NUMBER or METRIC>NUMBER%% (also <, >=, <=), such as scatter>1%%,unsupported>0", item)
		}
		l := Limit{Metric: m[1], Above: m[2][0] == '>', OrEqual: len(m[2]) == 2, Percent: m[4] == "%"}
		metric, ok := known[l.Metric]
		if !ok {
			return nil, fmt.Errorf("found metric %q, expected one of %s", l.Metric, strings.Join(names, ", "))
		}
		if l.Percent && !metric.percent {
			return nil, fmt.Errorf("found %q: %s is a number, expected it without %%", item, l.Metric)
		}
		if !l.Percent && !metric.plain {
			return nil, fmt.Errorf("found %q: %s is a share, expected it with %%", item, l.Metric)
		}
		var err error
		if l.Value, err = strconv.ParseFloat(m[3], 64); err != nil {
			return nil, fmt.Errorf("found %q, expected a number: %w", item, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// Broken is a limit that a result does not keep.
type Broken struct {
	Limit string  `json:"limit"`
	Found float64 `json:"found"`
}

func (b Broken) String() string { return fmt.Sprintf("%s: found %.4g", b.Limit, b.Found) }

// Check lists the limits that a result does not keep.
func Check(r *Result, limits []Limit) []Broken {
	var out []Broken
	for _, l := range limits {
		metric := metrics[l.Metric]
		get := metric.plain
		if l.Percent {
			get = metric.percent
		}
		if found := get(r); l.broken(found) {
			out = append(out, Broken{Limit: l.String(), Found: found})
		}
	}
	return out
}

// CheckComparison lists the limits that a comparison does not keep.
func CheckComparison(c *Comparison, limits []Limit) []Broken {
	var out []Broken
	for _, l := range limits {
		found := float64(c.Worse.Queries)
		if l.Percent {
			found = c.WorsePercent
		}
		if l.broken(found) {
			out = append(out, Broken{Limit: l.String(), Found: found})
		}
	}
	return out
}

func (l Limit) broken(found float64) bool {
	switch {
	case l.Above && l.OrEqual:
		return found >= l.Value
	case l.Above:
		return found > l.Value
	case l.OrEqual:
		return found <= l.Value
	}
	return found < l.Value
}
