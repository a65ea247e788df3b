package audit

import (
	"slices"
	"sort"
	"strings"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/vifl/vifl/pkg/audit/planner"
)

// kind describes a finding. The texts are docs/audit.md's, too: a test compares them.
type kind struct {
	id, title, why, remedy string
	breaks                 bool
}

// The findings of queries on keyspaces.
const (
	findLimit        = "A01"
	findOffset       = "A02"
	findLocks        = "A03"
	findWrites       = "A04"
	findUnique       = "A05"
	findAutoInc      = "A06"
	findPins         = "A07"
	findNamedLock    = "A08"
	findLastInsertID = "A09"
	findFoundRows    = "A10"
	findMemory       = "A11"
	findTempTable    = "A12"
	findPerRow       = "A13"
	findUnsupported  = "A14"
	findLockTables   = "A15"
)

var kinds = []kind{
	{id: findLimit, title: "LIMIT without ORDER BY on a scatter", breaks: true,
		why:    "which rows come is decided by which shard answers first; the same query gives other rows next time, and pages overlap",
		remedy: "order by a unique column, or restrict to one shard"},
	{id: findOffset, title: "OFFSET on a scatter",
		why:    "vtgate asks every shard for offset + limit rows and throws most of them away",
		remedy: "page by the last key seen (WHERE id > …) instead"},
	{id: findLocks, title: "SELECT … FOR UPDATE or FOR SHARE on several shards",
		why:    "locks are taken on each shard in no common order: two such queries can wait for each other, no server sees the deadlock, and it ends by a time-out",
		remedy: "lock rows of one shard, or one row that stands for the whole"},
	{id: findWrites, title: "a write on several shards",
		why:    "it is committed shard by shard (transaction mode MULTI): a failure between leaves a part of it; with mode SINGLE it is refused",
		remedy: "write one shard at a time, or set the transaction mode to TWOPC and pay for it"},
	{id: findUnique, title: "a unique key that does not hold over all shards", breaks: true,
		why:    "MySQL enforces it on each shard only: two shards can hold the same value",
		remedy: "add the columns of the primary vindex to the key, or make a unique lookup vindex (consistent_lookup_unique) of it"},
	{id: findAutoInc, title: "AUTO_INCREMENT without a sequence on a sharded table", breaks: true,
		why:    "each shard counts by itself: ids are given twice",
		remedy: "name a sequence in the vschema (auto_increment)"},
	{id: findPins, title: "a session setting that pins its connection",
		why:    "vtgate keeps a connection of its own to each shard for the session (a reserved connection), outside of the pool: many such sessions exhaust MySQL's connections",
		remedy: "set it on the server or the account instead, or not at all"},
	{id: findNamedLock, title: "GET_LOCK and its like",
		why:    "the lock is taken on one shard of the first keyspace (by name), whatever is locked, and pins a connection there",
		remedy: "keep such locks where locks are kept (etcd, ZooKeeper), or lock a row"},
	{id: findLastInsertID, title: "LAST_INSERT_ID()",
		why:    "vtgate answers from its session: the last id of a sequence or of an INSERT through this session; LAST_INSERT_ID(expr) on several shards keeps one shard's value",
		remedy: "use the id that the driver returns with the INSERT"},
	{id: findFoundRows, title: "SQL_CALC_FOUND_ROWS or FOUND_ROWS()",
		why:    "vtgate runs the query a second time to count; on a scatter on all shards",
		remedy: "count by a query of its own, where the count is needed"},
	{id: findMemory, title: "rows sorted, joined or aggregated in vtgate's memory",
		why:    "vtgate holds the rows of all shards; beyond --max-memory-rows (300,000) the query fails",
		remedy: "restrict to one shard, or aggregate by the primary vindex's column"},
	{id: findTempTable, title: "a temporary table",
		why:    "it works in unsharded keyspaces only, and pins the session's connection",
		remedy: "use a table with a key of the session, or do the step in the application"},
	{id: findPerRow, title: "a join that vtgate makes row by row",
		why:    "the inner query is sent once for each row of the outer one: its price grows with the rows, not with the shards",
		remedy: "join on the columns of one vindex, so that both tables are on one shard, or make the small table a reference table"},
	{id: findUnsupported, title: "not supported by Vitess", breaks: true,
		why:    "vtgate refuses it; the reason is Vitess' own",
		remedy: "rewrite it; docs.vitess.io lists what is supported"},
	{id: findLockTables, title: "LOCK TABLES", breaks: true,
		why:    "vtgate answers OK and locks nothing",
		remedy: "use a transaction with SELECT … FOR UPDATE"},
}

func kindOf(id string) kind {
	for _, list := range [][]kind{kinds, landingKinds} {
		for _, k := range list {
			if k.id == id {
				return k
			}
		}
	}
	return kind{id: id, title: id}
}

// traits are what a walk over a statement finds.
type traits struct {
	limit, offset, orderBy, forUpdate  bool
	lastInsertID, foundRows, namedLock bool
	qualifiers                         []string // of tables, sorted
}

func traitsOf(ast sqlparser.Statement) traits {
	var t traits
	switch ast := ast.(type) {
	case *sqlparser.Select:
		t.limit, t.orderBy = ast.Limit != nil, len(ast.OrderBy) > 0
		t.offset = ast.Limit != nil && ast.Limit.Offset != nil
		t.forUpdate = ast.Lock != sqlparser.NoLock
		t.foundRows = ast.SQLCalcFoundRows
	case *sqlparser.Union:
		t.limit, t.orderBy = ast.Limit != nil, len(ast.OrderBy) > 0
		t.offset = ast.Limit != nil && ast.Limit.Offset != nil
		t.forUpdate = ast.Lock != sqlparser.NoLock
	}
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		switch node := node.(type) {
		case *sqlparser.FuncExpr:
			switch {
			case node.Name.EqualString("last_insert_id"):
				t.lastInsertID = true
			case node.Name.EqualString("found_rows"):
				t.foundRows = true
			}
		case *sqlparser.LockingFunc:
			t.namedLock = true
		case sqlparser.TableName:
			if q := node.Qualifier.String(); q != "" && !slices.Contains(t.qualifiers, q) {
				t.qualifiers = append(t.qualifiers, q)
			}
		}
		return true, nil
	}, ast)
	sort.Strings(t.qualifiers)
	return t
}

// judge lists what is known to bite in a query, by its statement and plan.
func judge(st *planner.Statement, plan *planner.Plan) []string {
	t := traitsOf(st.AST)
	many := plan.Class == planner.Scatter || plan.Class == planner.Several
	var out []string
	add := func(when bool, id string) {
		if when {
			out = append(out, id)
		}
	}
	add(t.limit && !t.orderBy && many, findLimit)
	add(t.offset && many, findOffset)
	add(t.forUpdate && many, findLocks)
	add(many && plan.Writes(), findWrites)
	temp := false
	for _, pin := range plan.Pins {
		temp = temp || pin == "a temporary table"
	}
	add(len(plan.Pins) > 0 && !temp && !plan.Locks, findPins)
	add(plan.Locks || t.namedLock, findNamedLock)
	add(t.lastInsertID, findLastInsertID)
	add(t.foundRows, findFoundRows)
	add(len(plan.Memory) > 0 && many, findMemory)
	add(temp || temporary(st.AST), findTempTable)
	perRow := false
	for _, part := range plan.Parts {
		perRow = perRow || part.PerRow
	}
	add(perRow, findPerRow)
	add(plan.Class == planner.Unsupported, findUnsupported)
	_, locks := st.AST.(*sqlparser.LockTables)
	add(locks, findLockTables)
	return out
}

func temporary(ast sqlparser.Statement) bool {
	create, ok := ast.(*sqlparser.CreateTable)
	return ok && create.Temp
}

// findings gathers the findings of the queries, in the order of their ids, and those of the schema.
func (a *Auditor) findings(queries []Query) []Finding {
	byID := map[string]*Finding{}
	get := func(id string) *Finding {
		f := byID[id]
		if f == nil {
			k := kindOf(id)
			f = &Finding{ID: k.id, Title: k.title, Breaks: k.breaks, Why: k.why, Remedy: k.remedy}
			byID[id] = f
		}
		return f
	}
	byCalls := slices.Clone(queries)
	sort.SliceStable(byCalls, func(i, j int) bool { return byCalls[i].Calls > byCalls[j].Calls })
	for _, q := range byCalls {
		ids := q.Findings
		if q.Class == planner.Unsupported && a.o.Landing == nil && !slices.Contains(ids, findUnsupported) {
			ids = append(slices.Clone(ids), findUnsupported)
		}
		for _, id := range ids {
			f := get(id)
			f.Queries = append(f.Queries, q.ID)
			f.Calls += q.Calls
			f.Distinct++
		}
	}
	if a.o.Landing == nil {
		for _, k := range a.o.Planner.ShardedUniqueKeys() {
			f := get(findUnique)
			what := "unique key"
			if k.Primary {
				what = "primary key"
			}
			f.Objects = append(f.Objects, k.Table+": "+what+" ("+strings.Join(k.Columns, ", ")+")")
			f.Distinct++
		}
		for _, t := range a.o.Planner.AutoIncrements() {
			f := get(findAutoInc)
			f.Objects = append(f.Objects, t)
			f.Distinct++
		}
	} else {
		a.o.Landing.objects(get)
	}
	out := []Finding{}
	for _, f := range byID {
		out = append(out, *f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}
