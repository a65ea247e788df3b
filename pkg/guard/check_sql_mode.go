package guard

import "strings"

// sqlMode: the landing's servers are strict. An application that relies on another mode sets
// it in its sessions, or meets errors after the switch.
func sqlMode(f *Facts) []Finding {
	out := onSides(f, func(s *Side) []Finding {
		mode := s.Vars["sql_mode"]
		var lacks []string
		for _, m := range []string{"STRICT_TRANS_TABLES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ERROR_FOR_DIVISION_BY_ZERO"} {
			if !strings.Contains(mode, m) && !(m == "STRICT_TRANS_TABLES" && strings.Contains(mode, "STRICT_ALL_TABLES")) {
				lacks = append(lacks, m)
			}
		}
		if len(lacks) > 0 {
			return warn(s.Name, "sql_mode="+mode+" without "+strings.Join(lacks, ", "), "the strict default, as the landing has it", "see that the application sets the mode it needs in its sessions; stored zero dates move along")
		}
		return good(s.Name, "strict")
	})
	return append(out, sidesDiffer(f, "sql_mode")...)
}

// sidesDiffer warns when a variable has another value on b than on a.
func sidesDiffer(f *Facts, name string) []Finding {
	a, b := f.Sides[0], f.Sides[1]
	if a.Vars == nil || b.Vars == nil || a.Err != nil || b.Err != nil || a.Vars[name] == b.Vars[name] {
		return nil
	}
	return warn(a.Name+", "+b.Name, name+" is "+a.Vars[name]+" on a and "+b.Vars[name]+" on b", "the same on both", "make them the same: after the switch there is only one")
}
