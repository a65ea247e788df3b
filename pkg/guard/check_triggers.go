package guard

func triggers(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		if n := s.Schema.Triggers; len(n) > 0 {
			return refuse(s.Name, "triggers: "+few(n), "no trigger", "drop them on both sides: on the landing they would fire a second time for every streamed row, and without them the application loses what they do")
		}
		return good(s.Name, "none")
	})
}
