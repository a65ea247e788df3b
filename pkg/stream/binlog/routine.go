package binlog

import "strings"

// isRoutine reports CREATE, ALTER and DROP of a stored procedure or function, which touch no
// table. A routine's text may hold any word, so only the words before its name are looked
// at, and a definer is skipped with its quotes.
func isRoutine(sql string) bool {
	word := func() string {
		sql = strings.TrimLeft(sql, " \t\r\n")
		end := strings.IndexFunc(sql, func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' && r != '_' })
		if end < 0 {
			end = len(sql)
		}
		w := strings.ToUpper(sql[:end])
		sql = sql[end:]
		return w
	}
	switch word() {
	case "CREATE", "ALTER", "DROP":
	default:
		return false
	}
	for range 4 {
		switch word() {
		case "PROCEDURE", "FUNCTION":
			return true
		case "AGGREGATE":
		case "DEFINER":
			if !skipDefiner(&sql) {
				return false
			}
		default:
			return false
		}
	}
	return false
}

// skipDefiner goes behind =`user`@`host`, as the server writes it.
func skipDefiner(sql *string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(*sql, " "), "=")
	if !ok {
		return false
	}
	for i := range 2 {
		rest = strings.TrimLeft(rest, " ")
		if i == 1 {
			if rest, ok = strings.CutPrefix(rest, "@"); !ok {
				return false
			}
		}
		if rest, ok = strings.CutPrefix(rest, "`"); !ok {
			return false
		}
		end := strings.IndexByte(rest, '`')
		for end >= 0 && strings.HasPrefix(rest[end+1:], "`") { // a doubled one is one of the name
			next := strings.IndexByte(rest[end+2:], '`')
			if next < 0 {
				return false
			}
			end += 2 + next
		}
		if end < 0 {
			return false
		}
		rest = rest[end+1:]
	}
	*sql = rest
	return true
}
