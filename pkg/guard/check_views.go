package guard

// views move along word for word, their DEFINER too, while the legacy's accounts do not: a
// view that runs as one of them fails on the landing with 1449. root@localhost is there.
func views(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var orphans []string
		for _, name := range sorted(s.DefinerViews) {
			if definer := s.DefinerViews[name]; definer != "root@localhost" {
				orphans = append(orphans, name+" (by "+definer+")")
			}
		}
		switch {
		case len(orphans) > 0:
			return warn(s.Name, "views that run as an account of the legacy: "+few(orphans), "SQL SECURITY INVOKER, or a definer that the landing has", "ALTER SQL SECURITY INVOKER VIEW …, or make that account on the landing's servers before the cutover: without it a query of the view fails with 1449")
		case len(s.Schema.Views) > 0:
			return good(s.Name, "move along: %s", few(s.Schema.Views))
		}
		return good(s.Name, "none")
	})
}
