package guard

import (
	"strings"

	"github.com/vifl/vifl/pkg/state"
)

// losing are the checks of what only Vitess' stream loses or changes.
var losing = []func(*Facts) []Finding{compression, rowsQuery, changedValues}

// PickStream chooses the stream to move a shard by, and says why: Vitess' own, unless the
// shard has something that makes it lose changes, or may.
func PickStream(f *Facts) (kind, why string) {
	asked := *f
	asked.Stream = state.VReplication
	var lost []string
	servers := map[string]string{} // by what they have
	for _, check := range losing {
		for _, found := range check(&asked) {
			if found.Level == OK {
				continue
			}
			what, _, _ := strings.Cut(found.Found, ": the")
			if servers[what] == "" {
				lost = append(lost, what)
				servers[what] = found.Server
			} else {
				servers[what] += " and " + found.Server
			}
		}
	}
	for i, what := range lost {
		lost[i] = servers[what] + ": " + what
	}
	if len(lost) > 0 {
		return state.Binlog, "the vreplication stream would lose or change something: " + few(lost)
	}
	return state.VReplication, "nothing is set that it would lose; a reader beside it looks for what a session sets by itself"
}
