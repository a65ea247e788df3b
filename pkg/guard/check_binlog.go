package guard

func binlogOn(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if s.Vars["log_bin"] != "ON" {
			return refuse(s.Name, "no binlog (log_bin=OFF)", "log_bin=ON", "start the server with log_bin; without it there is nothing to stream")
		}
		return good(s.Name, "log_bin=ON")
	})
}
