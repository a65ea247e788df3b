package guard

import "fmt"

func databaseExists(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		switch {
		case s.SchemaErr != nil:
			return refuse(s.Name, s.SchemaErr.Error(), "the database "+f.Shard.Database, "check the shard's database and sides in vifl.yaml")
		case len(s.Schema.Tables) == 0:
			return refuse(s.Name, "a database "+f.Shard.Database+" without tables", "the shard's tables", "check the shard's database and sides in vifl.yaml")
		}
		return good(s.Name, "%s", fmt.Sprintf("%s, %d tables", f.Shard.Database, len(s.Schema.Tables)))
	})
}
