package guard

import (
	"fmt"
	"strings"
	"time"
)

// auditAge is how old an audit of the shard's queries may be. Applications are released more often;
// the bound only tells a forgotten audit from one of this move.
const auditAge = 30 * 24 * time.Hour

// audited wants to know what the shard's queries would do on a landing. It never refuses: an
// audit sees what a log has, and the fleet decides how much of that it must be.
func audited(f *Facts) []Finding {
	shard := f.Shard.Number.String()
	again := fmt.Sprintf("vifl audit --target landing %s --keep, with a log of the shard or --mysql", shard)
	if f.AuditErr != nil {
		return blind("vifl's state", f.AuditErr, "repair the topo server")
	}
	a := f.Audit
	if a == nil {
		return warn("vifl's state", "nobody has audited the queries that the shard serves", "an audit: a query that vtgate refuses, or understands otherwise, fails behind the switch", again)
	}
	of := fmt.Sprintf("an audit of %s by %s: %d calls of %d queries", a.At.Format(time.DateOnly), a.Who, a.Calls, a.Queries)
	switch {
	case a.Calls == 0 || a.Judged < a.Calls:
		return warn("vifl's state", fmt.Sprintf("%s, %d calls of it could be judged", of, a.Judged), "all calls judged", again)
	case len(a.Breaks) > 0:
		var what []string
		for _, b := range a.Breaks {
			what = append(what, fmt.Sprintf("%s %s (%d calls)", b.ID, b.Title, b.Calls))
		}
		return warn("vifl's state", of+", of which break on a landing: "+few(what), "none that break", "change these queries (docs/audit.md says how), then audit again: "+again)
	case time.Since(a.At) > auditAge:
		return warn("vifl's state", of, "one that is not older than 30 days", again)
	}
	return good("vifl's state", "%s, none breaks on a landing: %s", of, strings.Join(a.Inputs, ", "))
}
