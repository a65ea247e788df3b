package guard

import "strings"

func mainsUsable(f *Facts) []Finding {
	m := f.Mains
	server := "mains (" + m.Target.Addr() + ")"
	if m.Err != nil {
		return refuse(server, m.Err.Error(), "a server that answers and lets "+m.Target.User+" in", "repair that first: nothing else of mains was checked")
	}
	var out []Finding
	if m.GrantsErr != nil {
		out = append(out, blind(server, m.GrantsErr, "GRANT SELECT on what mains.teams and mains.where read")...)
	} else {
		var lacks []string
		for _, p := range []string{"CREATE", "SELECT", "INSERT", "UPDATE"} {
			if !m.Grants.On("_vifl", p) {
				lacks = append(lacks, p)
			}
		}
		if len(lacks) > 0 {
			out = append(out, refuse(server, m.Target.User+" lacks "+strings.Join(lacks, ", ")+" on _vifl", "ALL on `_vifl`.* (the epoch of each shard)", "GRANT ALL ON `_vifl`.* TO "+m.Target.User+" on mains")...)
		}
	}
	if m.SwitchErr != nil {
		out = append(out, refuse(server, m.SwitchErr.Error(), "mains.switch that the server can plan", "correct mains.switch, or GRANT UPDATE on the table it changes")...)
	}
	if len(out) == 0 {
		return good(server, "switch can be planned, epoch can be kept")
	}
	return out
}
