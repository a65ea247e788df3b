package planner

import (
	"sort"

	"vitess.io/vitess/go/vt/sqlparser"
)

// tablesOf are the names of the tables in a statement, sorted, without qualifiers.
func tablesOf(ast sqlparser.SQLNode) []string {
	seen := map[string]bool{}
	var out []string
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		if t, ok := node.(*sqlparser.AliasedTableExpr); ok {
			if name, ok := t.Expr.(sqlparser.TableName); ok && !seen[name.Name.String()] && name.Name.String() != "dual" {
				seen[name.Name.String()] = true
				out = append(out, name.Name.String())
			}
		}
		return true, nil
	}, ast)
	sort.Strings(out)
	return out
}
