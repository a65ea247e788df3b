package guard

import (
	"fmt"

	"github.com/vifl/vifl/pkg/state"
)

// changedValues is about what Vitess' stream does not carry over as it is.
func changedValues(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		if f.Stream == state.Binlog {
			return good(s.Name, "the binlog stream stores them as they are")
		}
		remedy := fmt.Sprintf("move the shard by the other stream: vifl preflight %s --stream binlog", f.Shard.Number.ID)
		var out []Finding
		if len(s.Lost) > 0 {
			out = append(out, refuse(s.Name, few(s.Lost), "values that vreplication stores as they are", remedy)...)
		}
		if len(s.Risky) > 0 {
			out = append(out, warn(s.Name, few(s.Risky), "values that vreplication stores as they are", "the diff tells whether it did; or "+remedy)...)
		}
		if len(out) == 0 {
			return good(s.Name, "none")
		}
		return out
	})
}
