package guard

import (
	"fmt"

	"github.com/vifl/vifl/pkg/schema"
)

func schemaEqual(f *Facts) []Finding {
	a, b := f.Sides[0], f.Sides[1]
	if a.Schema == nil || b.Schema == nil {
		return nil
	}
	if diff := schema.Differences(a.Schema, b.Schema); len(diff) > 0 {
		return refuse(a.Name+", "+b.Name, fmt.Sprintf("%d differences: %s", len(diff), few(diff)), "the same tables (first is a, second b)", "make them the same")
	}
	return good(a.Name+", "+b.Name, "digest %s", short(a.Schema.Digest()))
}
