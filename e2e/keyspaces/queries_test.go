package keyspaces_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vifl/vifl/vindexes/keyspaces"
)

// query is one of queries.sql.
func (c *cluster) query(t *testing.T, keyspace, name string) keyspaces.Query {
	t.Helper()
	for _, k := range c.all {
		for _, q := range k.Queries {
			if k.Name == keyspace && q.Name == name {
				return q
			}
		}
	}
	t.Fatalf("keyspace %s: found no query %s", keyspace, name)
	return keyspaces.Query{}
}

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
