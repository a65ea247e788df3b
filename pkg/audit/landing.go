package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/vifl/vifl/pkg/audit/planner"
)

// The findings of a legacy shard's queries on its landing.
const (
	findUnparsed    = "L01"
	findRefused     = "L02"
	findQualified   = "L03"
	findCross       = "L04"
	findTables      = "L05"
	findNamed       = "L06"
	findTemporary   = "L07"
	findCall        = "L08"
	findLoadData    = "L09"
	findSetPins     = "L10"
	findSQLMode     = "L11"
	findTimeZone    = "L12"
	findUse         = "L13"
	findNoTeam      = "L14"
	findNoTeamTable = "L15"
	findIgnoredSet  = "L16"
)

var landingKinds = []kind{
	{id: findUnparsed, title: "Vitess' parser does not take it", breaks: true,
		why: "vtgate parses every statement and refuses this one", remedy: "rewrite it"},
	{id: findRefused, title: "Vitess' planner does not take it", breaks: true,
		why: "vtgate plans every statement, on unsharded keyspaces too, and refuses this one; the reason is Vitess' own", remedy: "rewrite it"},
	{id: findQualified, title: "a table with the legacy database's name before it", breaks: true,
		why:    "in a session on the keyspace a name before a table is a keyspace: VT05003 unknown database. A session on the shard (keyspace:0) hands it to MySQL as it is",
		remedy: "leave the name away, or let the application select keyspace:0"},
	{id: findCross, title: "tables of two databases in one statement", breaks: true,
		why: "the landing has one database", remedy: "move the other database's table along, or join in the application"},
	{id: findTables, title: "LOCK TABLES", breaks: true,
		why: "vtgate answers OK and locks nothing", remedy: "use a transaction with SELECT … FOR UPDATE"},
	{id: findNamed, title: "GET_LOCK and its like",
		why: "the lock is taken on the first keyspace (by name), not on the landing: two shards' applications share one name space of locks, and a connection there is pinned", remedy: "put the shard's number into the lock's name, or keep locks elsewhere"},
	{id: findTemporary, title: "a temporary table",
		why: "it works, and pins the session's connection until it ends", remedy: "count such sessions: each holds a connection of the tablet"},
	{id: findCall, title: "a call of a stored procedure",
		why: "it is sent to the tablet as it is; one that returns several results, changes settings or leaves a transaction open fails there", remedy: "try each on a landing"},
	{id: findLoadData, title: "LOAD DATA", breaks: true,
		why: "LOAD DATA LOCAL ends with error 3948; without LOCAL the file must be on the tablet's host", remedy: "load by INSERTs, or before the move"},
	{id: findSetPins, title: "a session setting that pins its connection",
		why: "vtgate keeps a connection of its own for the session (a reserved connection), outside of the pool", remedy: "set it on the server or the account instead"},
	{id: findSQLMode, title: "SET sql_mode",
		why: "the tablet's own default may be another one than the legacy's; vtgate hands a session's mode on with each query (SET_VAR)", remedy: "make the landing's default equal to the legacy's, then leave the SET away"},
	{id: findTimeZone, title: "SET time_zone",
		why: "it pins the session's connection, and named zones need the landing's time zone tables", remedy: "load the zone tables, or use offsets"},
	{id: findUse, title: "USE of a database", breaks: true,
		why: "the legacy database's name is no keyspace: VT05003 unknown database", remedy: "select the keyspace at connect"},
	{id: findNoTeam, title: "no team in the query",
		why: "against a keyspace sharded by team its plan names no team: on a landing it works, but it could never be routed by team", remedy: "add the team to the WHERE clause while the query's owner is at hand"},
	{id: findNoTeamTable, title: "a table without a team",
		why: "it does not have the team's column, so its rows could never be sharded by team by themselves", remedy: "add the column, or a lookup vindex"},
	{id: findIgnoredSet, title: "a session setting that vtgate ignores",
		why: "vtgate answers OK and does nothing, or checks only that the server has the value already", remedy: "see that the landing's server has the value"},
}

// Landing judges the queries of a legacy shard on its landing: an unsharded keyspace behind vtgate.
type Landing struct {
	// Database is the legacy database's name, empty when it is not known: any name before a
	// table is then reported.
	Database string
	// TeamColumns are the columns that hold a team's id.
	TeamColumns []TeamColumn

	keyspace string
	planner  *planner.Planner
	byTeam   *planner.Planner // the same tables, sharded by team; nil without a schema
	without  []string
}

// TeamColumn is a column that holds a team's id: in one table, or in all that have it.
type TeamColumn struct{ Table, Column string }

// ParseTeamColumns reads column,table.column,…
func ParseTeamColumns(text string) ([]TeamColumn, error) {
	var out []TeamColumn
	for _, item := range strings.Split(text, ",") {
		table, column, qualified := strings.Cut(strings.TrimSpace(item), ".")
		if !qualified {
			table, column = "", table
		}
		if column == "" || (qualified && table == "") {
			return nil, fmt.Errorf("found %q in %q, expected columns such as team_id,teams.id", item, text)
		}
		out = append(out, TeamColumn{Table: table, Column: column})
	}
	return out, nil
}

// NewLanding makes the two planners of a landing: of its own unsharded keyspace, and, when there
// is a schema (a file of CREATE TABLEs, or their text), of the same tables sharded by team.
func NewLanding(keyspace, database, schemaFile, creates string, columns []TeamColumn) (*Landing, error) {
	l := &Landing{Database: database, TeamColumns: columns, keyspace: keyspace}
	files, texts := map[string]string{}, map[string]string{}
	if schemaFile != "" {
		files[keyspace] = schemaFile
	}
	if creates != "" {
		texts[keyspace] = creates
	}
	v := planner.NewVSchema()
	if err := v.AddKeyspace(keyspace, &vschemapb.Keyspace{Tables: map[string]*vschemapb.Table{}}); err != nil {
		return nil, err
	}
	var err error
	l.planner, err = planner.New(planner.Options{VSchema: v, Schemas: files, Creates: texts, Keyspace: keyspace})
	if err != nil {
		return nil, err
	}
	if schemaFile == "" && creates == "" {
		return l, nil
	}
	ks := &vschemapb.Keyspace{Sharded: true, Vindexes: map[string]*vschemapb.Vindex{"team": {Type: "xxhash"}}, Tables: map[string]*vschemapb.Table{}}
	for table, has := range l.planner.Columns(keyspace) {
		column := l.teamColumn(table, has)
		if column == "" {
			// A reference table is on every shard, so that queries which join it are judged by
			// their other tables.
			ks.Tables[table] = &vschemapb.Table{Type: "reference"}
			l.without = append(l.without, table)
			continue
		}
		ks.Tables[table] = &vschemapb.Table{ColumnVindexes: []*vschemapb.ColumnVindex{{Column: column, Name: "team"}}}
	}
	slices.Sort(l.without)
	sharded := planner.NewVSchema()
	if err := sharded.AddKeyspace(keyspace, ks); err != nil {
		return nil, err
	}
	sharded.Shards[keyspace] = 2
	l.byTeam, err = planner.New(planner.Options{VSchema: sharded, Schemas: files, Creates: texts, Keyspace: keyspace})
	if err != nil {
		return nil, fmt.Errorf("shard the schema by team: %w", err)
	}
	return l, nil
}

// Keyspace is the landing's keyspace.
func (l *Landing) Keyspace() string { return l.keyspace }

// Planner is the planner of the landing's keyspace.
func (l *Landing) Planner() *planner.Planner { return l.planner }

// teamColumn is the first of TeamColumns that the table has, empty for none.
func (l *Landing) teamColumn(table string, has []string) string {
	for _, c := range l.TeamColumns {
		if c.Table == table {
			return c.Column
		}
	}
	for _, c := range l.TeamColumns {
		for _, name := range has {
			if c.Table == "" && strings.EqualFold(name, c.Column) {
				return name
			}
		}
	}
	return ""
}

// systemDatabases are those that MySQL has by itself.
var systemDatabases = []string{"information_schema", "performance_schema", "mysql", "sys"}

// judge lists what would break or change for a query.
func (l *Landing) judge(ctx context.Context, text string, st *planner.Statement, plan *planner.Plan) []string {
	var out []string
	add := func(when bool, id string) {
		if when {
			out = append(out, id)
		}
	}
	t := traitsOf(st.AST)
	qualified := 0
	legacy := false
	for _, q := range t.qualifiers {
		if slices.Contains(systemDatabases, strings.ToLower(q)) || q == l.keyspace {
			continue
		}
		qualified++
		legacy = legacy || q == l.Database || l.Database == ""
	}
	add(qualified > 0 && legacy, findQualified)
	add(qualified > 1 || (qualified == 1 && !legacy), findCross)
	switch ast := st.AST.(type) {
	case *sqlparser.LockTables:
		add(true, findTables)
	case *sqlparser.CallProc:
		add(true, findCall)
	case *sqlparser.Load:
		add(true, findLoadData)
	case *sqlparser.Use:
		name := ast.DBName.String()
		add(name != "" && name != l.keyspace && !strings.HasPrefix(name, l.keyspace+":") && !strings.HasPrefix(name, l.keyspace+"@") && !slices.Contains(systemDatabases, strings.ToLower(name)), findUse)
	case *sqlparser.Set:
		mode, zone := false, false
		for _, e := range ast.Exprs {
			mode = mode || e.Var.Name.EqualString("sql_mode")
			zone = zone || e.Var.Name.EqualString("time_zone")
		}
		add(mode, findSQLMode)
		add(zone, findTimeZone)
		pins := false
		for _, p := range plan.Pins {
			pins = pins || strings.HasPrefix(p, "SET ")
		}
		add(pins, findSetPins)
		add(len(plan.Ignored) > 0, findIgnoredSet)
	}
	add(plan.Locks || t.namedLock, findNamed)
	add(temporary(st.AST), findTemporary)
	// The finding of a USE says why already.
	add(plan.Class == planner.Unsupported && qualified == 0 && !slices.Contains(out, findUse), findRefused)
	add(l.teamless(ctx, text), findNoTeam)
	return out
}

// teamless says whether a query that reads or writes rows would go to more than one shard of a
// keyspace sharded by team. The names of databases are taken off first.
func (l *Landing) teamless(ctx context.Context, text string) bool {
	if l.byTeam == nil {
		return false
	}
	st, err := l.byTeam.ParseUnqualified(text)
	if err != nil {
		return false
	}
	switch st.AST.(type) {
	case *sqlparser.Select, *sqlparser.Union, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete:
	default:
		return false
	}
	plan := l.byTeam.Plan(ctx, st)
	if plan.Class == planner.Unsupported {
		// An INSERT without the team's column, a join that only one database can do, …
		return true
	}
	for _, part := range plan.Parts {
		if part.Null() {
			return true
		}
	}
	if plan.Class == planner.Reference {
		for _, t := range plan.Tables {
			if _, name, _ := strings.Cut(t, "."); slices.Contains(l.without, name) {
				return true
			}
		}
	}
	return plan.Class == planner.Scatter || plan.Class == planner.Several && !manyTeams(plan)
}

// manyTeams says whether a plan is on several shards only because it names several teams.
func manyTeams(plan *planner.Plan) bool {
	for _, part := range plan.Parts {
		if !part.Listed() && !part.Routed() && part.Operation != "InsertSharded" && !part.Anywhere() {
			return false
		}
	}
	return true
}

// objects adds the findings of the schema.
func (l *Landing) objects(get func(id string) *Finding) {
	for _, t := range l.without {
		f := get(findNoTeamTable)
		f.Objects = append(f.Objects, t)
		f.Distinct++
	}
}
