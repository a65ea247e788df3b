package guard

import "fmt"

// columns says what a reader of the table should know. Generated columns are computed again
// on the landing; invisible ones are moved by name.
func columns(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		generated, invisible, partitioned, n := 0, 0, 0, 0
		for _, t := range s.Schema.Tables {
			if t.Partitioned {
				partitioned++
			}
			for _, c := range t.Columns {
				n++
				if c.Generated != "" {
					generated++
				}
				if c.Invisible {
					invisible++
				}
			}
		}
		text := fmt.Sprintf("%d columns, %d generated, %d invisible; %d partitioned tables", n, generated, invisible, partitioned)
		return good(s.Name, "%s", text)
	})
}
