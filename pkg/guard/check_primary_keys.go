package guard

func primaryKeys(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var none, computed, unique []string
		for _, t := range s.Schema.Tables {
			index, key := t.RowKey()
			switch {
			case len(key) == 0:
				none = append(none, t.Name)
			case len(t.PrimaryKey) == 0:
				unique = append(unique, t.Name+" ("+index+")")
			}
			for _, part := range key {
				if c := t.Column(part.Column); c != nil && c.Generated != "" {
					computed = append(computed, t.Name+"."+c.Name)
				}
			}
		}
		if len(none) > 0 {
			return refuse(s.Name, "no primary key, nor a visible unique key of whole columns that are NOT NULL: "+few(none), "one of them on every table", "ALTER TABLE … ADD PRIMARY KEY: rows that are equal cannot be told apart, neither by the stream nor by the diff")
		}
		if len(computed) > 0 {
			return refuse(s.Name, "generated columns in primary keys, or in the unique keys in their place: "+few(computed), "keys of columns that are stored as they are given", "another primary key: no stream can write these")
		}
		if len(unique) > 0 {
			return good(s.Name, "on every table, or a unique key of columns that are NOT NULL in its place: %s", few(unique))
		}
		return good(s.Name, "on every table")
	})
}
