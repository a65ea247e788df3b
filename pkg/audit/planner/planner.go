// Package planner plans statements as a vtgate would, without one: Vitess' parser, its
// normalisation, its vcursor over a vschema read from files, and its planner. The steps are
// those of Executor.getCachedOrBuildPlan (go/vt/vtgate/executor.go of Vitess 24).
package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"vitess.io/vitess/go/mysql/config"
	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	vtgatepb "vitess.io/vitess/go/vt/proto/vtgate"
	"vitess.io/vitess/go/vt/sqlparser"
	"vitess.io/vitess/go/vt/vtenv"
	"vitess.io/vitess/go/vt/vterrors"
	"vitess.io/vitess/go/vt/vtgate/engine"
	"vitess.io/vitess/go/vt/vtgate/executorcontext"
	"vitess.io/vitess/go/vt/vtgate/planbuilder"
	"vitess.io/vitess/go/vt/vtgate/vindexes"

	"github.com/vifl/vifl/pkg/audit/fingerprint"

	// The vindexes that vschemas for vifl's vtgate may name.
	_ "github.com/vifl/vifl/vindexes"
)

// Planner plans against one vschema. It is not for concurrent use.
type Planner struct {
	env      *vtenv.Environment
	vschema  *vindexes.VSchema
	exec     *unexecuted
	keyspace string
	shards   map[string]int
	schemas  map[string]tables
}

// Options says what to plan against.
type Options struct {
	VSchema *VSchema
	// Schemas are files of CREATE TABLE statements by keyspace. Without a keyspace's schema its
	// columns are those that its vschema lists, as in a vtgate that has not read a schema yet.
	Schemas map[string]string
	// Creates are such statements themselves, by keyspace, used where Schemas has no file.
	Creates map[string]string
	// Keyspace is what a client's session has selected; empty for none: a table is then looked
	// for in all keyspaces.
	Keyspace string
	// MySQLVersion is what the parser takes version comments by, such as 8.4.6; empty for
	// Vitess' default.
	MySQLVersion string
}

// New makes a planner. Every sharded keyspace needs its number of shards in VSchema.Shards.
func New(o Options) (*Planner, error) {
	if o.MySQLVersion == "" {
		o.MySQLVersion = config.DefaultMySQLVersion + "-Vitess" // as a vtgate without --mysql-server-version
	}
	env, err := vtenv.New(vtenv.Options{MySQLServerVersion: o.MySQLVersion, TruncateErrLen: 512, TruncateUILen: 512})
	if err != nil {
		return nil, fmt.Errorf("make Vitess' environment: %w", err)
	}
	if len(o.VSchema.srv.Keyspaces) == 0 {
		return nil, fmt.Errorf("no vschema is given")
	}
	shards := map[string]int{}
	for name, ks := range o.VSchema.srv.Keyspaces {
		n := o.VSchema.Shards[name]
		switch {
		case !ks.Sharded && n > 1:
			return nil, fmt.Errorf("keyspace %q is not sharded by its vschema, but %d shards are given", name, n)
		case !ks.Sharded:
			n = 1
		case n < 1:
			return nil, fmt.Errorf("keyspace %q is sharded: found no number of shards, expected one, such as --shards %s=8", name, name)
		}
		shards[name] = n
	}
	for name := range o.VSchema.Shards {
		if _, ok := shards[name]; !ok {
			return nil, fmt.Errorf("shards are given for keyspace %q, expected one of %q", name, o.VSchema.Keyspaces())
		}
	}
	if o.Keyspace != "" && shards[o.Keyspace] == 0 {
		return nil, fmt.Errorf("keyspace %q has no vschema, expected one of %q", o.Keyspace, o.VSchema.Keyspaces())
	}
	schemas := map[string]tables{}
	for ks, path := range o.Schemas {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the schema of keyspace %q: %w", ks, err)
		}
		if schemas[ks], err = readSchema(env.Parser(), path, string(data)); err != nil {
			return nil, err
		}
	}
	for ks, text := range o.Creates {
		if _, ok := schemas[ks]; ok {
			continue
		}
		if schemas[ks], err = readSchema(env.Parser(), "of keyspace "+ks, text); err != nil {
			return nil, err
		}
	}
	vschema, err := build(o.VSchema, env.Parser(), schemas)
	if err != nil {
		return nil, err
	}
	p := &Planner{
		env: env, vschema: vschema, keyspace: o.Keyspace, shards: shards, schemas: schemas,
		exec: &unexecuted{env: env, vschema: vschema, srv: o.VSchema.srv},
	}
	p.exec.prepared = p.prepared
	return p, nil
}

// prepared plans the statement that a PREPARE names: vtgate refuses the PREPARE of one that it
// cannot plan.
func (p *Planner) prepared(ctx context.Context, query string) (*engine.Plan, error) {
	s, err := p.Parse(query)
	if err == nil {
		err = s.err
	}
	if err != nil {
		return nil, err
	}
	return planbuilder.BuildFromStmt(ctx, s.source, s.normalized, s.reserved, s.cursor, s.needs, ddl{})
}

// Shards is the number of shards of a keyspace, 0 when there is none.
func (p *Planner) Shards(keyspace string) int { return p.shards[keyspace] }

// Keyspaces is the number of shards by keyspace.
func (p *Planner) Keyspaces() map[string]int { return p.shards }

// Control is what a statement does to the transaction of its connection.
type Control int8

// The kinds of control.
const (
	NoControl Control = iota
	Begin
	Commit
	Rollback
	AutocommitOn
	AutocommitOff
	ImplicitCommit // DDL and LOCK TABLES
)

// Statement is a parsed and normalised statement.
type Statement struct {
	// Text is the normalised text: bind variables for values, a question mark for the values
	// that Vitess leaves in the statement, but for positions in ORDER BY and GROUP BY.
	Text    string
	Kind    string // SELECT, INSERT, …
	Control Control
	// Values are the bind variables' values.
	Values map[string]*querypb.BindVariable
	// Residual is true when values are left that are no bind variables: the text that was
	// parsed does not stand for others of its shape.
	Residual bool
	// AST is as the client sent it, for what only looks.
	AST sqlparser.Statement

	source     string
	normalized sqlparser.Statement
	reserved   *sqlparser.ReservedVars
	needs      *sqlparser.BindVarNeeds
	cursor     *executorcontext.VCursorImpl
	err        error
}

// Unparsed is a statement that Vitess' parser does not take.
type Unparsed struct{ Reason string }

func (u *Unparsed) Error() string { return u.Reason }

// Parse parses and normalises a statement. The error is *Unparsed when the parser does not take it.
func (p *Planner) Parse(text string) (*Statement, error) { return p.parse(text, nil) }

// ParseUnqualified is Parse of the statement without the names of databases before tables.
func (p *Planner) ParseUnqualified(text string) (*Statement, error) {
	return p.parse(text, func(ast sqlparser.Statement) sqlparser.Statement {
		return sqlparser.Rewrite(ast, func(c *sqlparser.Cursor) bool {
			if t, ok := c.Node().(sqlparser.TableName); ok && t.Qualifier.NotEmpty() && !sqlparser.SystemSchema(t.Qualifier.String()) {
				if _, column := c.Parent().(*sqlparser.ColName); !column {
					c.Replace(sqlparser.TableName{Name: t.Name})
				}
			}
			if col, ok := c.Node().(*sqlparser.ColName); ok && col.Qualifier.Qualifier.NotEmpty() {
				col.Qualifier = sqlparser.TableName{Name: col.Qualifier.Name}
			}
			return true
		}, nil).(sqlparser.Statement)
	})
}

func (p *Planner) parse(text string, change func(sqlparser.Statement) sqlparser.Statement) (*Statement, error) {
	query, _ := sqlparser.SplitMarginComments(text)
	ast, known, err := p.env.Parser().Parse2(query)
	if err != nil {
		return nil, &Unparsed{Reason: hideReason(err)}
	}
	if change != nil {
		ast = change(ast)
	}
	s := &Statement{source: query, Values: map[string]*querypb.BindVariable{}, Kind: sqlparser.ASTToStatementType(ast).String()}
	s.Control = control(ast)
	s.AST = ast
	s.reserved = sqlparser.NewReservedVars("vtg", known)
	if s.cursor, err = p.newCursor(); err != nil {
		return nil, err
	}
	s.normalize(ast)
	return s, nil
}

// newCursor is the vcursor of a fresh session of a vtgate with default flags.
func (p *Planner) newCursor() (*executorcontext.VCursorImpl, error) {
	session := executorcontext.NewSafeSession(&vtgatepb.Session{TargetString: p.keyspace, Autocommit: true, EnableSystemSettings: true})
	c, err := executorcontext.NewVCursorImpl(session, sqlparser.MarginComments{}, p.exec, nil, p.exec, p.vschema, nil, nil, nil, executorcontext.VCursorConfig{
		Collation:         p.env.CollationEnv().DefaultConnectionCharset(),
		MaxMemoryRows:     300_000,
		DefaultTabletType: topodatapb.TabletType_PRIMARY,
		ForeignKeyMode:    vschemapb.Keyspace_unspecified,
		SetVarEnabled:     true,
		EnableViews:       true,
		PlannerVersion:    querypb.ExecuteOptions_Gen4,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make Vitess' vcursor: %w", err)
	}
	return c, nil
}

// normalize sets what the statement's planning needs. What Vitess refuses here is kept for Plan.
func (s *Statement) normalize(ast sqlparser.Statement) {
	hidden := ast
	defer func() { s.Text, s.Residual = show(hidden) }()
	if assigns(ast) {
		// Normalize says the same, but with a debugging line on stdout.
		s.err = vterrors.VT12001("Assignment expression")
		return
	}
	hints, err := sqlparser.BuildQueryHints(ast)
	if err != nil {
		s.err = err
		return
	}
	s.cursor.SetForeignKeyCheckState(hints.ForeignKeyChecks)
	s.AST = sqlparser.Clone(ast)
	result, err := sqlparser.Normalize(ast, s.reserved, s.Values, true, s.cursor.GetKeyspace(), s.cursor.SafeSession.GetSelectLimit(), "", nil, hints.ForeignKeyChecks, s.cursor)
	if err != nil {
		s.err = err
		return
	}
	s.normalized, s.needs, hidden = result.AST, result.BindVarNeeds, result.AST
	if result.UpdateQueryFromAST {
		s.source = sqlparser.String(result.AST)
	}
}

func assigns(ast sqlparser.Statement) bool {
	found := false
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		if _, ok := node.(*sqlparser.AssignmentExpr); ok {
			found = true
		}
		return !found, nil
	}, ast)
	return found
}

// Plan plans a statement. It may be called once for each Parse: planning changes the statement.
func (p *Planner) Plan(ctx context.Context, s *Statement) *Plan {
	if s.err != nil {
		return &Plan{Class: Unsupported, Reason: hideReason(s.err)}
	}
	plan, err := planbuilder.BuildFromStmt(ctx, s.source, s.normalized, s.reserved, s.cursor, s.needs, ddl{})
	if err != nil {
		return &Plan{Class: Unsupported, Reason: hideReason(err)}
	}
	out := &Plan{}
	if plan.Instructions != nil {
		p.describe(out, plan.Instructions)
	}
	out.Tables = plan.TablesUsed
	out.classify()
	for _, w := range s.cursor.GetAndEmptyWarnings() {
		out.Warnings = append(out.Warnings, w.Message)
	}
	return out
}

// Explain is the plan of a statement as VEXPLAIN PLAN of a vtgate prints it. The error of a
// statement that is refused is Vitess' own. Like Plan it may be called once for each Parse.
func (p *Planner) Explain(ctx context.Context, s *Statement) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	plan, err := planbuilder.BuildFromStmt(ctx, s.source, s.normalized, s.reserved, s.cursor, s.needs, ddl{})
	if err != nil {
		return "", err
	}
	if plan.Instructions == nil {
		return "", nil
	}
	out, err := json.MarshalIndent(engine.PrimitiveToPlanDescription(plan.Instructions, nil), "", "\t")
	if err != nil {
		return "", fmt.Errorf("print the plan: %w", err)
	}
	return string(out), nil
}

// ddl are vtgate's defaults: DDL is allowed, direct and online.
type ddl struct{}

func (ddl) OnlineEnabled() bool { return true }
func (ddl) DirectEnabled() bool { return true }

func control(ast sqlparser.Statement) Control {
	switch ast := ast.(type) {
	case *sqlparser.Begin:
		return Begin
	case *sqlparser.Commit:
		return Commit
	case *sqlparser.Rollback:
		return Rollback
	case *sqlparser.CreateTable:
		if ast.Temp {
			return NoControl
		}
		return ImplicitCommit
	case *sqlparser.DropTable:
		if ast.Temp {
			return NoControl
		}
		return ImplicitCommit
	case sqlparser.DDLStatement, sqlparser.DBDDLStatement, *sqlparser.LockTables:
		return ImplicitCommit
	case *sqlparser.Set:
		for _, e := range ast.Exprs {
			if !e.Var.Name.EqualString("autocommit") || e.Var.Scope == sqlparser.GlobalScope {
				continue
			}
			switch strings.ToLower(strings.Trim(sqlparser.String(e.Expr), "'`")) {
			case "0", "off", "false":
				return AutocommitOff
			case "1", "on", "true":
				return AutocommitOn
			}
		}
	}
	return NoControl
}

// show is a statement's text without values, and whether values are left in it.
func show(ast sqlparser.Statement) (text string, residual bool) {
	if insert, ok := ast.(*sqlparser.Insert); ok {
		if values, ok := insert.Rows.(sqlparser.Values); ok && len(values) > 2 {
			// Two rows stand for any number: they are planned alike.
			full := insert.Rows
			insert.Rows = values[:2]
			defer func() { insert.Rows = full }()
		}
	}
	positions := map[sqlparser.SQLNode]bool{}
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		switch node := node.(type) {
		case *sqlparser.Order:
			positions[node.Expr] = true
		case *sqlparser.GroupBy:
			for _, e := range node.Exprs {
				positions[e] = true
			}
		}
		return true, nil
	}, ast)
	buf := sqlparser.NewTrackedBuffer(func(buf *sqlparser.TrackedBuffer, node sqlparser.SQLNode) {
		switch node := node.(type) {
		case *sqlparser.Argument:
			buf.WriteString(":" + node.Name)
		case *sqlparser.ParsedComments:
			for _, c := range node.GetComments() {
				if strings.HasPrefix(c, "/*vt+") {
					buf.WriteString(c + " ")
				}
			}
		case *sqlparser.Literal:
			residual = true
			if positions[node] && node.Type == sqlparser.IntVal {
				buf.WriteString(positionMark + node.Val)
			} else {
				buf.WriteString("?")
			}
		default:
			node.Format(buf)
		}
	})
	buf.Myprintf("%v", ast)
	text = buf.String()
	hidden := fingerprint.Hide(text)
	switch ast.(type) {
	case *sqlparser.Select, *sqlparser.Union, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete, *sqlparser.CallProc:
		// A separator, a length of a cast: values that are no nodes of the tree.
		residual = residual || markerPart.MatchString(text)
	default:
		// SHOW … LIKE, comments of tables and the like are plain texts in the statement.
		residual = residual || hidden != text
	}
	return strings.ReplaceAll(hidden, positionMark, ""), residual
}

// positionMark stands before positions in ORDER BY and GROUP BY while values are hidden: to the
// scanner they are names.
const positionMark = ":__position_"

var (
	nearPart   = regexp.MustCompile(`(?s) near '.*$`)
	markerPart = regexp.MustCompile(fmt.Sprintf(`'?%s\d+'?|\b1\d{12}\b`, fingerprint.Marker))
)

// hideReason is Vitess' reason without values: the parser quotes what it stumbled over.
func hideReason(err error) string {
	text := err.Error()
	if nearPart.MatchString(text) {
		text = nearPart.ReplaceAllString(text, "")
	}
	return strings.TrimSpace(markerPart.ReplaceAllString(text, "?"))
}
