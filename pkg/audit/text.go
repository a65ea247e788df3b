package audit

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/vifl/vifl/pkg/audit/planner"
)

// WriteText prints a result for people: the top queries by cost, all findings.
func (r *Result) WriteText(w io.Writer, top int) {
	t := r.Totals
	fmt.Fprintf(w, "audit by Vitess %s of %d calls, %d distinct queries", r.Vitess, t.Calls, t.Queries)
	if len(r.Inputs) > 0 {
		fmt.Fprintf(w, ", from %s", strings.Join(r.Inputs, ", "))
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "keyspaces: %s", shardsText(r.Shards))
	if r.Keyspace != "" {
		fmt.Fprintf(w, "; sessions on %s", r.Keyspace)
	}
	fmt.Fprintln(w)
	if t.CutOff > 0 {
		fmt.Fprintf(w, "not judged: %d call(s), whose text the log has only in part\n", t.CutOff)
	}
	if t.BeyondLimit > 0 {
		fmt.Fprintf(w, "not judged: %d call(s) of queries beyond the first %d distinct ones: --max-queries raises the limit\n", t.BeyondLimit, t.LimitOfQueries)
	}
	timed := t.Timed > 0
	fmt.Fprintln(w)
	rows := [][]string{}
	for _, c := range planner.Classes {
		weight, ok := t.ByClass[c]
		if !ok {
			continue
		}
		share := "-"
		if c != planner.None {
			share = fmt.Sprintf("%.2f%%", percent(float64(weight.Calls), float64(t.Reaching)))
		}
		row := []string{string(c), fmt.Sprint(weight.Queries), fmt.Sprint(weight.Calls), share}
		if timed {
			row = append(row, fmt.Sprintf("%.3f", weight.Seconds))
		}
		rows = append(rows, row)
	}
	header := []string{"CLASS", "QUERIES", "CALLS", "SHARE"}
	if timed {
		header = append(header, "SECONDS")
	}
	writeTable(w, header, rows)
	fmt.Fprintf(w, "\nsingle-shard: %.2f%% of the calls that reach a shard", t.SingleShard)
	if timed {
		fmt.Fprintf(w, ", %.2f%% of their time", t.SingleShardTime)
	}
	atLeast := ""
	if t.LowerBound {
		atLeast = "at least "
	}
	fmt.Fprintf(w, "\namplification: %s%.3f shard queries for each call\n", atLeast, t.Amplification)
	if t.ShardQueriesByLog > 0 {
		fmt.Fprintf(w, "by vtgate's own count in the log: %d shard queries\n", t.ShardQueriesByLog)
	}
	if x := r.Transactions; x != nil {
		fmt.Fprintf(w, "transactions: %d; on one shard %.2f%% of those that can be told (one value %d, one shard %d); several shards %d, scattering %d, not to be told %d; writing on several shards %d\n",
			x.Total, x.Percent, x.OneValue, x.OneShard, x.Several, x.Scattering, x.Unknown, x.SeveralWrites)
		if x.Dropped > 0 {
			fmt.Fprintf(w, "transactions: %d connection(s) were forgotten, more than %d were open at once\n", x.Dropped, maxConnections)
		}
	}

	shown := r.Queries[:min(top, len(r.Queries))]
	fmt.Fprintf(w, "\nqueries by cost (%d of %d)\n", len(shown), len(r.Queries))
	rows = rows[:0]
	for _, q := range shown {
		row := []string{q.ID, q.ClassText(), fmt.Sprint(q.Calls)}
		if timed {
			row = append(row, fmt.Sprintf("%.3f", q.Seconds))
		}
		rows = append(rows, append(row, q.CostText(), strings.Join(q.Findings, " "), cut(q.Text, 110)))
	}
	header = []string{"ID", "CLASS", "CALLS"}
	if timed {
		header = append(header, "SECONDS")
	}
	writeTable(w, append(header, "SHARD QUERIES", "FINDINGS", "QUERY"), rows)
	first := true
	for _, q := range shown {
		if len(q.Remedies) == 0 {
			continue
		}
		if first {
			fmt.Fprintln(w, "\nan equality on one of these would bring it to one shard")
			first = false
		}
		fmt.Fprintf(w, "  %s  %s\n", q.ID, strings.Join(q.Remedies, "; "))
	}
	first = true
	for _, q := range r.Queries {
		if q.Class != planner.Unsupported {
			continue
		}
		if first {
			fmt.Fprintln(w, "\nunsupported")
			first = false
		}
		fmt.Fprintf(w, "  %s  %d call(s): %s\n      %s\n", q.ID, q.Calls, cut(q.Text, 160), q.Reason)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w, "\nfindings")
		for _, f := range r.Findings {
			fmt.Fprintf(w, "  %s %s%s\n      %s\n      why:    %s\n      remedy: %s\n", f.ID, f.Title, breaksText(f.Breaks), f.where(), f.Why, f.Remedy)
		}
	}
	if len(r.Storm) > 0 {
		fmt.Fprintln(w, "\nan emptied cache: a scatter that fills it succeeds when all shards answer, (1-q)^S")
		rows = rows[:0]
		for _, s := range r.Storm {
			rows = append(rows, []string{s.Keyspace, fmt.Sprint(s.Shards), fmt.Sprintf("%g%%", s.Fails*100), fmt.Sprintf("%.2f%%", s.Succeeds*100), triesText(s.Tries), triesText(s.ShardQueries)})
		}
		writeTable(w, []string{"KEYSPACE", "SHARDS", "A SHARD FAILS", "FILL SUCCEEDS", "TRIES", "SHARD QUERIES A FILL"}, rows)
	}
	for _, q := range shown {
		if q.Example != "" {
			fmt.Fprintf(w, "\nexample of %s:\n  %s\n", q.ID, q.Example)
		}
	}
}

func triesText(n float64) string {
	if n >= 1e6 {
		return fmt.Sprintf("%.1e", n)
	}
	return fmt.Sprintf("%.2f", n)
}

func breaksText(breaks bool) string {
	if breaks {
		return " [breaks]"
	}
	return ""
}

// where says what a finding is about.
func (f Finding) where() string {
	if len(f.Objects) > 0 {
		return f.list(f.Objects)
	}
	return fmt.Sprintf("%d call(s) of %s", f.Calls, f.list(f.Queries))
}

func (f Finding) list(items []string) string {
	const most = 8
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}

// ClassText is the class with the vindexes or the number of shards.
func (q Query) ClassText() string {
	switch {
	case q.Class == planner.OneShard || q.Class == planner.Several && len(q.Vindexes) > 0:
		return string(q.Class) + " by " + strings.Join(q.Vindexes, ", ")
	case q.Class == planner.Scatter:
		return fmt.Sprintf("scatter over %d", q.Shards)
	}
	return string(q.Class)
}

// CostText is the shard queries of a call.
func (q Query) CostText() string {
	if q.Class == planner.None || q.Class == planner.Unsupported {
		return "-"
	}
	if q.LowerBound {
		return fmt.Sprintf(">= %.2f", q.ShardQueries)
	}
	return fmt.Sprintf("%.2f", q.ShardQueries)
}

func shardsText(shards map[string]int) string {
	var names []string
	for name := range shards {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, shards[name])
	}
	return strings.Join(names, ", ")
}

// cut shortens a text to n characters and puts it on one line.
func cut(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

func writeTable(w io.Writer, header []string, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush()
}

// WriteText prints a comparison for people: the top changes, worse ones first.
func (c *Comparison) WriteText(w io.Writer, top int) {
	fmt.Fprintf(w, "a: %s, %s\nb: %s, %s\n\n", c.A.Name, shardsText(c.A.Shards), c.B.Name, shardsText(c.B.Shards))
	a, b := c.A.Totals, c.B.Totals
	writeTable(w, []string{"", "A", "B"}, [][]string{
		{"single-shard calls", fmt.Sprintf("%.2f%%", a.SingleShard), fmt.Sprintf("%.2f%%", b.SingleShard)},
		{"single-shard time", fmt.Sprintf("%.2f%%", a.SingleShardTime), fmt.Sprintf("%.2f%%", b.SingleShardTime)},
		{"scatter calls", fmt.Sprintf("%.2f%%", a.Scatter), fmt.Sprintf("%.2f%%", b.Scatter)},
		{"amplification", fmt.Sprintf("%.3f", a.Amplification), fmt.Sprintf("%.3f", b.Amplification)},
		{"unsupported queries", fmt.Sprint(a.UnsupportedTotal), fmt.Sprint(b.UnsupportedTotal)},
	})
	fmt.Fprintf(w, "\nfrom a to b: better %d queries (%d calls), worse %d (%d, %.2f%% of the calls), same %d (%d)\n",
		c.Better.Queries, c.Better.Calls, c.Worse.Queries, c.Worse.Calls, c.WorsePercent, c.Same.Queries, c.Same.Calls)
	if c.OnlyA.Queries+c.OnlyB.Queries > 0 {
		fmt.Fprintf(w, "not compared: %d queries only in a, %d only in b\n", c.OnlyA.Queries, c.OnlyB.Queries)
	}
	if len(c.Queries) == 0 {
		return
	}
	shown := c.Queries[:min(top, len(c.Queries))]
	fmt.Fprintf(w, "\nchanged (%d of %d)\n", len(shown), len(c.Queries))
	var rows [][]string
	for _, q := range shown {
		rows = append(rows, []string{string(q.Verdict), fmt.Sprint(q.Calls), q.A.text(), q.B.text(), cut(q.Text, 110)})
	}
	writeTable(w, []string{"VERDICT", "CALLS", "A", "B", "QUERY"}, rows)
}

func (s Side) text() string {
	return Query{Class: planner.Class(s.Class), Vindexes: s.Vindexes, Shards: s.Shards}.ClassText() + fmt.Sprintf(" (%.2f)", s.ShardQueries)
}
