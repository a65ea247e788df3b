package guard

func serverAnswers(f *Facts) []Finding {
	var out []Finding
	for _, s := range f.Sides {
		if s.Err != nil {
			out = append(out, refuse(s.Name+" ("+s.Target.Addr()+")", s.Err.Error(), "a server that answers and lets "+s.Target.User+" in", "repair that first: of this side nothing else was checked")...)
			continue
		}
		out = append(out, good(s.Name, "%s, server %s", s.Target.Addr(), s.Identity.ServerUUID)...)
	}
	return out
}
