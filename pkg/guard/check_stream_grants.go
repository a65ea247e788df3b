package guard

import (
	"fmt"
	"sort"
	"strings"

	"github.com/vifl/vifl/pkg/state"
)

var streamPrivileges = []string{"SELECT", "RELOAD", "LOCK TABLES", "REPLICATION SLAVE", "REPLICATION CLIENT"}

// streamGrants checks the account that the tablets connect as. Which it is stands in the
// tablets' own file, so a server without the usual name is a warning.
func streamGrants(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if f.Stream == state.Binlog {
			return good(s.Name, "the binlog stream reads as vifl's own account")
		}
		if s.AccountsErr != nil {
			return blind(s.Name, s.AccountsErr, "GRANT SELECT ON *.* TO "+s.Account)
		}
		if len(s.StreamGrants) == 0 {
			return warn(s.Name, "no account "+f.StreamAccount, "the account that the tablets' --tablet-config names, with "+strings.Join(streamPrivileges, ", "), fmt.Sprintf("CREATE USER %s@… and GRANT %s ON *.* TO it, or check the one you use by hand", f.StreamAccount, strings.Join(streamPrivileges, ", ")))
		}
		var out []Finding
		for _, account := range sorted(s.StreamGrants) {
			var lacks []string
			for _, p := range streamPrivileges {
				if !s.StreamGrants[account].Global(p) {
					lacks = append(lacks, p)
				}
			}
			if len(lacks) > 0 {
				list := strings.Join(lacks, ", ")
				out = append(out, refuse(s.Name, account+" lacks "+list, strings.Join(streamPrivileges, ", "), "GRANT "+list+" ON *.* TO "+account)...)
			}
		}
		if len(out) == 0 {
			return good(s.Name, "%s has all", f.StreamAccount)
		}
		return out
	})
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
