package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/guard"
)

// refusedBy runs preflight, for the stream that carries over less, and returns the findings
// that refused.
func refusedBy(t *testing.T, cfg string, shard string) map[string]guard.Finding {
	t.Helper()
	r := viflWith(t, cfg, nil, "--output", "json", "preflight", shard, "--stream", "vreplication")
	if r.code != 3 {
		t.Fatalf("preflight of %s: expected exit code 3: %s", shard, r)
	}
	report := decode[struct {
		Findings []guard.Finding `json:"findings"`
	}](t, r)
	out := map[string]guard.Finding{}
	for _, f := range guard.Refused(report.Findings) {
		if f.Server == "" || f.Found == "" || f.Expected == "" || f.Remedy == "" {
			t.Errorf("a refusal without server, found, expected or remedy: %+v", f)
		}
		out[f.ID] = f
	}
	return out
}

// TestBadInput gives the command what operators give it by mistake. Each case ends with one
// clear error, the design's exit code, and nothing changed.
func TestBadInput(t *testing.T) {
	a := side(t, 4567, "a")
	before := query1(t, a, "SELECT @@server_uuid") + flags(t, a)
	one, err := fleet.cfg.Shard(4567)
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		cfg  func(t *testing.T) string
		args []string
		code int
		want []string
	}{
		"an unknown shard":         {nil, []string{"preflight", "0999"}, 2, []string{"0999", "0123, 4567"}},
		"a shard in hex":           {nil, []string{"preflight", "0x7b"}, 2, []string{"decimal"}},
		"no shard":                 {nil, []string{"preflight"}, 2, []string{"expected one shard number"}},
		"an unknown verb":          {nil, []string{"cutoff", "0123"}, 2, []string{"cutoff"}},
		"an unknown flag":          {nil, []string{"diff", "0123", "--yes"}, 2, []string{"--yes"}},
		"an unknown format":        {nil, []string{"--output", "xml", "status", "0123"}, 2, []string{"xml"}},
		"a verb too early":         {nil, []string{"diff", "4567"}, 3, []string{"vifl preflight"}},
		"an acceptance too early":  {nil, []string{"diff", "4567", "--accept-drift", "teams", "1"}, 3, []string{"accept drift", "vifl preflight"}},
		"a repair too early":       {nil, []string{"diff", "4567", "--repair", "--apply"}, 3, []string{"vifl preflight"}},
		"nothing to withdraw":      {nil, []string{"diff", "4567", "--withdraw-drift", "teams", "1"}, 3, []string{"vifl preflight"}},
		"a diff of no rate":        {nil, []string{"diff", "4567", "--max-rows-per-second", "-1"}, 2, []string{"--max-rows-per-second"}},
		"a cutover too early":      {nil, []string{"cutover", "4567", "--confirm", "4567"}, 3, []string{"expected validated"}},
		"a hold without reason":    {nil, []string{"hold", "4567"}, 2, []string{"--why"}},
		"another number typed":     {nil, []string{"complete", "4567", "--confirm", "0123"}, 3, []string{"R21", "nothing was changed"}},
		"a rollback too early":     {nil, []string{"rollback", "4567", "--confirm", "4567"}, 3, []string{"expected switched"}},
		"a reverse diff too early": {nil, []string{"diff", "4567", "--reverse"}, 3, []string{"expected switched"}},
		"an unknown sub-verb":      {nil, []string{"sync", "begin", "4567"}, 2, []string{"begin", "start, status, stop"}},
		"no configuration": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none.yaml") },
			[]string{"status", "4567"}, 2, []string{"none.yaml"}},
		"an unknown key": {func(t *testing.T) string { return changedConfig(t, "vtctld:", "vtctl: x\nvtctld:") },
			[]string{"config", "check"}, 2, []string{"vtctl", "line "}},
		"a password file that is not there": {func(t *testing.T) string { return changedConfig(t, "secrets/legacy", "secrets/none") },
			[]string{"config", "check"}, 2, []string{"secrets/none"}},
		"a topo server that is not there": {func(t *testing.T) string { return changedConfig(t, fleet.cfg.Topo.Server, "127.0.0.1:1") },
			[]string{"status", "4567"}, 1, []string{"127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fleet.cfg.Path()
			if c.cfg != nil {
				cfg = c.cfg(t)
			}
			r := viflWith(t, cfg, nil, c.args...)
			if r.code != c.code {
				t.Errorf("expected exit code %d: %s", c.code, r)
			}
			for _, want := range c.want {
				if !strings.Contains(r.stdout+r.stderr, want) {
					t.Errorf("expected %q in: %s", want, r)
				}
			}
		})
	}

	t.Run("an unreachable server", func(t *testing.T) {
		f := refusedBy(t, changedConfig(t, one.Sides["b"], "127.0.0.1:1"), "4567")["P01"]
		if !strings.Contains(f.Server+f.Found, "side b") || !strings.Contains(f.Found+f.Server, "127.0.0.1:1") {
			t.Errorf("finding %+v", f)
		}
	})
	t.Run("a wrong password", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "wrong")
		if err := os.WriteFile(file, []byte("not-the-password"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := changedConfig(t, fleet.cfg.Legacy.Admin.PasswordFile, file)
		f := refusedBy(t, cfg, "4567")["P01"]
		if !strings.Contains(f.Found, "turned the account") || strings.Contains(f.Found, "not-the-password") {
			t.Errorf("finding %+v", f)
		}
	})
	t.Run("mains says another shard", func(t *testing.T) {
		refused := refusedBy(t, swappedConfig(t), "4567")
		if _, ok := refused["P06"]; !ok {
			t.Errorf("the teams of another shard are not noticed: %+v", refused)
		}
		if _, ok := refused["P08"]; !ok {
			t.Errorf("addresses that mains does not serve the shard from are not noticed: %+v", refused)
		}
	})
	for name, c := range map[string]struct{ set, reset, id string }{
		"a minimal row image":    {"SET GLOBAL binlog_row_image = MINIMAL", "SET GLOBAL binlog_row_image = FULL", "P16"},
		"compressed transaction": {"SET GLOBAL binlog_transaction_compression = ON", "SET GLOBAL binlog_transaction_compression = OFF", "P18"},
		"GTIDs":                  {"SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = OFF", "P20"},
	} {
		t.Run(name, func(t *testing.T) {
			exec1(t, a, c.set)
			defer exec1(t, a, c.reset)
			if f, ok := refusedBy(t, fleet.cfg.Path(), "4567")[c.id]; !ok || !strings.Contains(f.Server, "4567 side a") {
				t.Errorf("%s is not refused by %s: %+v", name, c.id, f)
			}
		})
	}
	t.Run("a tablet that does not come up", func(t *testing.T) {
		cfg := changedConfig(t, `- "provision"`, `- "status"`, "limits:\n", "limits:\n  tablet_timeout: 3s\n")
		must(t, "preflight", "4567")
		r := viflWith(t, cfg, nil, "seed", "4567")
		if r.code != 1 || !strings.Contains(r.stderr, "0 of 3 tablets") {
			t.Errorf("seed without tablets: %s", r)
		}
		must(t, "abort", "4567")
		if n := query1(t, a, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '_vifl'"); n != "0" {
			t.Error("_vifl is still on the legacy after the abort")
		}
	})
	if after := query1(t, a, "SELECT @@server_uuid") + flags(t, a); after != before {
		t.Errorf("side a was %s, is %s", before, after)
	}
}
