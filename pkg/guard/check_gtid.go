package guard

// gtidOff: this version follows the binlog by file and offset. A server with GTIDs could be
// followed so as well, but its pair replicates by GTID, and positions of one side could not
// be waited for on the other.
func gtidOff(f *Facts) []Finding {
	out := variable(f, "gtid_mode", []string{"OFF"}, refuse, "a server with GTIDs, where file and offset are expected")
	for i, s := range f.Sides {
		if s.Err == nil && s.Replica != nil && s.Replica.AutoPosition {
			out = append(out, refuse(f.Sides[i].Name, "it replicates by GTID (SOURCE_AUTO_POSITION=1)", "by file and position", "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION=0, …")...)
		}
	}
	return out
}
