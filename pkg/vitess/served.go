package vitess

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"

	tabletmanagerdatapb "vitess.io/vitess/go/vt/proto/tabletmanagerdata"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	"vitess.io/vitess/go/vt/topo"
)

// Served is what a fleet's vtgates plan by.
type Served struct {
	// VSchema is all keyspaces' vschemas with their routing rules, as the vtgates of the cell have
	// them.
	VSchema *vschemapb.SrvVSchema
	// Shards is the number of shards by keyspace; 1 for one that is not sharded.
	Shards map[string]int
	// Creates are the CREATE TABLE and CREATE VIEW statements by keyspace, each ended by a
	// semicolon. A keyspace without tables has none.
	Creates map[string]string
}

// Served reads what the vtgates of a cell plan by: the vschema and the shards from the topo server,
// the schema of each keyspace from the primary of its first shard. Nothing is changed. A keyspace
// whose primary cannot be asked is an error: planned without its columns, queries would be judged
// otherwise than vtgate judges them.
func (f *Fleet) Served(ctx context.Context, cell string) (*Served, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	srv, err := f.ts.GetSrvVSchema(ctx, cell)
	if err != nil {
		return nil, fmt.Errorf("the vschema that cell %s serves: %w", cell, err)
	}
	s := &Served{VSchema: srv, Shards: map[string]int{}, Creates: map[string]string{}}
	type read struct {
		shards  int
		creates string
	}
	var names []string
	for name := range srv.Keyspaces {
		names = append(names, name)
	}
	sort.Strings(names)
	reads := make([]read, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, name := range names {
		g.Go(func() (err error) {
			reads[i].shards, reads[i].creates, err = f.servedKeyspace(gctx, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, name := range names {
		s.Shards[name] = reads[i].shards
		if reads[i].creates != "" {
			s.Creates[name] = reads[i].creates
		}
	}
	return s, nil
}

func (f *Fleet) servedKeyspace(ctx context.Context, keyspace string) (n int, creates string, err error) {
	serving, err := f.serving(ctx, keyspace)
	if err != nil {
		return 0, "", err
	}
	primary := serving[0]
	if !primary.HasPrimary() {
		return 0, "", fmt.Errorf("keyspace %s: shard %s has no primary to read the schema from: elect one", keyspace, primary.ShardName())
	}
	tablet, err := f.ts.GetTablet(ctx, primary.PrimaryAlias)
	if err != nil {
		if topo.IsErrType(err, topo.NoNode) {
			err = fmt.Errorf("its primary's record is not in the topo server: %w", err)
		}
		return 0, "", fmt.Errorf("keyspace %s: shard %s: %w", keyspace, primary.ShardName(), err)
	}
	schema, err := f.tablets.GetSchema(ctx, tablet.Tablet, &tabletmanagerdatapb.GetSchemaRequest{IncludeViews: true, TableSchemaOnly: true})
	if err != nil {
		return 0, "", fmt.Errorf("keyspace %s: the schema of %s: %w", keyspace, tablet.AliasString(), err)
	}
	var b strings.Builder
	for _, t := range schema.TableDefinitions {
		// Views name their database by a placeholder.
		b.WriteString(strings.NewReplacer("`{{.DatabaseName}}`.", "", "{{.DatabaseName}}.", "").Replace(t.Schema) + ";\n")
	}
	return len(serving), b.String(), nil
}
