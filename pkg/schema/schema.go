// Package schema owns what the tables of one database look like: read from a server,
// compared between two servers, and summed up in a digest.
//
// Two servers of different versions print the same table differently (SHOW CREATE TABLE
// shows other comments, defaults and options), so sameness is judged by the parts that
// decide what can be stored and how it is found, never by that text.
package schema

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Queryer is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Schema is one database. Tables and views are in the order of their names' bytes.
type Schema struct {
	Database string
	Tables   []*Table
	Views    []string
	Triggers []string
	Routines []string
	Events   []string
}

// Table is one base table.
type Table struct {
	Name        string
	Engine      string
	Collation   string
	Partitioned bool
	// Rows and Bytes (data and indexes) are the server's estimates, possibly a day old.
	Rows, Bytes uint64
	// AutoIncrement is the next value; 0 when no column has the attribute, or when the
	// server has not handed out any.
	AutoIncrement uint64
	Columns       []Column
	// PrimaryKey is empty when the table has none.
	PrimaryKey  []KeyPart
	Indexes     []Index // without the primary key
	ForeignKeys []ForeignKey
	Checks      []Check
	// Create is SHOW CREATE TABLE's text on the server that was read.
	Create string
}

// Column is one column, invisible and generated ones included.
type Column struct {
	Name       string
	Type       string // the type alone in lower case: int, varchar, json
	ColumnType string // with length and attributes: int unsigned, varchar(20), enum('a','b')
	CharSet    string // empty for types without one
	Collation  string
	Nullable   bool
	Default    sql.NullString
	// DefaultIsExpression tells DEFAULT (uuid()) from DEFAULT 'uuid()'.
	DefaultIsExpression bool
	OnUpdateNow         bool
	AutoIncrement       bool
	Generated           string // "", "virtual" or "stored"
	Expression          string // of a generated column
	Invisible           bool
}

// KeyPart is a column (or an expression) of an index.
type KeyPart struct {
	Column     string // empty for an expression
	Expression string
	Prefix     int // bytes or characters of the column, 0 for the whole
	Descending bool
}

// Index is a secondary index.
type Index struct {
	Name    string
	Unique  bool
	Type    string // BTREE, FULLTEXT, SPATIAL, HASH
	Visible bool
	Parts   []KeyPart
}

// ForeignKey is a foreign key of the table.
type ForeignKey struct {
	Name                       string
	ReferencedTable            string
	DeleteRule, UpdateRule     string
	Columns, ReferencedColumns []string
}

// Check is a CHECK constraint.
type Check struct {
	Name, Clause string
	Enforced     bool
}

// Table finds a table by name, nil when there is none.
func (s *Schema) Table(name string) *Table {
	for _, t := range s.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Column finds a column by name (case-insensitive, as MySQL does), nil when there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return &t.Columns[i]
		}
	}
	return nil
}

// Quote puts a name into backquotes.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// QuoteAll quotes names and joins them by commas.
func QuoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Quote(n)
	}
	return strings.Join(quoted, ", ")
}

var autoIncrementOption = regexp.MustCompile(`(?m)^\).*\bAUTO_INCREMENT=(\d+)`)

// Read reads the tables of a database. The queries are several; a DDL between them is seen
// as a table without columns or an error, never as a plausible half.
func Read(ctx context.Context, q Queryer, database string) (*Schema, error) {
	s := &Schema{Database: database}
	fail := func(err error) (*Schema, error) {
		return nil, fmt.Errorf("read the schema of database %q: %w", database, err)
	}
	found := false
	if err := each(ctx, q, `SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?`, []any{database}, func([]sql.NullString) error {
		found = true
		return nil
	}); err != nil {
		return fail(err)
	}
	if !found {
		return nil, fmt.Errorf("database %q does not exist there: is this the right server, and may the account see it?", database)
	}
	tables := map[string]*Table{}
	err := each(ctx, q, `SELECT table_name, table_type, engine, table_collation, IFNULL(create_options,''), IFNULL(table_rows,0), IFNULL(data_length,0)+IFNULL(index_length,0)
		FROM information_schema.tables WHERE table_schema = ?`, []any{database}, func(r []sql.NullString) error {
		if r[1].String == "VIEW" {
			s.Views = append(s.Views, r[0].String)
			return nil
		}
		t := &Table{Name: r[0].String, Engine: r[2].String, Collation: r[3].String, Partitioned: strings.Contains(r[4].String, "partitioned")}
		t.Rows, _ = strconv.ParseUint(r[5].String, 10, 64)
		t.Bytes, _ = strconv.ParseUint(r[6].String, 10, 64)
		tables[t.Name] = t
		s.Tables = append(s.Tables, t)
		return nil
	})
	if err != nil {
		return fail(err)
	}
	sort.Slice(s.Tables, func(i, j int) bool { return s.Tables[i].Name < s.Tables[j].Name })
	sort.Strings(s.Views)
	for _, step := range []func(context.Context, Queryer, string, map[string]*Table) error{readColumns, readIndexes, readForeignKeys, readChecks} {
		if err := step(ctx, q, database, tables); err != nil {
			return fail(err)
		}
	}
	for _, t := range s.Tables {
		err := each(ctx, q, "SHOW CREATE TABLE "+Quote(database)+"."+Quote(t.Name), nil, func(r []sql.NullString) error {
			t.Create = r[1].String
			if m := autoIncrementOption.FindStringSubmatch(t.Create); m != nil {
				t.AutoIncrement, _ = strconv.ParseUint(m[1], 10, 64)
			}
			return nil
		})
		if err != nil {
			return fail(err)
		}
		if len(t.Columns) == 0 {
			return fail(fmt.Errorf("table %q changed while it was read, or the account may not see its columns", t.Name))
		}
	}
	for _, list := range []struct {
		query string
		into  *[]string
	}{
		{`SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = ? ORDER BY 1`, &s.Triggers},
		{`SELECT CONCAT(LOWER(routine_type), ' ', routine_name) FROM information_schema.routines WHERE routine_schema = ? ORDER BY 1`, &s.Routines},
		{`SELECT event_name FROM information_schema.events WHERE event_schema = ? ORDER BY 1`, &s.Events},
	} {
		err := each(ctx, q, list.query, []any{database}, func(r []sql.NullString) error {
			*list.into = append(*list.into, r[0].String)
			return nil
		})
		if err != nil {
			return fail(err)
		}
	}
	return s, nil
}

// DefinerViews lists the views that run with the rights of the account that defined them
// (SQL SECURITY DEFINER, MySQL's default), with that account's name (user@host).
func DefinerViews(ctx context.Context, q Queryer, database string) (map[string]string, error) {
	views := map[string]string{}
	err := each(ctx, q, `SELECT table_name, definer FROM information_schema.views WHERE table_schema = ? AND security_type = 'DEFINER'`, []any{database}, func(r []sql.NullString) error {
		views[r[0].String] = r[1].String
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the views of database %q: %w", database, err)
	}
	return views, nil
}

func readColumns(ctx context.Context, q Queryer, database string, tables map[string]*Table) error {
	return each(ctx, q, `SELECT table_name, column_name, data_type, column_type, character_set_name, collation_name, is_nullable, column_default, extra, generation_expression
		FROM information_schema.columns WHERE table_schema = ? ORDER BY table_name, ordinal_position`, []any{database}, func(r []sql.NullString) error {
		t := tables[r[0].String]
		if t == nil {
			return nil // a view's
		}
		extra := strings.ToUpper(r[8].String)
		c := Column{
			Name: r[1].String, Type: strings.ToLower(r[2].String), ColumnType: r[3].String, CharSet: r[4].String, Collation: r[5].String,
			Nullable: r[6].String == "YES", Default: r[7],
			DefaultIsExpression: strings.Contains(extra, "DEFAULT_GENERATED"),
			OnUpdateNow:         strings.Contains(extra, "ON UPDATE"),
			AutoIncrement:       strings.Contains(extra, "AUTO_INCREMENT"),
			Invisible:           strings.Contains(extra, "INVISIBLE"),
			Expression:          r[9].String,
		}
		switch {
		case strings.Contains(extra, "VIRTUAL GENERATED"):
			c.Generated = "virtual"
		case strings.Contains(extra, "STORED GENERATED"):
			c.Generated = "stored"
		}
		t.Columns = append(t.Columns, c)
		return nil
	})
}

func readIndexes(ctx context.Context, q Queryer, database string, tables map[string]*Table) error {
	err := each(ctx, q, `SELECT table_name, index_name, non_unique, index_type, is_visible, column_name, expression, sub_part, collation
		FROM information_schema.statistics WHERE table_schema = ? ORDER BY table_name, index_name, seq_in_index`, []any{database}, func(r []sql.NullString) error {
		t := tables[r[0].String]
		if t == nil {
			return nil
		}
		part := KeyPart{Column: r[5].String, Expression: r[6].String, Descending: r[8].String == "D"}
		part.Prefix, _ = strconv.Atoi(r[7].String)
		if r[1].String == "PRIMARY" {
			t.PrimaryKey = append(t.PrimaryKey, part)
			return nil
		}
		if n := len(t.Indexes); n == 0 || t.Indexes[n-1].Name != r[1].String {
			t.Indexes = append(t.Indexes, Index{Name: r[1].String, Unique: r[2].String == "0", Type: r[3].String, Visible: r[4].String == "YES"})
		}
		ix := &t.Indexes[len(t.Indexes)-1]
		ix.Parts = append(ix.Parts, part)
		return nil
	})
	for _, t := range tables {
		// The server sorts names by a collation of its own; bytes are the same everywhere.
		sort.Slice(t.Indexes, func(i, j int) bool { return t.Indexes[i].Name < t.Indexes[j].Name })
	}
	return err
}

func readForeignKeys(ctx context.Context, q Queryer, database string, tables map[string]*Table) error {
	return each(ctx, q, `SELECT k.table_name, k.constraint_name, k.referenced_table_name, rc.delete_rule, rc.update_rule, k.column_name, k.referenced_column_name
		FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints rc
		ON rc.constraint_schema = k.constraint_schema AND rc.constraint_name = k.constraint_name AND rc.table_name = k.table_name
		WHERE k.table_schema = ? AND k.referenced_table_name IS NOT NULL ORDER BY k.table_name, k.constraint_name, k.ordinal_position`, []any{database}, func(r []sql.NullString) error {
		t := tables[r[0].String]
		if t == nil {
			return nil
		}
		if n := len(t.ForeignKeys); n == 0 || t.ForeignKeys[n-1].Name != r[1].String {
			t.ForeignKeys = append(t.ForeignKeys, ForeignKey{Name: r[1].String, ReferencedTable: r[2].String, DeleteRule: r[3].String, UpdateRule: r[4].String})
		}
		fk := &t.ForeignKeys[len(t.ForeignKeys)-1]
		fk.Columns = append(fk.Columns, r[5].String)
		fk.ReferencedColumns = append(fk.ReferencedColumns, r[6].String)
		return nil
	})
}

func readChecks(ctx context.Context, q Queryer, database string, tables map[string]*Table) error {
	return each(ctx, q, `SELECT tc.table_name, tc.constraint_name, cc.check_clause, tc.enforced
		FROM information_schema.table_constraints tc JOIN information_schema.check_constraints cc
		ON cc.constraint_schema = tc.constraint_schema AND cc.constraint_name = tc.constraint_name
		WHERE tc.table_schema = ? AND tc.constraint_type = 'CHECK' ORDER BY tc.table_name, tc.constraint_name`, []any{database}, func(r []sql.NullString) error {
		if t := tables[r[0].String]; t != nil {
			t.Checks = append(t.Checks, Check{Name: r[1].String, Clause: r[2].String, Enforced: r[3].String == "YES"})
		}
		return nil
	})
}

// each runs a query and hands every row's columns over as text. The parameter is put into
// the statement by the driver or sent with it, as the connection is configured.
func each(ctx context.Context, q Queryer, query string, args []any, row func([]sql.NullString) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.NullString, len(cols))
	dest := make([]any, len(cols))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// canonical lists the parts of a table that decide what can be stored in it, one a line.
func (t *Table) canonical() []string {
	lines := make([]string, 0, len(t.Columns)+len(t.Indexes)+1)
	for i, c := range t.Columns {
		lines = append(lines, fmt.Sprintf("column %d %q %s charset=%s collation=%s null=%t default=%v/%q/%t onupdate=%t auto=%t generated=%s %q invisible=%t",
			i+1, c.Name, c.ColumnType, c.CharSet, c.Collation, c.Nullable, c.Default.Valid, c.Default.String, c.DefaultIsExpression, c.OnUpdateNow, c.AutoIncrement, c.Generated, c.Expression, c.Invisible))
	}
	lines = append(lines, "primary key "+parts(t.PrimaryKey))
	for _, ix := range t.Indexes {
		lines = append(lines, fmt.Sprintf("index %q unique=%t %s visible=%t %s", ix.Name, ix.Unique, ix.Type, ix.Visible, parts(ix.Parts)))
	}
	for _, fk := range t.ForeignKeys {
		lines = append(lines, fmt.Sprintf("foreign key %q (%q) -> %q (%q) delete %s update %s", fk.Name, fk.Columns, fk.ReferencedTable, fk.ReferencedColumns, fk.DeleteRule, fk.UpdateRule))
	}
	for _, c := range t.Checks {
		lines = append(lines, fmt.Sprintf("check %q %q enforced=%t", c.Name, c.Clause, c.Enforced))
	}
	return append(lines, fmt.Sprintf("collation=%s partitioned=%t", t.Collation, t.Partitioned))
}

func parts(ps []KeyPart) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "(%q %q prefix=%d desc=%t)", p.Column, p.Expression, p.Prefix, p.Descending)
	}
	return b.String()
}

// Digest is a SHA-256 in hex over the tables' definitions. Row counts, AUTO_INCREMENT
// values, views and stored programs are not part of it.
func (s *Schema) Digest() string {
	h := sha256.New()
	for _, t := range s.Tables {
		fmt.Fprintf(h, "table %q\n", t.Name)
		for _, line := range t.canonical() {
			fmt.Fprintln(h, line)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Differences says in which ways the tables of b are not those of a, one line each, empty
// when they are the same.
func Differences(a, b *Schema) []string {
	var out []string
	for _, t := range a.Tables {
		other := b.Table(t.Name)
		if other == nil {
			out = append(out, fmt.Sprintf("table %q is missing on the second", t.Name))
			continue
		}
		mine, theirs := t.canonical(), other.canonical()
		for _, line := range without(mine, theirs) {
			out = append(out, fmt.Sprintf("table %q: only on the first: %s", t.Name, line))
		}
		for _, line := range without(theirs, mine) {
			out = append(out, fmt.Sprintf("table %q: only on the second: %s", t.Name, line))
		}
	}
	for _, t := range b.Tables {
		if a.Table(t.Name) == nil {
			out = append(out, fmt.Sprintf("table %q is missing on the first", t.Name))
		}
	}
	return out
}

func without(lines, remove []string) []string {
	have := make(map[string]bool, len(remove))
	for _, l := range remove {
		have[l] = true
	}
	var out []string
	for _, l := range lines {
		if !have[l] {
			out = append(out, l)
		}
	}
	return out
}
