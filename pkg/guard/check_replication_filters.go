package guard

import "strings"

// replicationFilters: what is filtered on the way from one side to the other is not in both
// binlogs, so a stream from one side misses the other's.
func replicationFilters(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		r := s.Replica
		if r == nil {
			return nil
		}
		var filters []string
		for _, p := range [][2]string{
			{"Replicate_Do_DB", r.ReplicateDoDB}, {"Replicate_Ignore_DB", r.ReplicateIgnoreDB}, {"Replicate_Do_Table", r.ReplicateDoTable},
			{"Replicate_Ignore_Table", r.ReplicateIgnoreTable}, {"Replicate_Wild_Do_Table", r.ReplicateWildDoTable},
			{"Replicate_Wild_Ignore_Table", r.ReplicateWildIgnore}, {"Replicate_Rewrite_DB", r.ReplicateRewriteDB},
			{"Replicate_Ignore_Server_Ids", r.IgnoredServerIDs},
		} {
			if p[1] != "" {
				filters = append(filters, p[0]+"="+p[1])
			}
		}
		if len(filters) > 0 {
			return refuse(s.Name, strings.Join(filters, "; "), "no replication filter", "CHANGE REPLICATION FILTER … = () on "+s.Name+", and the same in its option file; then compare the sides")
		}
		return good(s.Name, "none")
	})
}
