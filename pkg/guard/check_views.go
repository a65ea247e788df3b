package guard

func views(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		if n := s.Schema.Views; len(n) > 0 {
			return good(s.Name, "move along: %s", few(n))
		}
		return good(s.Name, "none")
	})
}
