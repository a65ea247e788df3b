package guard

func primaryKeys(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var none []string
		for _, t := range s.Schema.Tables {
			if len(t.PrimaryKey) == 0 {
				none = append(none, t.Name)
			}
		}
		if len(none) > 0 {
			return refuse(s.Name, "no primary key: "+few(none), "a primary key on every table", "ALTER TABLE … ADD PRIMARY KEY: rows that are equal cannot be told apart, neither by the stream nor by the diff")
		}
		return good(s.Name, "on every table")
	})
}
