package guard

import (
	"fmt"
	"strconv"
)

// autoIncrement: two writable sides must count in different steps, or each gives a number
// that the other has given, and replication breaks. Where no table counts, or only one side
// takes writes, it does not matter.
func autoIncrement(f *Facts) []Finding {
	a, b := f.Sides[0], f.Sides[1]
	if a.Vars == nil || b.Vars == nil || a.Err != nil || b.Err != nil {
		return nil
	}
	if a.Vars["read_only"] == "ON" || b.Vars["read_only"] == "ON" {
		return good(a.Name+", "+b.Name, "one side is read only")
	}
	number := func(s *Side, name string) int {
		n, _ := strconv.Atoi(s.Vars[name])
		return n
	}
	ia, ib := number(a, "auto_increment_increment"), number(b, "auto_increment_increment")
	oa, ob := number(a, "auto_increment_offset"), number(b, "auto_increment_offset")
	found := fmt.Sprintf("a counts %d+%d·n, b %d+%d·n", oa, ia, ob, ib)
	// An offset above the increment is ignored by the server.
	if ia == ib && ia >= 2 && oa != ob && oa >= 1 && ob >= 1 && oa <= ia && ob <= ib {
		return good(a.Name+", "+b.Name, "%s", found)
	}
	var counting []string
	if a.Schema != nil {
		for _, t := range a.Schema.Tables {
			for _, c := range t.Columns {
				if c.AutoIncrement {
					counting = append(counting, t.Name)
				}
			}
		}
	}
	expected := "the same auto_increment_increment of 2 or more, different auto_increment_offset"
	remedy := "SET PERSIST auto_increment_increment=2 on both, auto_increment_offset=1 on a and 2 on b, and let sessions reconnect"
	if len(counting) == 0 {
		return warn(a.Name+", "+b.Name, found+"; no table has AUTO_INCREMENT", expected, remedy)
	}
	return refuse(a.Name+", "+b.Name, found+": both give the same numbers in "+few(counting), expected, remedy)
}
