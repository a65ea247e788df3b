package guard

func engines(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var other []string
		for _, t := range s.Schema.Tables {
			if t.Engine != "InnoDB" {
				other = append(other, t.Name+" ("+t.Engine+")")
			}
		}
		if len(other) > 0 {
			return refuse(s.Name, "tables of another engine: "+few(other), "engine InnoDB", "ALTER TABLE … ENGINE=InnoDB: a snapshot does not cover them")
		}
		return good(s.Name, "InnoDB only")
	})
}
