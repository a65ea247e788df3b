package guard

func routines(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		if n := s.Schema.Routines; len(n) > 0 {
			return warn(s.Name, "stored routines: "+few(n), "none", "they do not move along: does the application call them?")
		}
		return good(s.Name, "none")
	})
}
