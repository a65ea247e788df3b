package guard

import (
	"strings"

	vtschema "vitess.io/vitess/go/vt/schema"
)

// tableNames: Vitess takes tables whose names have the form of its own temporary ones (of
// online DDL, of its garbage collection) for its own: the stream leaves them out, and its
// garbage collection may drop them.
func tableNames(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var taken []string
		for _, t := range s.Schema.Tables {
			if strings.HasPrefix(t.Name, "_") && vtschema.IsInternalOperationTableName(t.Name) {
				taken = append(taken, t.Name)
			}
		}
		if len(taken) > 0 {
			return refuse(s.Name, "names that Vitess keeps for itself: "+few(taken), "other names", "rename or drop them; left-overs of gh-ost and pt-online-schema-change look like this")
		}
		return good(s.Name, "none that Vitess keeps for itself")
	})
}
