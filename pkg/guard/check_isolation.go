package guard

func isolation(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if got := s.Vars["transaction_isolation"]; got != "REPEATABLE-READ" {
			return warn(s.Name, "transaction_isolation="+got, "REPEATABLE-READ, the landing's default", "set the same on the landing's servers if the application relies on it")
		}
		return good(s.Name, "REPEATABLE-READ")
	})
}
