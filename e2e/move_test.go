package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/shardid"
)

// writers is the old application at work.
type writers struct {
	cmd     *exec.Cmd
	process *child.Process
	ledger  string
	report  *bytes.Buffer
}

// startLoad writes to a shard at a rate, in operations a second, that leaves a machine of two
// cores room for what is tested.
func startLoad(t *testing.T, shard shardid.ID, rate int) *writers {
	t.Helper()
	w := &writers{ledger: filepath.Join(t.TempDir(), "ledger"), report: &bytes.Buffer{}}
	w.cmd = exec.Command(fleet.vifl, "--config", fleet.cfg.Path(), "dev", "load", "--shards", shard.String(), "--writers", "8", "--rate", strconv.Itoa(rate), "--ledger", w.ledger)
	w.cmd.Stdout, w.cmd.Stderr = w.report, w.report
	var err error
	if w.process, err = child.Start("load", w.cmd, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.process.Kill() })
	return w
}

// stop ends the load and verifies its ledger against all servers.
func (w *writers) stop(t *testing.T) {
	t.Helper()
	if err := w.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.process.Exited():
		if !w.cmd.ProcessState.Success() {
			t.Fatalf("the load failed: %v\n%s", w.process.ExitError(), w.report)
		}
	case <-time.After(time.Minute):
		t.Fatal("the load does not end")
	}
	t.Logf("load:\n%s", w.report)
	must(t, "dev", "load", "verify", "--ledger", w.ledger)
}

// TestMoveUnderLoad moves shard 0123 from its preflight to its completion while the old
// application writes to it, and checks every acknowledged write.
func TestMoveUnderLoad(t *testing.T) {
	const shard = shardid.ID(123)
	a, b := side(t, shard, "a"), side(t, shard, "b")
	w := startLoad(t, shard, 100)
	time.Sleep(time.Second)

	must(t, "preflight", "0123", "--stream", "vreplication")
	must(t, "seed", "0123")

	t.Run("the landing is fenced", func(t *testing.T) {
		target, err := fleet.cfg.VtgateTarget(shard)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), fleet.vifl, "--config", fleet.cfg.Path(), "status", "0123").CombinedOutput(); err != nil {
			t.Errorf("status: %v\n%s", err, out)
		}
		if err := writeThrough(t.Context(), target.Database, "DELETE FROM messages WHERE 1 = 0"); err == nil {
			t.Error("a write through vtgate to a landing that was not cut over succeeded")
		}
	})

	must(t, "sync", "start", "0123")
	r := must(t, "--output", "json", "diff", "0123")
	d := decode[struct {
		Equal       bool     `json:"equal"`
		Rows        int      `json:"rows"`
		Tablets     []string `json:"tablets"`
		Certificate string   `json:"certificate"`
	}](t, r)
	if !d.Equal || d.Rows < 1000 || len(d.Tablets) != 3 || d.Certificate == "" {
		t.Errorf("diff: %s", r)
	}

	t.Run("rows of the landing are explained and repaired", func(t *testing.T) { repairLanding(t, a) })
	t.Run("drift is reported, accepted by name, and let through", func(t *testing.T) { acceptDrift(t, a) })
	t.Run("rehearsal leaves everything as it was", func(t *testing.T) {
		must(t, "rehearse", "0123")
		if f := flags(t, a) + flags(t, b); f != "000000" {
			t.Errorf("flags after the rehearsal: %s", f)
		}
	})
	t.Run("cutover needs --one-way and the typed number", func(t *testing.T) {
		if r := vifl(t, "cutover", "0123", "--confirm", "0123"); r.code != 2 || !strings.Contains(r.stderr, "--one-way") {
			t.Errorf("without --one-way: %s", r)
		}
		if r := vifl(t, "cutover", "0123", "--confirm", "4567", "--one-way"); r.code != 3 {
			t.Errorf("with another number: %s", r)
		}
	})
	t.Run("vtgate's password is wrong", func(t *testing.T) {
		r := viflWith(t, changedConfig(t, "/secrets/vtgate", "/secrets/legacy"), nil, "rehearse", "0123")
		if r.code != 1 || !strings.Contains(r.stderr, "vtgate.account") || strings.Contains(r.stderr, "freeze side a") {
			t.Errorf("expected it to be found before the freeze: %s", r)
		}
	})
	t.Run("hold", func(t *testing.T) {
		must(t, "hold", "0123", "--why", "a release is under way")
		if r := vifl(t, "cutover", "0123", "--confirm", "0123", "--one-way"); r.code != 3 || !strings.Contains(r.stdout, "a release is under way") {
			t.Errorf("cutover of a held shard: %s", r)
		}
		must(t, "unhold", "0123", "--why", "released")
	})
	t.Run("the wrong shard", func(t *testing.T) {
		other := side(t, 4567, "a")
		before := flags(t, a) + flags(t, b) + flags(t, other) // 4567 may have been moved, and be closed
		swapped := swappedConfig(t)
		r := viflWith(t, swapped, nil, "--output", "json", "cutover", "0123", "--confirm", "0123", "--one-way")
		if r.code != 3 {
			t.Fatalf("a cutover with the hosts of 0123 and 4567 swapped: %s", r)
		}
		refused := decode[struct {
			Refusals []guard.Finding `json:"refusals"`
		}](t, r)
		for _, uuid := range []string{query1(t, a, "SELECT @@server_uuid"), query1(t, other, "SELECT @@server_uuid")} {
			if !strings.Contains(r.stdout, uuid) {
				t.Errorf("the refusal does not name server %s: %s", uuid, r)
			}
		}
		if len(refused.Refusals) == 0 {
			t.Errorf("no numbered refusal: %s", r)
		}
		if f := flags(t, a) + flags(t, b) + flags(t, other); f != before {
			t.Errorf("flags after a refused cutover: %s, before %s", f, before)
		}
	})

	before := query1(t, a, "SELECT COUNT(*) FROM slack.messages")
	must(t, "cutover", "0123", "--confirm", "0123", "--one-way")
	time.Sleep(2 * time.Second)
	if f := flags(t, a) + flags(t, b); f != "111111" {
		t.Errorf("flags of the legacy after the cutover: %s, expected all on", f)
	}
	after := query1(t, a, "SELECT COUNT(*) FROM slack.messages")
	time.Sleep(time.Second)
	if again := query1(t, a, "SELECT COUNT(*) FROM slack.messages"); again != after {
		t.Errorf("the legacy still takes writes: %s, then %s messages (before the cutover %s)", after, again, before)
	}
	s := decode[struct {
		Traffic string `json:"traffic"`
		State   struct {
			Phase string `json:"phase"`
		} `json:"state"`
	}](t, must(t, "--output", "json", "status", "0123"))
	if s.Traffic != "vitess" || s.State.Phase != "switched" {
		t.Errorf("status %+v", s)
	}
	w.stop(t)

	if r := vifl(t, "rollback", "0123"); r.code != 3 || !strings.Contains(r.stderr, "not in this version") {
		t.Errorf("rollback: %s", r)
	}
	if r := vifl(t, "abort", "0123"); r.code != 3 {
		t.Errorf("abort after the switch: %s", r)
	}
	for _, args := range [][]string{{"--repair", "--apply"}, {"--accept-drift", "teams", "1"}, {"--withdraw-drift", "teams", "1"}} {
		if r := vifl(t, append([]string{"diff", "0123"}, args...)...); r.code != 3 {
			t.Errorf("diff %v after the switch: %s", args, r)
		}
	}
	if r := vifl(t, "complete", "0123", "--confirm", "4567"); r.code != 3 || !strings.Contains(r.stdout, "R21") {
		t.Errorf("complete with another number: %s", r)
	}
	must(t, "complete", "0123", "--confirm", "0123")
	if f := flags(t, a) + flags(t, b); f != "111111" {
		t.Errorf("flags of the legacy after the end: %s, expected all on", f)
	}
	if n := query1(t, a, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '_vifl'"); n != "0" {
		t.Error("_vifl is still on the legacy after the end")
	}
	if n := query1(t, a, "SELECT COUNT(*) FROM slack.messages"); n != after {
		t.Errorf("legacy data changed by complete: %s messages, before %s", n, after)
	}
}

func writeThrough(ctx context.Context, database, stmt string) error {
	target, err := fleet.cfg.VtgateTarget(123)
	if err != nil {
		return err
	}
	target.Database = database
	return execPlain(ctx, target, stmt)
}
