package guard

import "strings"

// foreignKeys: rows that a cascade changes are in the binlog of newer servers only. Where
// they are not, the target gets them by cascading itself, and no reader of the binlog sees
// that they changed, so the proof of the switch does not cover them; where they are, the
// target finds them changed already. One rule for all: refused. Others are no harm: the
// stream applies in the order of the binlog, with the source's foreign_key_checks.
func foreignKeys(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var cascading, plain []string
		for _, t := range s.Schema.Tables {
			for _, k := range t.ForeignKeys {
				name := t.Name + "." + k.Name
				if acts(k.DeleteRule) || acts(k.UpdateRule) {
					cascading = append(cascading, name)
				} else {
					plain = append(plain, name)
				}
			}
		}
		switch {
		case len(cascading) > 0:
			return refuse(s.Name, "foreign keys that change rows by themselves: "+few(cascading), "no foreign key with CASCADE, SET NULL or SET DEFAULT", "drop them, or make them RESTRICT, on both sides")
		case len(plain) > 0:
			return warn(s.Name, "foreign keys: "+few(plain), "none", "they move along; a later split of the landing cannot keep them")
		}
		return good(s.Name, "none")
	})
}

func acts(rule string) bool {
	switch strings.ToUpper(rule) {
	case "", "RESTRICT", "NO ACTION":
		return false
	}
	return true
}
