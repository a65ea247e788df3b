package load

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Line is one line about a load under way: the rate since the snapshot before, and the
// totals; the longest wait is that of the last window.
func (s Summary) Line(before Summary) string {
	rate := 0.0
	if d := s.Elapsed - before.Elapsed; d > 0 {
		rate = float64(s.Ops-before.Ops) / d.Seconds()
	}
	w := s.Windows[len(s.Windows)-1]
	return fmt.Sprintf("%4ds %6.0f ops/s  acked %d  unknown %d  refused %d  errors %d  p50 %s p99 %s  longest wait %s",
		int(s.Elapsed.Seconds()), rate, s.Acked, s.Unknown, s.Refused, s.Errors, show(w.P50), show(w.P99), show(w.Longest.Duration))
}

// Text is the whole summary for people.
func (s Summary) Text() string {
	var b strings.Builder
	rate := 0.0
	if s.Elapsed > 0 {
		rate = float64(s.Ops) / s.Elapsed.Seconds()
	}
	fmt.Fprintf(&b, "load %s: %d operations in %s, %.0f/s\n", s.Run, s.Ops, s.Elapsed.Round(10*time.Millisecond), rate)
	fmt.Fprintf(&b, "  acknowledged %d, rolled back %d, errors %d, unfinished %d; tries refused %d, with unknown outcome %d\n",
		s.Acked, s.RolledBack, s.Errors, s.Unfinished, s.Refused, s.Unknown)
	fmt.Fprintf(&b, "  wait p50 %s, p99 %s; longest %s\n", show(s.P50), show(s.P99), s.Longest)
	if len(s.Windows) > 1 {
		for _, w := range s.Windows {
			fmt.Fprintf(&b, "  %-12s %7d operations, p50 %s, p99 %s; longest %s\n", w.Name, w.Ops, show(w.P50), show(w.P99), w.Longest)
		}
	}
	b.WriteString("  writer      ops    acked  unknown  refused   errors       p50       p99   longest\n")
	for _, w := range s.Writers {
		fmt.Fprintf(&b, "  %6d %8d %8d %8d %8d %8d %9s %9s %9s\n", w.Writer, w.Ops, w.Acked, w.Unknown, w.Refused, w.Errors, show(w.P50), show(w.P99), show(w.Longest.Duration))
	}
	for _, text := range s.ErrorTexts {
		b.WriteString("  error: " + text + "\n")
	}
	fmt.Fprintf(&b, "  ledger %s\n", s.Ledger)
	return b.String()
}

// Text is the result for people. Its last line says whether all is well.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ledger %s: %d runs, %d rows\n", r.Ledger, r.In.Runs, r.In.Keys)
	fmt.Fprintf(&b, "  writes: acknowledged %d (by the legacy %d, by Vitess %d), unknown %d, refused %d, rolled back %d\n",
		r.In.Acked, r.In.Legacy, r.In.Vitess, r.In.Unknown, r.In.Refused, r.In.RolledBack)
	for _, s := range r.Shards {
		fmt.Fprintf(&b, "  shard %s, served by %s: %d rows on each of %s\n", s.Shard, s.Served, s.Keys, strings.Join(s.Servers, ", "))
	}
	fmt.Fprintf(&b, "  found %d, rightly gone %d, unknown applied %d, unknown not applied %d, AUTO_INCREMENT ids %d (%s)\n",
		r.Found, r.Gone, r.Applied, r.NotApplied, r.IDs, r.Took.Round(time.Millisecond))
	for _, p := range r.Problems {
		b.WriteString("  " + p.String() + "\n")
	}
	if r.OK() {
		b.WriteString("verified: every acknowledged write is found once, on the side that owned it\n")
		return b.String()
	}
	var parts []string
	total := 0
	for kind, n := range r.Wrong {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		total += n
	}
	sort.Strings(parts)
	if total > len(r.Problems) {
		fmt.Fprintf(&b, "  … and %d more\n", total-len(r.Problems))
	}
	b.WriteString("NOT verified: " + strings.Join(parts, ", ") + "\n")
	return b.String()
}
