// Package keyspaces owns the keyspaces of a re-keyed product, as files: for each a folder with
// schema.sql (what vtctldclient ApplySchema takes), vschema.json (ApplyVSchema) and queries.sql,
// the queries that it serves and where each must go; rows.sql where a table must not be empty,
// table-settings.json where tables are copies (Materialize). docs/keyspaces.md explains them.
//
// The package reads the files. Whether vtgate would plan a query as its file says is asked of
// Vitess' planner by this package's test, and of a live vtgate by e2e/keyspaces.
package keyspaces

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed */*.sql */*.json
var files embed.FS

// Keyspace is one keyspace's files.
type Keyspace struct {
	Name string
	// Schema are CREATE TABLE statements, each ended by a semicolon.
	Schema string
	// Rows are INSERT statements that are run once, when the tables are there; empty for none.
	Rows string
	// TableSettings is JSON, as Materialize create takes it, where the tables are copies.
	TableSettings string
	// VSchema is JSON, as ApplyVSchema takes it.
	VSchema string
	Queries []Query
}

// Query is one query that a keyspace serves.
type Query struct {
	Keyspace, Name string
	// Class is where it must go, in the words of docs/audit.md: one_shard, several, scatter, …
	Class string
	// Vindex is by which vindex, empty where none decides.
	Vindex string
	// Refused is true for a query that a vtgate with our flags does not run: it scatters, and
	// does not say so by ALLOW_SCATTER. It is listed because somebody will write it.
	Refused bool
	// Text is one statement, without a semicolon, with values.
	Text string
}

// All are the keyspaces, sorted by name. An error names the file and what is wrong in it.
func All() ([]Keyspace, error) {
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("keyspaces: %w", err)
	}
	var all []Keyspace
	for _, folder := range folders {
		k := Keyspace{Name: folder.Name()}
		var queries string
		for name, to := range map[string]*string{
			"schema.sql": &k.Schema, "vschema.json": &k.VSchema, "queries.sql": &queries,
			"rows.sql": &k.Rows, "table-settings.json": &k.TableSettings,
		} {
			content, err := files.ReadFile(k.Name + "/" + name)
			if optional := to == &k.Rows || to == &k.TableSettings; err != nil && !(optional && errors.Is(err, fs.ErrNotExist)) {
				return nil, fmt.Errorf("keyspace %s: %w", k.Name, err)
			}
			*to = string(content)
		}
		if k.Queries, err = parseQueries(k.Name, queries); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// header is the comment right before a query: NAME: CLASS [by VINDEX][, refused].
var header = regexp.MustCompile(`^-- ([a-z][a-z0-9_]*): ([a-z_]+)(?: by ([a-z_]+))?(, refused)?$`)

// parseQueries reads queries.sql. A query without its header, or a name that is there twice, is an
// error: it would be a query that no test looks at.
func parseQueries(keyspace, text string) ([]Query, error) {
	var out []Query
	seen := map[string]bool{}
	for _, piece := range pieces(text) {
		lines := strings.Split(piece, "\n")
		n := 0
		for n < len(lines) && strings.HasPrefix(lines[n], "--") {
			n++
		}
		last := ""
		if n > 0 {
			last = lines[n-1]
		}
		m := header.FindStringSubmatch(last)
		if m == nil {
			return nil, fmt.Errorf("keyspace %s: queries.sql: found %q before a query, expected a line such as -- is_member: one_shard by user", keyspace, last)
		}
		q := Query{Keyspace: keyspace, Name: m[1], Class: m[2], Vindex: m[3], Refused: m[4] != "", Text: strings.Join(lines[n:], "\n")}
		if seen[q.Name] {
			return nil, fmt.Errorf("keyspace %s: queries.sql: found %s twice, expected every name once", keyspace, q.Name)
		}
		seen[q.Name] = true
		out = append(out, q)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("keyspace %s: queries.sql: found no query, expected those that the keyspace serves", keyspace)
	}
	return out, nil
}

// pieces are the statements of a file with the comments before each. In these files a semicolon
// at the end of a line ends a statement, and nothing else does.
func pieces(text string) []string {
	var out []string
	for _, p := range strings.Split(text+"\n", ";\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}
