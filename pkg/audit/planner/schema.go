package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"vitess.io/vitess/go/json2"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	"vitess.io/vitess/go/vt/sqlparser"
	"vitess.io/vitess/go/vt/vtgate/vindexes"
)

// VSchema gathers the vschemas of the keyspaces that queries are planned against.
type VSchema struct {
	srv *vschemapb.SrvVSchema
	// Shards is the number of shards by keyspace; unsharded keyspaces have 1.
	Shards map[string]int
}

// NewVSchema is an empty vschema.
func NewVSchema() *VSchema {
	return &VSchema{srv: &vschemapb.SrvVSchema{Keyspaces: map[string]*vschemapb.Keyspace{}}, Shards: map[string]int{}}
}

// AddKeyspace adds a keyspace. A name that is there already is an error.
func (v *VSchema) AddKeyspace(name string, ks *vschemapb.Keyspace) error {
	if _, ok := v.srv.Keyspaces[name]; ok {
		return fmt.Errorf("keyspace %q is given twice", name)
	}
	v.srv.Keyspaces[name] = ks
	return nil
}

// AddAll adds all keyspaces of a cell, and its routing rules.
func (v *VSchema) AddAll(srv *vschemapb.SrvVSchema) error {
	for name, ks := range srv.Keyspaces {
		if err := v.AddKeyspace(name, ks); err != nil {
			return err
		}
	}
	if rules := srv.RoutingRules; rules != nil {
		if v.srv.RoutingRules == nil {
			v.srv.RoutingRules = &vschemapb.RoutingRules{}
		}
		v.srv.RoutingRules.Rules = append(v.srv.RoutingRules.Rules, rules.Rules...)
	}
	return nil
}

// AddFile reads a vschema from a JSON file: of one keyspace, as vtctldclient GetVSchema prints
// it and ApplyVSchema takes it, or of all, as GetSrvVSchema prints it. arg is KEYSPACE=FILE, or
// FILE alone, where a keyspace's name is the file's without what is behind its first dot.
func (v *VSchema) AddFile(arg string) error {
	name, path, named := strings.Cut(arg, "=")
	if !named {
		path = arg
		name, _, _ = strings.Cut(filepath.Base(path), ".")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the vschema: %w", err)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return fmt.Errorf("vschema %s: found no JSON object (%w), expected what vtctldclient GetVSchema KEYSPACE or GetSrvVSchema CELL prints", path, err)
	}
	if _, all := top["keyspaces"]; all {
		srv := &vschemapb.SrvVSchema{}
		if err := json2.UnmarshalPB(data, srv); err != nil {
			return fmt.Errorf("vschema %s: %w", path, err)
		}
		if err := v.AddAll(srv); err != nil {
			return fmt.Errorf("vschema %s: %w", path, err)
		}
		return nil
	}
	ks := &vschemapb.Keyspace{}
	if err := json2.UnmarshalPB(data, ks); err != nil {
		return fmt.Errorf("vschema %s: %w", path, err)
	}
	if err := v.AddKeyspace(name, ks); err != nil {
		return fmt.Errorf("vschema %s: %w", path, err)
	}
	return nil
}

// Keyspaces are the names of the keyspaces, sorted.
func (v *VSchema) Keyspaces() []string {
	var names []string
	for name := range v.srv.Keyspaces {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Sharded says whether a keyspace is.
func (v *VSchema) Sharded(keyspace string) bool { return v.srv.Keyspaces[keyspace].GetSharded() }

// tables are the CREATE TABLEs and views of one keyspace.
type tables struct {
	creates []*sqlparser.CreateTable
	views   []*sqlparser.CreateView
}

// readSchema reads the CREATE TABLE and CREATE VIEW statements of a file such as mysqldump
// --no-data writes. Other statements are passed over; one of these that Vitess' parser does not
// take is an error.
func readSchema(parser *sqlparser.Parser, name, text string) (tables, error) {
	var t tables
	pieces, err := parser.SplitStatementToPieces(text)
	if err != nil {
		return t, fmt.Errorf("schema %s: split into statements: %w", name, err)
	}
	for _, p := range pieces {
		stmt, err := parser.ParseStrictDDL(p)
		if err != nil {
			if head := strings.ToLower(strings.Join(strings.Fields(sqlparser.StripLeadingComments(p)), " ")); strings.HasPrefix(head, "create table") || strings.HasPrefix(head, "create view") {
				return t, fmt.Errorf("schema %s: Vitess' parser does not take %q: %w", name, head[:min(len(head), 60)], err)
			}
			continue
		}
		switch stmt := stmt.(type) {
		case *sqlparser.CreateTable:
			if stmt.TableSpec == nil {
				return t, fmt.Errorf("schema %s: table %s has no columns (CREATE TABLE … LIKE): give it in full, as SHOW CREATE TABLE prints it", name, sqlparser.String(stmt.Table))
			}
			t.creates = append(t.creates, stmt)
		case *sqlparser.CreateView:
			t.views = append(t.views, stmt)
		}
	}
	if len(t.creates) == 0 {
		return t, fmt.Errorf("schema %s: found no CREATE TABLE, expected what mysqldump --no-data writes", name)
	}
	return t, nil
}

// build makes what vtgate keeps in memory: BuildVSchema, then the columns, keys, foreign keys and
// views of the schema, as go/vt/vtgate/vschema_manager.go adds what its schema tracker has read.
func build(v *VSchema, parser *sqlparser.Parser, schemas map[string]tables) (*vindexes.VSchema, error) {
	vschema := vindexes.BuildVSchema(v.srv, parser)
	var errs []error
	for _, name := range v.Keyspaces() {
		ks := vschema.Keyspaces[name]
		if ks == nil {
			errs = append(errs, fmt.Errorf("keyspace %q: Vitess does not build it", name))
			continue
		}
		if ks.Error != nil {
			errs = append(errs, fmt.Errorf("vschema of keyspace %q: %w", name, ks.Error))
		}
		for vname, vindex := range ks.Vindexes {
			if pv, ok := vindex.(vindexes.ParamValidating); ok && len(pv.UnknownParams()) > 0 {
				errs = append(errs, fmt.Errorf("vschema of keyspace %q: vindex %q does not have the parameters %q", name, vname, pv.UnknownParams()))
			}
		}
	}
	for name, t := range schemas {
		ks := vschema.Keyspaces[name]
		if ks == nil {
			errs = append(errs, fmt.Errorf("schema of keyspace %q: found no vschema of it, expected one of %q", name, v.Keyspaces()))
			continue
		}
		addTables(ks, t)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for name, t := range schemas {
		addForeignKeys(vschema, name, t)
		ks := vschema.Keyspaces[name]
		for _, view := range t.views {
			if ks.Views == nil {
				ks.Views = map[string]*vindexes.View{}
			}
			vname := view.ViewName.Name.String()
			ks.Views[vname] = &vindexes.View{Name: vname, Keyspace: ks.Keyspace, Statement: view.Select}
		}
	}
	vindexes.AddAdditionalGlobalTables(v.srv, vschema)
	vindexes.RebuildRoutingRules(v.srv, vschema, parser)
	return vschema, nil
}

func addTables(ks *vindexes.KeyspaceSchema, t tables) {
	for _, create := range t.creates {
		name := create.Table.Name.String()
		table := ks.Tables[name]
		if table == nil {
			table = &vindexes.BaseTable{Name: sqlparser.NewIdentifierCS(name), Keyspace: ks.Keyspace}
			ks.Tables[name] = table
		}
		if !table.ColumnListAuthoritative {
			table.Columns, table.ColumnListAuthoritative = columns(create.TableSpec), true
		}
		for _, c := range create.TableSpec.Columns {
			switch c.Type.Options.KeyOpt {
			case sqlparser.ColKeyPrimary:
				table.PrimaryKey = sqlparser.Columns{c.Name}
			case sqlparser.ColKeyUnique, sqlparser.ColKeyUniqueKey:
				table.UniqueKeys = append(table.UniqueKeys, []sqlparser.Expr{sqlparser.NewColName(c.Name.String())})
			}
		}
		for _, ix := range create.TableSpec.Indexes {
			switch ix.Info.Type {
			case sqlparser.IndexTypePrimary:
				for _, c := range ix.Columns {
					table.PrimaryKey = append(table.PrimaryKey, c.Column)
				}
			case sqlparser.IndexTypeUnique:
				var key []sqlparser.Expr
				for _, c := range ix.Columns {
					if c.Expression == nil {
						key = append(key, sqlparser.NewColName(c.Column.String()))
					} else {
						key = append(key, c.Expression)
					}
				}
				table.UniqueKeys = append(table.UniqueKeys, key)
			}
		}
	}
}

func addForeignKeys(vschema *vindexes.VSchema, keyspace string, t tables) {
	ks := vschema.Keyspaces[keyspace]
	for _, create := range t.creates {
		table := ks.Tables[create.Table.Name.String()]
		for _, c := range create.TableSpec.Constraints {
			def, ok := c.Details.(*sqlparser.ForeignKeyDefinition)
			if !ok {
				continue
			}
			parent := ks.Tables[def.ReferenceDefinition.ReferencedTable.Name.String()]
			if parent == nil {
				continue
			}
			table.ParentForeignKeys = append(table.ParentForeignKeys, vindexes.NewParentFkInfo(parent, def))
			parent.ChildForeignKeys = append(parent.ChildForeignKeys, vindexes.NewChildFkInfo(table, def))
		}
	}
}

// columns are a table's columns as vtgate's schema tracker makes them (go/vt/vtgate/schema/tracker.go).
func columns(spec *sqlparser.TableSpec) []vindexes.Column {
	collation := ""
	for _, o := range spec.Options {
		if strings.EqualFold(o.Name, "collate") {
			collation = o.String
		}
	}
	cols := make([]vindexes.Column, 0, len(spec.Columns))
	for _, c := range spec.Columns {
		col := vindexes.Column{
			Name: c.Name, Type: c.Type.SQLType(), Default: c.Type.Options.Default, Invisible: c.Type.Invisible(),
			Nullable: true, Values: c.Type.EnumValues, CollationName: c.Type.Options.Collate,
		}
		if col.CollationName == "" {
			switch strings.ToLower(c.Type.Type) {
			case "enum", "set", "text", "tinytext", "mediumtext", "longtext", "varchar", "char":
				col.CollationName = collation
			case "json":
				col.CollationName = "utf8mb4_bin"
			default:
				col.CollationName = "binary"
			}
		}
		if n := c.Type.Length; n != nil {
			col.Size = int32(*n)
		}
		if n := c.Type.Scale; n != nil {
			col.Scale = int32(*n)
		}
		if n := c.Type.Options.Null; n != nil {
			col.Nullable = *n
		}
		cols = append(cols, col)
	}
	return cols
}
