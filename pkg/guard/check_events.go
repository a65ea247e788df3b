package guard

func events(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		if n := s.Schema.Events; len(n) > 0 {
			return warn(s.Name, "events: "+few(n), "no event", "they do not move along, and fail once the legacy is frozen: have what they do done from outside, through vtgate")
		}
		return good(s.Name, "none")
	})
}
