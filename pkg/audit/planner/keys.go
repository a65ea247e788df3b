package planner

import (
	"sort"
	"strings"

	"vitess.io/vitess/go/vt/sqlparser"
	"vitess.io/vitess/go/vt/vtgate/vindexes"
)

// ShardedUniqueKeys lists the unique keys of sharded tables that do not hold all columns of the
// primary vindex, nor are those of a unique vindex by themselves: two shards can have the same
// value. A primary key whose column comes from a sequence is left out. It needs the schema.
func (p *Planner) ShardedUniqueKeys() []UniqueKey {
	var out []UniqueKey
	for name, ks := range p.vschema.Keyspaces {
		if !ks.Keyspace.Sharded {
			continue
		}
		for _, t := range ks.Tables {
			if t.Type == vindexes.TypeReference || t.Type == vindexes.TypeSequence || len(t.ColumnVindexes) == 0 {
				continue
			}
			add := func(columns []string, primary bool) {
				if !coversVindex(t, columns) && !(len(columns) == 1 && t.AutoIncrement != nil && t.AutoIncrement.Column.EqualString(columns[0])) {
					out = append(out, UniqueKey{Table: name + "." + t.Name.String(), Columns: columns, Primary: primary})
				}
			}
			var primary []string
			for _, c := range t.PrimaryKey {
				primary = append(primary, c.String())
			}
			if len(primary) > 0 {
				add(primary, true)
			}
			for _, k := range t.UniqueKeys {
				var columns []string
				for _, e := range k {
					columns = append(columns, strings.Trim(sqlparser.String(e), "`"))
				}
				add(columns, false)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Table != out[j].Table {
			return out[i].Table < out[j].Table
		}
		return strings.Join(out[i].Columns, ",") < strings.Join(out[j].Columns, ",")
	})
	return out
}

// coversVindex says whether equal values of the columns are on one shard: they hold all columns
// of the primary vindex, or of a unique lookup, which is unique over all shards.
func coversVindex(t *vindexes.BaseTable, columns []string) bool {
	for i, v := range t.ColumnVindexes {
		if i > 0 && !v.IsUnique() {
			continue
		}
		all := true
		for _, c := range v.Columns {
			found := false
			for _, name := range columns {
				found = found || c.EqualString(name)
			}
			all = all && found
		}
		if all {
			return true
		}
	}
	return false
}

// AutoIncrements lists the sharded tables (keyspace.table) that have AUTO_INCREMENT in their
// schema and no sequence in their vschema: each shard counts by itself.
func (p *Planner) AutoIncrements() []string {
	var out []string
	for ks, t := range p.schemas {
		if !p.vschema.Keyspaces[ks].Keyspace.Sharded {
			continue
		}
		for _, create := range t.creates {
			name := create.Table.Name.String()
			for _, c := range create.TableSpec.Columns {
				if c.Type.Options.Autoincrement && p.vschema.Keyspaces[ks].Tables[name].AutoIncrement == nil {
					out = append(out, ks+"."+name)
				}
			}
		}
	}
	sort.Strings(out)
	return out
}

// Columns are the names of the columns of each table in a keyspace's schema.
func (p *Planner) Columns(keyspace string) map[string][]string {
	out := map[string][]string{}
	for _, create := range p.schemas[keyspace].creates {
		var names []string
		for _, c := range create.TableSpec.Columns {
			names = append(names, c.Name.String())
		}
		out[create.Table.Name.String()] = names
	}
	return out
}
