package planner

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"vitess.io/vitess/go/vt/key"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	"vitess.io/vitess/go/vt/sqlparser"
	"vitess.io/vitess/go/vt/topo/topoproto"
	"vitess.io/vitess/go/vt/vterrors"
	"vitess.io/vitess/go/vt/vtgate/engine"
	"vitess.io/vitess/go/vt/vtgate/evalengine"
	"vitess.io/vitess/go/vt/vtgate/vindexes"
)

// Class says to how many shards a statement goes.
type Class string

// The classes, from the best to the worst.
const (
	// None reaches no shard: vtgate answers by itself (SET, BEGIN, USE, …).
	None Class = "none"
	// OneShard goes to the shard that a unique vindex names.
	OneShard Class = "one_shard"
	// Reference goes to any one shard: reference tables, sequences, information_schema.
	Reference Class = "reference"
	// Unsharded goes to an unsharded keyspace.
	Unsharded Class = "unsharded"
	// Several goes to some shards: IN lists, INSERTs of several rows, non-unique vindexes, joins
	// that vtgate makes of queries to one shard each.
	Several Class = "several"
	// Scatter goes to all shards, with one of its parts at least.
	Scatter Class = "scatter"
	// DDL changes a schema, on all shards.
	DDL Class = "ddl"
	// Unsupported is refused by Vitess' parser or planner.
	Unsupported Class = "unsupported"
)

// Classes lists the classes from the best to the worst.
var Classes = []Class{None, OneShard, Reference, Unsharded, Several, Scatter, DDL, Unsupported}

// Single says whether a statement of the class goes to one shard.
func (c Class) Single() bool { return c == OneShard || c == Reference || c == Unsharded }

// Rank orders classes: a greater one is worse. OneShard, Reference and Unsharded are equal.
func (c Class) Rank() int {
	switch c {
	case None:
		return 0
	case OneShard, Reference, Unsharded:
		return 1
	case Several:
		return 2
	case Scatter, DDL:
		return 3
	}
	return 4
}

// Part is one query that vtgate sends to tablets for a statement.
type Part struct {
	Keyspace  string `json:"keyspace"`
	Operation string `json:"operation"` // Vitess' opcode: EqualUnique, IN, Scatter, …
	Vindex    string `json:"vindex,omitempty"`
	Tables    string `json:"tables,omitempty"`
	// PerRow is true for the inner side of a join that vtgate makes: it is sent once for each
	// row of the outer side.
	PerRow bool `json:"per_row,omitempty"`
	// Lookup is true for queries of lookup vindexes and sequences.
	Lookup bool `json:"lookup,omitempty"`
	// Writes is true for INSERT, UPDATE, DELETE.
	Writes bool `json:"writes,omitempty"`

	opcode engine.Opcode
	shards int // of the keyspace
	rows   bool
	null   bool // of an INSERT: a primary vindex column is NULL
	vindex vindexes.Vindex
	values []evalengine.Expr
}

// Plan is what vtgate would do with a statement.
type Plan struct {
	Class  Class
	Reason string // of Unsupported: Vitess' own words
	Parts  []Part
	Tables []string // keyspace.table
	// Pins says what in the statement binds its session to one connection for as long as the
	// session lasts (a reserved connection).
	Pins []string
	// Locks is true for GET_LOCK and its like.
	Locks bool
	// Memory lists what vtgate does with rows in its own memory: sort, aggregate, distinct, …
	Memory []string
	// Warnings are Vitess'.
	Warnings []string
	// Ignored are system variables that a SET names and vtgate does not set.
	Ignored []string
}

// Vindexes are the vindexes by which the statement is routed, sorted.
func (p *Plan) Vindexes() []string {
	seen := map[string]bool{}
	var out []string
	for _, part := range p.Parts {
		if v := part.Vindex; v != "" && !part.Lookup && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	sort.Strings(out)
	return out
}

// ShardQueries is how many queries a call sends to shards. values is the number of values of
// the IN list behind a part (0: not known), rows that of an INSERT. least is true when it is
// only a lower bound: the inner side of a join is counted once, a non-unique vindex as one shard.
func (p *Plan) ShardQueries(values func(Part) int, rows int) (n float64, least bool) {
	for _, part := range p.Parts {
		shards := float64(part.shards)
		switch {
		case part.Lookup:
			n++
		case part.rows:
			n += spread(shards, max(rows, 1))
		default:
			switch part.opcode {
			case engine.Scatter:
				n += shards
			case engine.IN, engine.MultiEqual:
				count := values(part)
				if count == 0 {
					least, count = true, 2
				}
				n += spread(shards, count)
			case engine.Equal, engine.Between, engine.SubShard:
				n++
				least = true
			case engine.None:
			default:
				n++
			}
		}
		least = least || part.PerRow
	}
	return n, least
}

// spread is the number of shards that n values hit in the mean when values are spread evenly.
func spread(shards float64, n int) float64 {
	if n == 1 || shards <= 1 {
		return 1
	}
	return shards * (1 - math.Pow(1-1/shards, float64(n)))
}

// Fanout is the number of shards of the widest part.
func (p *Plan) Fanout() int {
	n := 0
	for _, part := range p.Parts {
		switch {
		case part.Lookup:
		case part.opcode == engine.Scatter && part.shards > n:
			n = part.shards
		case n == 0 && part.opcode != engine.None:
			n = 1
		}
	}
	return n
}

// Writes says whether the statement changes rows.
func (p *Plan) Writes() bool {
	for _, part := range p.Parts {
		if part.Writes && !part.Lookup {
			return true
		}
	}
	return false
}

// classify sets the class by the parts.
func (p *Plan) classify() {
	if p.Class != "" {
		return
	}
	unsharded := map[string]bool{}
	routes := map[string]bool{}
	several, scatter, any := false, false, false
	for _, part := range p.Parts {
		if part.Lookup {
			continue
		}
		switch part.opcode {
		case engine.Scatter:
			scatter = true
		case engine.Unsharded:
			unsharded[part.Keyspace] = true
		case engine.EqualUnique:
			routes[part.Keyspace+"\x00"+part.Vindex+"\x00"+valuesText(part.values)] = true
			several = several || part.PerRow
		case engine.Reference, engine.Next, engine.DBA:
			any = true
		case engine.None:
		default:
			several = true
		}
	}
	switch {
	case scatter:
		p.Class = Scatter
	case several || len(routes)+len(unsharded) > 1:
		p.Class = Several
	case len(routes) == 1:
		p.Class = OneShard
	case len(unsharded) == 1:
		p.Class = Unsharded
	case any:
		p.Class = Reference
	default:
		p.Class = None
	}
}

func valuesText(values []evalengine.Expr) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s,", sqlparser.String(v))
	}
	return b.String()
}

// describe walks a plan's primitives.
func (p *Planner) describe(out *Plan, prim engine.Primitive) { p.walk(out, prim, false, false) }

func (p *Planner) walk(out *Plan, prim engine.Primitive, perRow, lookup bool) {
	add := func(part Part) {
		part.PerRow, part.Lookup = perRow, part.Lookup || lookup
		part.shards = max(p.shards[part.Keyspace], 1)
		out.Parts = append(out.Parts, part)
	}
	routed := func(rp *engine.RoutingParameters, tables string, writes bool) {
		part := Part{Operation: rp.Opcode.String(), Tables: tables, Writes: writes, opcode: rp.Opcode, vindex: rp.Vindex, values: rp.Values}
		if rp.Keyspace != nil {
			part.Keyspace = rp.Keyspace.Name
		}
		if rp.Vindex != nil {
			part.Vindex = rp.Vindex.String()
		}
		if rp.Opcode == engine.ByDestination {
			part.opcode = destination(rp.TargetDestination, rp.Keyspace)
		}
		add(part)
		p.lookups(rp.Vindex, add)
	}
	memory := func(what string) { out.Memory = append(out.Memory, what) }
	switch prim := prim.(type) {
	case *engine.Route:
		routed(prim.RoutingParameters, strings.Join(p.routeTables(prim), ", "), false)
	case *engine.Update:
		routed(prim.RoutingParameters, strings.Join(prim.TableNames, ", "), true)
		p.owned(prim.DML, len(prim.ChangedVindexValues), add)
	case *engine.Delete:
		routed(prim.RoutingParameters, strings.Join(prim.TableNames, ", "), true)
		p.owned(prim.DML, len(prim.Vindexes), add)
	case *engine.Insert:
		p.insert(&prim.InsertCommon, prim, add)
	case *engine.InsertSelect:
		p.insert(&prim.InsertCommon, nil, add)
	case *engine.VindexLookup:
		p.walk(out, prim.Lookup, perRow, true)
		part := Part{Keyspace: prim.Keyspace.Name, Operation: prim.Opcode.String(), Vindex: prim.Vindex.String(), opcode: prim.Opcode, values: prim.Values}
		part.Tables = strings.Join(p.routeTables(prim.SendTo), ", ")
		add(part)
		return
	case *engine.Send:
		part := Part{Operation: "Send", Writes: prim.IsDML, opcode: destination(prim.TargetDestination, prim.Keyspace)}
		if prim.Keyspace != nil {
			part.Keyspace = prim.Keyspace.Name
		}
		if prim.ReservedConnectionNeeded {
			out.Pins = append(out.Pins, "a reserved connection")
		}
		add(part)
	case *engine.DDL:
		out.Class = DDL
		if prim.CreateTempTable {
			out.Pins = append(out.Pins, "a temporary table")
		}
		add(Part{Keyspace: prim.Keyspace.Name, Operation: "DDL", opcode: destination(key.DestinationAllShards{}, prim.Keyspace)})
	case *engine.UpdateTarget:
		// vtgate refuses it when it runs it, not when it plans it.
		if keyspace, _, _, _, err := topoproto.ParseDestination(prim.Target, topodatapb.TabletType_PRIMARY); err != nil {
			out.Class, out.Reason = Unsupported, hideReason(err)
		} else if keyspace != "" && !sqlparser.SystemSchema(keyspace) && p.shards[keyspace] == 0 {
			out.Class, out.Reason = Unsupported, hideReason(vterrors.VT05003(keyspace))
		}
	case *engine.DBDDL, *engine.AlterVSchema, *engine.OnlineDDL, *engine.RevertMigration:
		out.Class = DDL
	case *engine.Lock:
		out.Locks = true
		add(Part{Keyspace: prim.Keyspace.Name, Operation: "Lock", opcode: engine.Reference})
		out.Pins = append(out.Pins, "a named lock")
	case *engine.Set:
		for _, op := range prim.Ops {
			switch op := op.(type) {
			case *engine.SysVarReservedConn:
				if !op.SupportSetVar {
					out.Pins = append(out.Pins, "SET "+op.Name)
				}
			case *engine.SysVarIgnore:
				out.Ignored = append(out.Ignored, op.Name)
			case *engine.SysVarCheckAndIgnore:
				out.Ignored = append(out.Ignored, op.Name)
			}
		}
	case *engine.MemorySort:
		memory("sort")
	case *engine.HashJoin:
		memory("hash join")
	case *engine.Distinct:
		memory("distinct")
	case *engine.OrderedAggregate, *engine.ScalarAggregate:
		memory("aggregate")
	}
	inputs, _ := prim.Inputs()
	if set, ok := prim.(*engine.Set); ok && len(set.Ops) > 0 {
		inputs = []engine.Primitive{set.Input}
	}
	for i, in := range inputs {
		if in == nil {
			continue
		}
		inner := perRow
		switch prim.(type) {
		case *engine.Join, *engine.SemiJoin, *engine.DMLWithInput:
			inner = perRow || i > 0
		case *engine.RecurseCTE:
			inner = perRow || i > 0
		}
		p.walk(out, in, inner, lookup)
	}
}

// routeTables are the tables of a route.
func (p *Planner) routeTables(r *engine.Route) []string {
	if r == nil || r.QueryStatement == nil {
		return nil
	}
	return tablesOf(r.QueryStatement)
}

// destination is the opcode that counts as many shards as a destination has.
func destination(d key.ShardDestination, ks *vindexes.Keyspace) engine.Opcode {
	if ks != nil && !ks.Sharded {
		return engine.Unsharded
	}
	switch d.(type) {
	case key.DestinationAllShards:
		return engine.Scatter
	case key.DestinationAnyShard:
		return engine.Reference
	case key.DestinationShard, key.DestinationKeyspaceID:
		return engine.EqualUnique
	case key.DestinationNone:
		return engine.None
	}
	return engine.ByDestination
}

// lookups adds the query that a lookup vindex makes. A vindex that is no lookup of Vitess' own
// (legacy_shard) keeps a cache and is not counted.
func (p *Planner) lookups(v vindexes.Vindex, add func(Part)) {
	if v == nil {
		return
	}
	if _, ok := v.(vindexes.Lookup); ok {
		add(Part{Operation: "Lookup", Vindex: v.String(), Lookup: true, opcode: engine.EqualUnique})
	}
}

// owned adds what a change of rows costs in owned lookup vindexes: the rows are read first, then
// each vindex is changed.
func (p *Planner) owned(dml *engine.DML, changed int, add func(Part)) {
	if dml.OwnedVindexQuery == "" || changed == 0 {
		return
	}
	add(Part{Operation: "OwnedVindexQuery", Lookup: true, Writes: true, opcode: engine.EqualUnique})
	for range changed {
		add(Part{Operation: "LookupChange", Lookup: true, Writes: true, opcode: engine.EqualUnique})
	}
}

func (p *Planner) insert(c *engine.InsertCommon, in *engine.Insert, add func(Part)) {
	part := Part{Keyspace: c.Keyspace.Name, Tables: c.TableName, Writes: true}
	if c.Opcode == engine.InsertUnsharded {
		part.Operation, part.opcode = "InsertUnsharded", engine.Unsharded
		add(part)
		return
	}
	part.Operation, part.rows = "InsertSharded", true
	part.opcode = engine.IN
	if len(c.ColVindexes) > 0 {
		part.Vindex, part.vindex = c.ColVindexes[0].Name, c.ColVindexes[0].Vindex
	}
	if in != nil && len(in.VindexValues) > 0 {
		for _, column := range in.VindexValues[0] {
			for _, v := range column {
				part.null = part.null || sqlparser.String(v) == "null"
			}
		}
	}
	if in != nil && len(in.Mid) == 1 {
		part.opcode = engine.EqualUnique
		if len(in.VindexValues) > 0 {
			for _, column := range in.VindexValues[0] {
				if len(column) == 1 {
					part.values = append(part.values, column[0])
				}
			}
		}
	}
	add(part)
	for i, v := range c.ColVindexes {
		if i > 0 && v.Owned {
			add(Part{Operation: "LookupInsert", Vindex: v.Name, Lookup: true, Writes: true, opcode: engine.EqualUnique})
		} else {
			p.lookups(v.Vindex, add)
		}
	}
	if c.Generate != nil {
		add(Part{Keyspace: c.Generate.Keyspace.Name, Operation: "Next", Lookup: true, opcode: engine.Next})
	}
}
