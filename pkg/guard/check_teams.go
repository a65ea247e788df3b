package guard

import "fmt"

// teamsMatch catches the wrong server behind a right name: all legacy shards have a database
// of the same name and the same tables, so only the data tells whose it is.
//
// Teams that mains says live here and that the data lacks are refused. Teams that the data
// holds besides may be what was left behind when a team was moved; they are a warning as
// long as they are fewer than those that belong here.
func teamsMatch(f *Facts) []Finding {
	m := f.Mains
	switch {
	case m.Err != nil:
		return nil // mains' own finding
	case m.TeamsErr != nil:
		return blind("mains", m.TeamsErr, "correct mains.teams, or grant SELECT on what it reads")
	case len(m.Teams) == 0:
		return refuse("mains", "no team lives on shard "+f.Shard.Number.String(), "at least one", "check the shard's number, and mains.teams")
	}
	said := set(m.Teams)
	return onTables(f, func(s *Side) []Finding {
		if s.TeamsErr != nil {
			return blind(s.Name, s.TeamsErr, "correct mains.data_teams; it runs on the legacy server, in the shard's database")
		}
		held := set(s.Teams)
		missing, extra := without(m.Teams, held), without(s.Teams, said)
		common := len(said) - len(missing)
		id := fmt.Sprintf("server %s, whose data holds %d teams", s.Identity.ServerUUID, len(held))
		expected := fmt.Sprintf("the %d teams that mains says live on %s", len(said), f.Shard.Number)
		switch {
		case common == 0:
			return refuse(s.Name, fmt.Sprintf("%s, none of them of this shard (%s)", id, examples(extra)), expected+" ("+examples(missing)+")", "this is another shard's server: check the shard's sides in vifl.yaml")
		case len(missing) > 0:
			return refuse(s.Name, fmt.Sprintf("%s; %d of this shard are missing (%s)", id, len(missing), examples(missing)), expected, "find out where these teams are, or whether they were made just now (then run it again)")
		case len(extra) > common:
			return refuse(s.Name, fmt.Sprintf("%s, most of which belong elsewhere: %d (%s)", id, len(extra), examples(extra)), expected, "is this the server of several shards? check the shard's sides in vifl.yaml")
		case len(extra) > 0:
			return warn(s.Name, fmt.Sprintf("%s; %d are not of this shard by mains (%s)", id, len(extra), examples(extra)), expected, "if they were moved away and left behind, they only make the move larger")
		}
		return good(s.Name, "all %d teams", len(said))
	})
}

func set(ids []int64) map[int64]bool {
	m := make(map[int64]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

func without(ids []int64, other map[int64]bool) []int64 {
	var out []int64
	for _, id := range ids {
		if !other[id] {
			out = append(out, id)
		}
	}
	return out
}

func examples(ids []int64) string {
	const shown = 3
	if len(ids) == 0 {
		return "none"
	}
	text := "such as "
	for i, id := range ids {
		if i == shown {
			break
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(id)
	}
	return text
}
