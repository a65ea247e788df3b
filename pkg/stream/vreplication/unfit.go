package vreplication

import (
	"regexp"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// Unfit says what of these tables Vitess' stream does not carry over as it is. Of what is in
// lost it changes every value, or never starts; whether it changes one of what is in risky is
// in the values: the diff tells. All of it was seen with Vitess 24, in the SQL cases.
func Unfit(s *schema.Schema) (lost, risky []string) {
	for _, t := range s.Tables {
		if strings.Contains(t.Name, "`") {
			lost = append(lost, t.Name+" (a backtick in the name: it does not start)")
		}
		if key := taken(t); key != "" {
			lost = append(lost, t.Name+" (no primary key, and the unique key "+key+" over a generated column or an expression: it may tell rows apart by that one, and then stands still)")
		}
		for _, c := range t.Columns {
			name := t.Name + "." + c.Name
			switch {
			case c.Type == "json":
				risky = append(risky, name+" (JSON: a DOUBLE inside becomes a DECIMAL)")
			case c.Type != "enum" && c.Type != "set":
			case !strings.HasPrefix(c.CharSet, "utf8") && !ascii(c.ColumnType):
				lost = append(lost, name+" ("+c.Type+" with members that are not ASCII in "+c.CharSet+": they become the error value)")
			case c.Type == "enum" && emptyMember.MatchString(c.ColumnType):
				risky = append(risky, name+" (ENUM with an empty member: the error value becomes that)")
			}
		}
	}
	return lost, risky
}

// taken is a unique key that Vitess may take in the place of a primary one and cannot write;
// empty when there is none. It takes the one of the smallest types of those that do not allow
// NULL, whether its columns can be written or not.
func taken(t *schema.Table) string {
	if len(t.PrimaryKey) > 0 {
		return ""
	}
	for _, ix := range t.Indexes {
		nullable, computed := false, false
		for _, p := range ix.Parts {
			c := t.Column(p.Column)
			nullable = nullable || c != nil && c.Nullable
			computed = computed || c == nil || c.Generated != ""
		}
		if ix.Unique && computed && !nullable {
			return ix.Name
		}
	}
	return ""
}

// emptyMember finds ” as a member of its own, not as a quote inside one.
var emptyMember = regexp.MustCompile(`[(,]''[,)]`)

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
