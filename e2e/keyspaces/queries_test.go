package keyspaces_test

import (
	"context"
	"strings"
	"testing"
)

// testQueries runs every query of queries.sql through the vtgate with the recommended flags, in a
// session that has selected no keyspace.
func (c *cluster) testQueries(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, k := range c.all {
		for _, q := range k.Queries {
			rows, err := c.safe.QueryContext(ctx, q.Text)
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
				_ = rows.Close()
			}
			switch {
			case q.Refused && (err == nil || !strings.Contains(err.Error(), "scatter")):
				t.Errorf("%s: %s: found %v, expected that vtgate refuses a scatter", k.Name, q.Name, err)
			case !q.Refused && err != nil:
				t.Errorf("%s: %s: %v", k.Name, q.Name, err)
			}
		}
	}
}
