package guard

import "fmt"

// sidesArePair holds the sides' own words about each other against the configuration. Hosts
// of two shards that were mixed up in vifl.yaml are seen here: each server names another
// source than the one configured beside it.
func sidesArePair(f *Facts) []Finding {
	a, b := f.Sides[0], f.Sides[1]
	if a.Vars == nil || b.Vars == nil || a.Err != nil || b.Err != nil {
		return nil
	}
	if a.Identity.ServerUUID == b.Identity.ServerUUID {
		return refuse(a.Name+", "+b.Name, "one and the same server, "+a.Identity.ServerUUID, "two servers", "check the shard's sides in vifl.yaml")
	}
	var out []Finding
	if a.Identity.ServerID == b.Identity.ServerID {
		out = append(out, refuse(a.Name+", "+b.Name, fmt.Sprintf("server_id %d on both", a.Identity.ServerID), "different ones", "each ignores what the other wrote: give one another server_id")...)
	}
	for _, p := range [][2]*Side{{a, b}, {b, a}} {
		s, source := p[0], p[1]
		want := fmt.Sprintf("%s (server %s at %s)", source.Name, source.Identity.ServerUUID, source.Target.Addr())
		switch r := s.Replica; {
		case s.ReplicaErr != nil:
			out = append(out, blind(s.Name, s.ReplicaErr, "GRANT REPLICATION CLIENT ON *.* TO "+s.Account)...)
		case r == nil:
			out = append(out, refuse(s.Name, "it replicates from nobody", want, "CHANGE REPLICATION SOURCE TO … and START REPLICA on "+s.Name)...)
		case r.SourceUUID != source.Identity.ServerUUID:
			out = append(out, refuse(s.Name, fmt.Sprintf("server %s replicates from server %s (%s:%d)", s.Identity.ServerUUID, r.SourceUUID, r.SourceHost, r.SourcePort), want, "check the shard's sides in vifl.yaml: one of these is another shard's")...)
		case len(r.OtherChannels) > 0:
			out = append(out, refuse(s.Name, fmt.Sprintf("more than one replication channel: %q besides %q", r.OtherChannels, r.Channel), "one", "what comes from elsewhere is not part of the shard's two sides")...)
		default:
			out = append(out, good(s.Name, "replicates from %s", source.Name)...)
		}
	}
	return out
}
