package guard

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/cert"
)

// behind is a shard that was cut over, with a stream back, of which nothing speaks against a
// rollback or the end.
func behind(t *testing.T) *Observed {
	t.Helper()
	o := observed(t)
	o.Places, o.Fenced, o.Stream = o.Vitess, false, Stream{State: "stopped"}
	o.Back = &Back{Stream: Stream{State: "running"}, Lag: 100 * time.Millisecond, UUIDA: "uuid-1", UUIDB: "uuid-2", Open: map[string]string{}, Diff: o.Now.Add(-time.Hour)}
	return o
}

func TestRefusalsOfTheWayBack(t *testing.T) {
	for _, c := range []struct {
		name               string
		rollback, complete string
		mutate             func(*Observed)
	}{
		{"nothing", "", "", func(*Observed) {}},
		{"a one-way cutover", "R24", "", func(o *Observed) { o.Back = nil }},
		{"a stopped stream", "R25", "R25", func(o *Observed) { o.Back.Stream.State = "stopped" }},
		{"a stream that a DDL stopped", "R25", "R25", func(o *Observed) { o.Back.Stream = Stream{State: "error", Message: "ALTER TABLE"} }},
		{"a lag", "R25", "R25", func(o *Observed) { o.Back.Lag = o.MaxLag + time.Millisecond }},
		{"a lag that is not known", "R25", "R25", func(o *Observed) { o.Back.Lag = -1 }},
		{"another server at a's address", "R26", "R26", func(o *Observed) { o.A = cert.Server{ServerUUID: "uuid-9"} }},
		{"another server at b's address", "R26", "R26", func(o *Observed) { o.B = cert.Server{ServerUUID: "uuid-9"} }},
		{"somebody opened side b", "R26", "R26", func(o *Observed) { o.Back.Open["0123 side b"] = "offline_mode=OFF" }},
		{"mains on the legacy already", "R27", "R27", func(o *Observed) { o.Places = o.Legacy }},
		{"mains elsewhere", "R27", "R27", func(o *Observed) { o.Places = nil }},
		{"a DDL on the landing", "R11", "R11", func(o *Observed) { o.SchemaTarget = "t" }},
		{"a DDL on the legacy", "R11", "R11", func(o *Observed) { o.SchemaB = "t" }},
		{"another number typed", "R21", "R21", func(o *Observed) { o.Confirm = "4567" }},
		{"a hold", "R15", "", func(o *Observed) { o.Hold = "the team's launch" }},
		{"a reshard at work", "R16", "", func(o *Observed) { o.Automation = []string{"a reshard"} }},
		{"a prepared transaction", "R17", "", func(o *Observed) { o.PreparedXA["0123 side a"] = []string{"x"} }},
		{"a reverse diff with differences", "R29", "R28", func(o *Observed) { o.Back.Differing, o.Back.Diff = 2, time.Time{} }},
		{"no reverse diff", "", "R28", func(o *Observed) { o.Back.Diff = time.Time{} }},
		{"an old reverse diff", "", "R28", func(o *Observed) { o.Back.Diff = o.Now.Add(-DiffBackMaxAge - time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := behind(t)
			c.mutate(o)
			if got := ids(t, RollbackRefusals(o)); got != c.rollback {
				t.Errorf("a rollback is refused by %q, expected %q", got, c.rollback)
			}
			if got := ids(t, CompleteRefusals(o)); got != c.complete {
				t.Errorf("the end is refused by %q, expected %q", got, c.complete)
			}
		})
	}
}

func ids(t *testing.T, all []Finding) string {
	t.Helper()
	seen := map[string]bool{}
	var out []string
	for _, f := range all {
		if f.Level != Refuse || f.Name == "" || f.Server == "" || f.Found == "" || f.Expected == "" || f.Remedy == "" {
			t.Errorf("incomplete: %+v", f)
		}
		if !seen[f.ID] {
			out = append(out, f.ID)
		}
		seen[f.ID] = true
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}
