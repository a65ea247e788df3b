package keyspaces_test

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"vitess.io/vitess/go/json2"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"

	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

// corpus reads a file of statements, one a line.
func corpus(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "--") {
			out = append(out, line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// fromFiles plans by the files of vindexes/keyspaces, as vifl audit --vschema --schema does.
func (c *cluster) fromFiles(t *testing.T, keyspace string) *planner.Planner {
	t.Helper()
	v, creates := planner.NewVSchema(), map[string]string{}
	for _, k := range c.all {
		ks := &vschemapb.Keyspace{}
		if err := json2.UnmarshalPB([]byte(k.VSchema), ks); err != nil {
			t.Fatal(err)
		}
		if err := v.AddKeyspace(k.Name, ks); err != nil {
			t.Fatal(err)
		}
		v.Shards[k.Name], creates[k.Name] = len(c.tablets[k.Name]), k.Schema
	}
	return c.planner(t, planner.Options{VSchema: v, Creates: creates, Keyspace: keyspace})
}

// fromLive plans by what the fleet serves, as vifl audit --live does.
func (c *cluster) fromLive(t *testing.T, keyspace string) *planner.Planner {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	served, err := c.Served(ctx, vitesstest.Cell)
	if err != nil {
		t.Fatal(err)
	}
	v := planner.NewVSchema()
	if err := v.AddAll(served.VSchema); err != nil {
		t.Fatal(err)
	}
	v.Shards = served.Shards
	for _, k := range c.all {
		if n := served.Shards[k.Name]; n != len(c.tablets[k.Name]) {
			t.Errorf("keyspace %s: found %d shards, expected %d", k.Name, n, len(c.tablets[k.Name]))
		}
	}
	return c.planner(t, planner.Options{VSchema: v, Creates: served.Creates, Keyspace: keyspace})
}

func (c *cluster) planner(t *testing.T, o planner.Options) *planner.Planner {
	t.Helper()
	p, err := planner.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// node is an operator of a plan, as VEXPLAIN PLAN prints it.
type node struct {
	OperatorType, Variant, Vindex string
	Keyspace                      struct{ Name string }
	Values                        []string
	VindexValues                  map[string]string
	InputName                     string
	Inputs                        []node
}

// classOf reads a plan's class from what a vtgate prints, by the words of docs/audit.md alone.
func classOf(plan node) planner.Class {
	routes, unsharded := map[string]bool{}, map[string]bool{}
	var scatter, several, any bool
	var walk func(n node, perRow bool)
	walk = func(n node, perRow bool) {
		switch n.OperatorType {
		case "Route", "Update", "Delete", "Insert", "Lock", "Send":
			switch n.Variant {
			case "Scatter":
				scatter = true
			case "EqualUnique":
				routes[fmt.Sprint(n.Keyspace.Name, n.Vindex, n.Values)] = true
				several = several || perRow
			case "Unsharded":
				unsharded[n.Keyspace.Name] = true
			case "Reference", "Next", "DBA", "lock", "":
				any = true
			case "Sharded": // an INSERT: a bind variable for each row
				if rows := len(strings.Split(n.VindexValues["user"]+n.VindexValues["channel"], ",")); rows > 1 {
					several = true
				} else {
					routes[n.Keyspace.Name] = true
				}
			case "None":
			default:
				several = true
			}
		}
		for i, in := range n.Inputs {
			inner := strings.Contains(n.OperatorType, "Join") && n.Variant != "HashJoin" && n.Variant != "HashLeftJoin" || n.OperatorType == "DMLWithInput" || n.OperatorType == "RecurseCTE"
			walk(in, perRow || inner && i > 0)
		}
	}
	walk(plan, false)
	switch {
	case scatter:
		return planner.Scatter
	case several || len(routes)+len(unsharded) > 1:
		return planner.Several
	case len(routes) == 1:
		return planner.OneShard
	case len(unsharded) == 1:
		return planner.Unsharded
	case any:
		return planner.Reference
	}
	return planner.None
}

// testAudit lets a live vtgate plan every query of the corpus, and compares with what vifl audit
// makes of it: the plans letter by letter, the class, and the reason of what is refused.
func (c *cluster) testAudit(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	queries := corpus(t, "corpus.sql")
	for _, k := range c.all {
		for _, q := range k.Queries {
			queries = append(queries, q.Text)
		}
	}
	plain := c.vtgate(t) // with Vitess' own defaults: the recommended flags refuse to plan a scatter
	eventually(t, "the vtgate has read its tablets' schema", func(ctx context.Context) error {
		plan, err := one(ctx, plain, "VEXPLAIN PLAN SELECT * FROM messages.reactions")
		if err == nil && !strings.Contains(plan, "emoji") {
			err = fmt.Errorf("found %s", plan)
		}
		return err
	})
	asked, agreed, refused := 0, 0, 0
	classes := map[planner.Class]int{}
	for _, keyspace := range []string{"", "membership_by_user", "membership_by_channel", "messages", "ids"} {
		conn, err := plain.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if keyspace != "" {
			if _, err := conn.ExecContext(ctx, "USE "+keyspace); err != nil {
				t.Fatal(err)
			}
		}
		for from, p := range map[string]*planner.Planner{"files": c.fromFiles(t, keyspace), "live": c.fromLive(t, keyspace)} {
			for _, query := range queries {
				asked++
				wrong, class := disagreement(ctx, conn, p, query)
				if wrong != "" {
					t.Errorf("session on %q, audit by %s: %s\n%s", keyspace, from, query, wrong)
					continue
				}
				agreed++
				classes[class]++
				if class == planner.Unsupported {
					refused++
				}
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("plans: %d of %d agree (%d queries, by files and live, in 5 sessions), by class %v", agreed, asked, len(queries), classes)
	for _, class := range []planner.Class{planner.OneShard, planner.Several, planner.Scatter, planner.Reference, planner.Unsharded, planner.None, planner.Unsupported} {
		if classes[class] == 0 {
			t.Errorf("found no query of class %s, expected some of each", class)
		}
	}
	c.testStatements(t, plain)
}

// disagreement says where vtgate and the audit differ on a query; empty: nowhere.
func disagreement(ctx context.Context, vtgate *sql.Conn, p *planner.Planner, query string) (string, planner.Class) {
	var live string
	liveErr := vtgate.QueryRowContext(ctx, "VEXPLAIN PLAN "+query).Scan(&live)
	parse := func() (*planner.Statement, error) { return p.Parse(query) }
	s, err := parse()
	var ours string
	var plan *planner.Plan
	if err == nil {
		plan = p.Plan(ctx, s)
		if s, err = parse(); err == nil {
			ours, err = p.Explain(ctx, s)
		}
	}
	switch {
	case liveErr != nil && err == nil:
		return fmt.Sprintf("vtgate refuses it: %v\nthe audit says %s: %s", liveErr, plan.Class, ours), ""
	case liveErr == nil && err != nil:
		return fmt.Sprintf("the audit refuses it: %v\nvtgate: %s", err, live), ""
	case liveErr != nil:
		if plan != nil && plan.Class != planner.Unsupported {
			return fmt.Sprintf("the audit does not plan it (%v), and calls it %s", err, plan.Class), ""
		}
		// A parser's reason quotes what it stumbled over; the audit leaves values out of it.
		if plan != nil && !strings.Contains(liveErr.Error(), err.Error()) {
			return fmt.Sprintf("vtgate's reason: %v\nthe audit's: %v", liveErr, err), ""
		}
		return "", planner.Unsupported
	// VEXPLAIN does not rewrite DATABASE(), as running the query does.
	case live != strings.ReplaceAll(ours, ":__vtdbname as", "database() as"):
		return fmt.Sprintf("vtgate: %s\nthe audit: %s", live, ours), ""
	}
	var root node
	if err := json.Unmarshal([]byte(live), &root); err != nil {
		return fmt.Sprintf("%v: %s", err, live), ""
	}
	if want := classOf(root); plan.Class != want {
		return fmt.Sprintf("found class %s, expected %s by vtgate's plan %s", plan.Class, want, live), ""
	}
	return "", plan.Class
}

// testStatements runs what VEXPLAIN does not take.
func (c *cluster) testStatements(t *testing.T, vtgate *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := c.fromLive(t, "")
	agreed, all := 0, corpus(t, "statements.sql")
	for _, statement := range all {
		class, reason := planner.Unsupported, ""
		if s, err := p.Parse(statement); err != nil {
			reason = err.Error()
		} else {
			plan := p.Plan(ctx, s)
			class, reason = plan.Class, plan.Reason
		}
		conn, err := vtgate.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.ExecContext(ctx, statement)
		// What it has set is no part of the next one's session.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
		if (err != nil) != (class == planner.Unsupported) {
			t.Errorf("%s: vtgate answers %v, the audit says %s %s", statement, err, class, reason)
			continue
		}
		agreed++
	}
	t.Logf("statements: %d of %d agree", agreed, len(all))
}
