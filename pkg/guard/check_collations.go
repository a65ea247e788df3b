package guard

// collations lists those in use. Every MySQL of the same or a later version has them; the
// landing's is compared by the seed, which makes the tables word for word and fails where it
// cannot.
func collations(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		used := map[string]bool{}
		for _, t := range s.Schema.Tables {
			used[t.Collation] = true
			for _, c := range t.Columns {
				if c.Collation != "" {
					used[c.Collation] = true
				}
			}
		}
		names := sorted(used)
		return good(s.Name, "%s; the landing must run MySQL %d.%d or newer", few(names), s.Version.Major, s.Version.Minor)
	})
}
