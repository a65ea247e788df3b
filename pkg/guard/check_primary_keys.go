package guard

func primaryKeys(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var none, computed []string
		for _, t := range s.Schema.Tables {
			if len(t.PrimaryKey) == 0 {
				none = append(none, t.Name)
			}
			for _, part := range t.PrimaryKey {
				if c := t.Column(part.Column); c != nil && c.Generated != "" {
					computed = append(computed, t.Name+"."+c.Name)
				}
			}
		}
		if len(none) > 0 {
			return refuse(s.Name, "no primary key: "+few(none), "a primary key on every table", "ALTER TABLE … ADD PRIMARY KEY: rows that are equal cannot be told apart, neither by the stream nor by the diff")
		}
		if len(computed) > 0 {
			return refuse(s.Name, "generated columns in primary keys: "+few(computed), "keys of columns that are stored as they are given", "another primary key: no stream can write these")
		}
		return good(s.Name, "on every table")
	})
}
