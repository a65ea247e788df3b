package planner

import (
	"context"
	"sort"
	"strings"

	"vitess.io/vitess/go/vt/sqlparser"
)

// maxRemedies bounds how many changes are tried for one statement.
const maxRemedies = 12

// Remedies are the columns of which an equality in the WHERE clause would bring a statement to
// one shard, as table.column (vindex). Each is found by planning the statement with that
// equality added; what does not change the class is not listed.
func (p *Planner) Remedies(ctx context.Context, text string) []string {
	var out []string
	seen := map[string]bool{}
	for i := range maxRemedies {
		s, err := p.Parse(text)
		if err != nil || s.err != nil {
			return out
		}
		tries := p.tries(s)
		if i >= len(tries) {
			break
		}
		try := tries[i]
		if seen[try.name] {
			continue
		}
		seen[try.name] = true
		where(s.normalized, try.predicates)
		s.source = sqlparser.String(s.normalized)
		if plan := p.Plan(ctx, s); plan.Class == OneShard {
			out = append(out, try.name)
		}
	}
	sort.Strings(out)
	return out
}

type try struct {
	name       string
	predicates []sqlparser.Expr
}

// tries are the unique vindexes of the tables in the FROM clause, without those in subqueries.
func (p *Planner) tries(s *Statement) []try {
	var from []sqlparser.TableExpr
	switch ast := s.normalized.(type) {
	case *sqlparser.Select:
		from = ast.From
	case *sqlparser.Update:
		from = ast.TableExprs
	case *sqlparser.Delete:
		from = ast.TableExprs
	}
	var out []try
	visit := func(t *sqlparser.AliasedTableExpr) {
		name, ok := t.Expr.(sqlparser.TableName)
		if !ok {
			return
		}
		table, _, _, _, err := s.cursor.FindTable(name)
		if err != nil || table == nil || table.Keyspace == nil || !table.Keyspace.Sharded {
			return
		}
		qualifier := sqlparser.NewTableName(name.Name.String())
		if t.As.NotEmpty() {
			qualifier = sqlparser.NewTableName(t.As.String())
		}
		for _, v := range table.ColumnVindexes {
			if !v.IsUnique() || v.IsPartialVindex() {
				continue
			}
			var columns []string
			var predicates []sqlparser.Expr
			for _, c := range v.Columns {
				columns = append(columns, table.Name.String()+"."+c.String())
				predicates = append(predicates, &sqlparser.ComparisonExpr{
					Operator: sqlparser.EqualOp, Left: sqlparser.NewColNameWithQualifier(c.String(), qualifier), Right: sqlparser.NewArgument("vifl_" + c.Lowered()),
				})
			}
			out = append(out, try{name: strings.Join(columns, " and ") + " (" + v.Name + ")", predicates: predicates})
		}
	}
	for _, f := range from {
		_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
			switch node := node.(type) {
			case *sqlparser.Subquery, *sqlparser.DerivedTable:
				return false, nil
			case *sqlparser.AliasedTableExpr:
				visit(node)
			}
			return true, nil
		}, f)
	}
	return out
}

func where(ast sqlparser.Statement, predicates []sqlparser.Expr) {
	for _, e := range predicates {
		switch ast := ast.(type) {
		case *sqlparser.Select:
			ast.AddWhere(e)
		case *sqlparser.Update:
			ast.AddWhere(e)
		case *sqlparser.Delete:
			if ast.Where == nil {
				ast.Where = sqlparser.NewWhere(sqlparser.WhereClause, e)
			} else {
				ast.Where.Expr = sqlparser.AndExpressions(ast.Where.Expr, e)
			}
		}
	}
}
