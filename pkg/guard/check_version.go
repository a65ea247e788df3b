package guard

func serverVersion(f *Facts) []Finding {
	var out []Finding
	for _, s := range f.Sides {
		switch {
		case s.Err != nil:
		case !s.Version.Supported():
			out = append(out, refuse(s.Name, s.Version.Text, "MySQL 8.0.26 or newer", "this version of vifl cannot move it")...)
		default:
			out = append(out, good(s.Name, "MySQL %s", s.Version.Text)...)
		}
	}
	return out
}
