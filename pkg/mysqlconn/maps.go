package mysqlconn

import (
	"context"
	"database/sql"
)

// Queryer is what a pool, a connection and a transaction have in common.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Maps reads the rows of a SHOW statement by column name: their order and number differ
// between versions. NULL is left out of the map.
func Maps(ctx context.Context, q Queryer, query string, args ...any) ([]map[string]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, name := range names {
			if values[i].Valid {
				row[name] = values[i].String
			}
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
