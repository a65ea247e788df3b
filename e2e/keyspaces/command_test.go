package keyspaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/audit"
	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

// viflYAML is a configuration of which the commands here use the topo server only: nobody listens
// where the legacy and mains are said to be.
const viflYAML = `
topo: {server: %q}
vtctld: %q
vtgate: {address: "127.0.0.1:1", account: {user: vifl, password_file: secret}}
cells: [%s]
landing: {account: {user: vifl, password_file: secret}}
backup: {root: /tmp}
legacy: {admin: {user: vifl, password_file: secret}, application_accounts: [app]}
mains:
  address: 127.0.0.1:1
  database: mains
  account: {user: vifl, password_file: secret}
  teams: SELECT team_id FROM teams WHERE shard = :shard
  data_teams: SELECT team_id FROM teams
  where: SELECT side, host, port, db_name FROM shard_addresses WHERE shard = :shard
  switch: UPDATE shard_addresses SET host = :host, port = :port, db_name = :database WHERE shard = :shard AND side = :side
shards:
  - {shard: 0123, database: slack, sides: {a: "127.0.0.1:1", b: "127.0.0.1:2"}}
`

// testCommand runs vifl audit itself: against what the fleet serves, and with its outcome kept.
func (c *cluster) testCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", "any\n")
	config := write("vifl.yaml", fmt.Sprintf(viflYAML, c.Config.Topo.Server, c.Config.Vtctld, vitesstest.Cell))
	vifl := func(args ...string) *audit.Result {
		t.Helper()
		cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "vifl"), append([]string{"--config", config, "--output", "json", "audit"}, args...)...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("vifl audit %s: %v: %s", strings.Join(args, " "), err, said.String())
		}
		r := &audit.Result{}
		if err := json.Unmarshal(out, r); err != nil {
			t.Fatalf("vifl audit %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return r
	}
	var log strings.Builder
	want := map[planner.Class]int{}
	for _, k := range c.all {
		for _, q := range k.Queries {
			log.WriteString(q.Text + ";\n")
			want[planner.Class(q.Class)]++
		}
	}
	r := vifl("--live", write("queries.sql", log.String()))
	for class, n := range want {
		if got := r.Totals.ByClass[class]; got.Calls != uint64(n) {
			t.Errorf("--live: class %s: found %d calls, expected %d", class, got.Calls, n)
		}
	}
	if r.Shards["membership_by_user"] != 2 || r.Shards["ids"] != 1 {
		t.Errorf("--live: found the shards %v, expected 2 of membership_by_user and 1 of ids", r.Shards)
	}

	legacy := filepath.Join(root, "docs", "audit-example")
	vifl("--target", "landing", "0123", "--database", "slack", "--schema", "legacy_0123="+filepath.Join(legacy, "legacy.schema.sql"), "--keep", filepath.Join(legacy, "legacy.csv"))
	store, err := state.Open(ctx, c.Topo())
	if err != nil {
		t.Fatal(err)
	}
	doc, _, err := store.Load(ctx, 123, "legacy_0123")
	if err != nil {
		t.Fatal(err)
	}
	switch kept := doc.Audit; {
	case kept == nil:
		t.Error("--keep: found no audit in the shard's state")
	case kept.Calls != 58112 || kept.Judged != kept.Calls || !slices.Equal(kept.Inputs, []string{"legacy.csv"}):
		t.Errorf("--keep: found %+v, expected 58112 calls, all judged, of legacy.csv", kept)
	case len(kept.Breaks) != 2 || kept.Breaks[0].ID != "L03" || kept.Breaks[0].Calls != 12000 || kept.Breaks[1].ID != "L05":
		t.Errorf("--keep: found %+v to break, expected L03 with 12000 calls and L05", kept.Breaks)
	}
	if history, err := store.History(ctx, "legacy_0123"); err != nil || len(history) != 1 || history[0].Verb != "audit" {
		t.Errorf("--keep: found the history %+v, %v, expected the audit", history, err)
	}
}
