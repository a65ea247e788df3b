package guard

func timeZone(f *Facts) []Finding {
	if out := append(sidesDiffer(f, "time_zone"), sidesDiffer(f, "system_time_zone")...); len(out) > 0 {
		return out
	}
	return onSides(f, func(s *Side) []Finding {
		zone := s.Vars["time_zone"]
		if zone == "SYSTEM" {
			zone = s.Vars["system_time_zone"]
		}
		if zone != "UTC" && zone != "+00:00" {
			return warn(s.Name, "time zone "+zone, "UTC, as the landing's servers have it unless you set it there", "set the landing's servers, or the application's sessions, to the same zone")
		}
		return good(s.Name, "UTC")
	})
}
