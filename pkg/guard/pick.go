package guard

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/state"
)

// losing are the checks of what only Vitess' stream loses.
var losing = []check{{run: compression}, {run: rowsQuery}}

// PickStream chooses the stream to move a shard by, and says why: Vitess' own, unless the
// shard has something set that makes it lose changes.
func PickStream(f *Facts) (kind, why string) {
	asked := *f
	asked.Stream = state.VReplication
	var lost []string
	for _, c := range losing {
		for _, found := range c.run(&asked) {
			if found.Level == Refuse {
				setting, _, _ := strings.Cut(found.Found, ":")
				lost = append(lost, fmt.Sprintf("%s has %s", found.Server, setting))
			}
		}
	}
	if len(lost) > 0 {
		return state.Binlog, "the vreplication stream would lose changes: " + few(lost)
	}
	return state.VReplication, "nothing is set that it would lose; a reader beside it looks for what a session sets by itself"
}
