package e2e

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vifl/vifl/pkg/shardid"
)

// killedAt runs the command so that it is killed by SIGKILL at a step, and fails the test
// when it ended otherwise: the step's name may have changed.
func killedAt(t *testing.T, step string, args ...string) {
	t.Helper()
	r := viflWith(t, fleet.cfg.Path(), []string{"VIFL_DIE_AT=" + step}, args...)
	if r.code != -1 {
		t.Fatalf("vifl %s was not killed at %q: %s", strings.Join(args, " "), step, r)
	}
}

// serving runs vifl serve for a shard until kill (SIGKILL) is called, or the test ends.
func serving(t *testing.T, shard string) (kill func()) {
	t.Helper()
	cmd := exec.Command(fleet.vifl, "serve", shard)
	cmd.Env = append(os.Environ(), "VIFL_CONFIG="+fleet.cfg.Path())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Logf("vifl serve %s:\n%s", shard, said.String())
		})
	}
	t.Cleanup(kill)
	return kill
}

// TestKilledInEachStep kills the command in the steps of a move, seeded by clone and
// followed by vifl's own stream, and runs it again. At the end the shard has been moved, and
// every acknowledged write is where it must be.
//
// The shard's transactions are compressed, which Vitess' own stream would lose.
func TestKilledInEachStep(t *testing.T) {
	const shard = shardid.ID(4567)
	a, b := side(t, shard, "a"), side(t, shard, "b")
	for _, s := range []*sql.DB{a, b} {
		exec1(t, s, "SET GLOBAL binlog_transaction_compression = ON")
	}
	w := startLoad(t, shard, 30)

	if r := vifl(t, "preflight", "4567", "--stream", "vreplication"); r.code != 3 || !strings.Contains(r.stdout, "--stream binlog") {
		t.Errorf("preflight of compressed transactions for a stream that loses them: %s", r)
	}
	picked := decode[struct{ Stream, Why string }](t, must(t, "--output", "json", "preflight", "4567"))
	if picked.Stream != "binlog" || !strings.Contains(picked.Why, "binlog_transaction_compression=ON") {
		t.Errorf("preflight picked %+v, expected the binlog stream for the compression", picked)
	}
	if r := vifl(t, "seed", "4567", "--method", "clone"); r.code != 3 || !strings.Contains(r.stdout, "4567 side a") || !strings.Contains(r.stdout, "INSTALL PLUGIN clone") {
		t.Errorf("a clone from a server without the plugin, expected a refusal with the remedy: %s", r)
	}
	exec1(t, root(t, shard, "a"), "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
	for _, step := range []string{"seed/legacy prepared", "seed/backup made", "seed/tablets started"} {
		killedAt(t, step, "seed", "4567", "--method", "clone")
	}
	if r := must(t, "--output", "json", "seed", "4567", "--method", "clone"); !strings.Contains(r.stdout, `"method": "clone"`) {
		t.Errorf("the seed does not say how it was made: %s", r)
	}
	killedAt(t, "sync start/stream made", "sync", "start", "4567")
	must(t, "sync", "start", "4567")
	kill := serving(t, "4567")
	for _, step := range []string{"diff/stream stopped", "diff/compared"} {
		killedAt(t, step, "diff", "4567")
	}
	kill()
	must(t, "diff", "4567")
	serving(t, "4567")

	// Up to the point of no undo the next command takes everything back. Here and below, the steps that
	// differ in what is left behind; all of them in the long run.
	steps := []string{"raise the epoch in mains", "freeze side a", "freeze side b", "stop the stream at the final position", "open the landing for writes", "mains sends the application to vtgate"}
	if os.Getenv("VIFL_TEST_LONG") != "" {
		steps = append(steps, "take the landing's shard lock", "refusals once more, under the locks", "rehearse the change of mains", "note the flags of both sides",
			"side a applies the last of side b, and b of a", "compare the newest keys", "counters on the landing past the legacy's", "nothing moved, nothing prepared",
			"probe: write and read through vtgate", "the pause is within its bound")
	}
	for _, step := range steps {
		killedAt(t, "cutover/"+step, "cutover", "4567", "--confirm", "4567", "--max-age", "2h")
		must(t, "thaw", "4567")
		if f := flags(t, a) + flags(t, b); f != "000000" {
			t.Fatalf("killed at %q, then thawed: flags %s", step, f)
		}
		for _, s := range []*sql.DB{a, b} {
			if ms := query1(t, s, "SELECT @@replica_checkpoint_period"); ms != "300" {
				t.Fatalf("killed at %q, then thawed: replica_checkpoint_period is %s, found 300 before", step, ms)
			}
		}
	}
	must(t, "rehearse", "4567", "--max-age", "2h")

	// From there on it goes forward, by the same command only.
	killedAt(t, "cutover/between the attempt and the change of mains", "cutover", "4567", "--confirm", "4567", "--max-age", "2h")
	if r := vifl(t, "thaw", "4567"); r.code != 3 || !strings.Contains(r.stderr, "point of no undo") {
		t.Errorf("thaw behind the point of no undo: %s", r)
	}
	if f := flags(t, a) + flags(t, b); f != "110110" {
		t.Errorf("flags between the attempt and the change of mains: %s", f)
	}
	for _, step := range []string{"end the application's connections on the legacy", "keep the legacy closed, over restarts too", "start the stream back", "write the switch down"} {
		killedAt(t, "cutover/"+step, "cutover", "4567", "--confirm", "4567")
	}
	must(t, "cutover", "4567", "--confirm", "4567")
	if f := flags(t, a) + flags(t, b); f != "101111" {
		t.Errorf("flags after the cutover: %s", f)
	}
	s := decode[struct {
		State struct {
			Switch struct {
				LandingGTID string  `json:"landing_gtid"`
				PauseMillis float64 `json:"pause_ms"`
			} `json:"switch"`
		} `json:"state"`
	}](t, must(t, "--output", "json", "status", "4567")).State.Switch
	if s.LandingGTID == "" || s.PauseMillis <= 0 {
		t.Errorf("a cutover ended by another owner forgot where the landing was opened, or its pause: %+v", s)
	}

	// And the way back, by the same rules.
	killedAt(t, "diff --reverse/stream stopped", "diff", "--reverse", "4567")
	must(t, "diff", "--reverse", "4567")
	steps = []string{"fence the landing", "freeze the landing's primary", "stop the stream back", "side b applies the last of side a", "mains sends the application to the legacy"}
	if os.Getenv("VIFL_TEST_LONG") != "" {
		steps = append(steps, "take the landing's shard lock", "refusals once more, under the locks", "raise the epoch in mains", "rehearse the change of mains",
			"note the landing's primary and its flags", "end the landing's open transactions", "the stream back applies the landing's last transaction",
			"counters on the legacy past the landing's", "compare the newest keys", "nothing moved")
	}
	for _, step := range steps {
		killedAt(t, "rollback/"+step, "rollback", "4567", "--confirm", "4567")
		must(t, "thaw", "4567")
		if f := flags(t, a) + flags(t, b); f != "101111" {
			t.Fatalf("killed at %q, then thawed: flags of the legacy %s", step, f)
		}
		if err := writeThrough(t.Context(), "legacy_4567", "DELETE FROM messages WHERE 1 = 0"); err != nil {
			t.Fatalf("killed at %q, then thawed: the landing takes no writes: %v", step, err)
		}
	}
	killedAt(t, "rollback/between the attempt and the change of mains", "rollback", "4567", "--confirm", "4567")
	if r := vifl(t, "thaw", "4567"); r.code != 3 || !strings.Contains(r.stderr, "vifl rollback 4567 --confirm 4567") {
		t.Errorf("thaw behind a rollback's point of no undo: %s", r)
	}
	for _, step := range []string{"open the legacy", "the landing follows the legacy again", "end the stream back", "write the rollback down"} {
		killedAt(t, "rollback/"+step, "rollback", "4567", "--confirm", "4567")
	}
	must(t, "rollback", "4567", "--confirm", "4567")
	if f := flags(t, a) + flags(t, b); f != "000000" {
		t.Errorf("flags after the rollback: %s", f)
	}
	must(t, "diff", "4567")
	w.stop(t)
}
