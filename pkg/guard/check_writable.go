package guard

func writable(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		closed := s.Vars["super_read_only"] == "ON" || s.Vars["read_only"] == "ON"
		switch {
		case s.Vars["offline_mode"] == "ON":
			return refuse(s.Name, "offline_mode=ON", "OFF", "the server is closed to applications: was this shard moved already?")
		case closed && s.Side == "a":
			return refuse(s.Name, "read_only=ON", "a side that takes writes: heartbeats are written on the streamed side", "open it, or exchange a and b in vifl.yaml and in mains")
		case closed:
			return warn(s.Name, "read_only=ON", "a side that takes writes", "nothing, if b is a standby")
		}
		return good(s.Name, "read_only=OFF")
	})
}
