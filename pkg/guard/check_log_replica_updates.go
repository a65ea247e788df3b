package guard

// logReplicaUpdates: half the teams write on b. Only with log_replica_updates are their
// changes in a's binlog, which is the one that is streamed.
func logReplicaUpdates(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		got := s.Vars["log_replica_updates"]
		if got == "" {
			got = s.Vars["log_slave_updates"]
		}
		if got != "ON" {
			return refuse(s.Name, "log_replica_updates="+got+": what the other side wrote is not in its binlog", "log_replica_updates=ON", "set it in the option file, and restart")
		}
		return good(s.Name, "log_replica_updates=ON")
	})
}
