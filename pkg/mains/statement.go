package mains

import (
	"fmt"
	"sort"
	"strings"
)

// statement is a configured SQL statement with its names replaced by ? in order.
type statement struct {
	key   string // of the configuration, for messages
	text  string
	names []string
}

// parse finds the :names of a statement outside quotes and comments. A name that is not
// allowed is an error: left in place it would be a syntax error at the worst moment.
func parse(key, text string, allowed ...string) (statement, error) {
	st := statement{key: key}
	var out strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"' || c == '`':
			n := quoted(text[i:])
			out.WriteString(text[i : i+n])
			i += n
		case c == '#' || strings.HasPrefix(text[i:], "-- ") || strings.HasPrefix(text[i:], "/*"):
			end := "\n"
			if c == '/' {
				end = "*/"
			}
			n := strings.Index(text[i:], end)
			if n < 0 {
				n = len(text) - i - len(end)
			}
			out.WriteString(text[i : i+n+len(end)])
			i += n + len(end)
		case c == ':' && i+1 < len(text) && letter(text[i+1]):
			j := i + 1
			for j < len(text) && (letter(text[j]) || text[j] >= '0' && text[j] <= '9') {
				j++
			}
			name := text[i+1 : j]
			if !contains(allowed, name) {
				return st, fmt.Errorf("configuration: %s: unknown name :%s, expected %s", key, name, list(allowed))
			}
			st.names = append(st.names, name)
			out.WriteByte('?')
			i = j
		case c == '?':
			return st, fmt.Errorf("configuration: %s: found a bare ?, expected %s", key, list(allowed))
		default:
			out.WriteByte(c)
			i++
		}
	}
	st.text = out.String()
	return st, nil
}

// quoted is the length of the quoted text that s begins with; to the end if it is not
// closed. A doubled quote and, outside backticks, a backslash keep it open.
func quoted(s string) int {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && q != '`':
			i++
		case s[i] == q && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			return i + 1
		}
	}
	return len(s)
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	sorted := append([]string{}, names...)
	sort.Strings(sorted)
	return ":" + strings.Join(sorted, ", :")
}

// args are the values for the statement's ? in order.
func (s statement) args(values map[string]any) []any {
	args := make([]any, len(s.names))
	for i, name := range s.names {
		args[i] = values[name]
	}
	return args
}
