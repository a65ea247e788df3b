package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/vitess"
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

// stop ends the load and verifies its ledger against all servers, with flags of verify.
func (w *writers) stop(t *testing.T, flags ...string) {
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
	must(t, append([]string{"dev", "load", "verify", "--ledger", w.ledger}, flags...)...)
}

// TestMoveUnderLoad moves shard 0123 from its preflight to its completion, with a rollback and
// a second cutover on the way, while the old application writes to it, and checks every
// acknowledged write.
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
	t.Run("cutover needs the typed number", func(t *testing.T) {
		if r := vifl(t, "cutover", "0123", "--confirm", "4567"); r.code != 3 || !strings.Contains(r.stdout, "R21") {
			t.Errorf("with another number: %s", r)
		}
	})
	t.Run("no way back", func(t *testing.T) {
		for _, s := range []string{"a", "b"} {
			exec1(t, root(t, shard, s), "REVOKE ALTER ON `slack`.* FROM vifl@'%'")
		}
		if r := vifl(t, "cutover", "0123", "--confirm", "0123", "--dry-run"); r.code != 3 || !strings.Contains(r.stdout, "R23") || !strings.Contains(r.stdout, "ALTER on slack") {
			t.Errorf("without a privilege that a stream back needs: %s", r)
		}
		if r := vifl(t, "cutover", "0123", "--confirm", "0123", "--dry-run", "--one-way"); r.code != 0 {
			t.Errorf("the same with --one-way: %s", r)
		}
		for _, s := range []string{"a", "b"} {
			exec1(t, root(t, shard, s), "GRANT ALTER ON `slack`.* TO vifl@'%'")
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
		if r := vifl(t, "cutover", "0123", "--confirm", "0123"); r.code != 3 || !strings.Contains(r.stdout, "a release is under way") {
			t.Errorf("cutover of a held shard: %s", r)
		}
		must(t, "unhold", "0123", "--why", "released")
	})
	t.Run("the wrong shard", func(t *testing.T) {
		other := side(t, 4567, "a")
		before := flags(t, a) + flags(t, b) + flags(t, other) // 4567 may have been moved, and be closed
		swapped := swappedConfig(t)
		r := viflWith(t, swapped, nil, "--output", "json", "cutover", "0123", "--confirm", "0123")
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

	must(t, "cutover", "0123", "--confirm", "0123")
	switched(t, a, b)
	if r := vifl(t, "complete", "0123", "--confirm", "0123"); r.code != 3 || !strings.Contains(r.stdout, "R28") {
		t.Errorf("complete without a reverse diff: %s", r)
	}
	if r := vifl(t, "rollback", "0123", "--confirm", "4567"); r.code != 3 || !strings.Contains(r.stdout, "R21") {
		t.Errorf("rollback with another number: %s", r)
	}
	// Nobody follows the landing but the commands until here: they bring the legacy in step.
	must(t, "diff", "--reverse", "0123")
	serving(t, "0123")
	reparent(t, "legacy_0123")
	time.Sleep(5 * time.Second) // writes on the landing, read from another tablet
	exec1(t, a, "SET GLOBAL offline_mode = OFF")
	if r := vifl(t, "rollback", "0123", "--confirm", "0123", "--dry-run"); r.code != 3 || !strings.Contains(r.stdout, "R26") {
		t.Errorf("rollback to a legacy that somebody opened: %s", r)
	}
	exec1(t, a, "SET GLOBAL offline_mode = ON")
	late := openTransaction(t)
	must(t, "rollback", "0123", "--confirm", "0123")
	late()
	if f := flags(t, a) + flags(t, b); f != "000000" {
		t.Errorf("flags of the legacy after the rollback: %s", f)
	}
	if n := query1(t, a, "SELECT COUNT(*) FROM performance_schema.persisted_variables WHERE variable_name IN ('read_only', 'super_read_only', 'offline_mode')"); n != "0" {
		t.Errorf("%s of the closing flags are still persisted after the rollback", n)
	}
	if traffic, phase := where(t, "0123"); traffic != "legacy" || phase != "syncing" {
		t.Errorf("after the rollback: traffic on %s, %s", traffic, phase)
	}
	time.Sleep(2 * time.Second) // writes on the legacy

	must(t, "diff", "0123")
	must(t, "cutover", "0123", "--confirm", "0123")
	switched(t, a, b)
	time.Sleep(2 * time.Second)
	loseUnacknowledged(t, a, b)
	must(t, "diff", "--reverse", "0123")
	w.stop(t, "--legacy-follows")
	after := query1(t, a, "SELECT COUNT(*) FROM slack.messages")

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
	killedAt(t, "complete/stream back ended", "complete", "0123", "--confirm", "0123")
	must(t, "complete", "0123", "--confirm", "0123")
	if h := must(t, "history", "0123"); !strings.Contains(h.stdout, "the legacy was equal to the landing at") {
		t.Errorf("the receipt of a complete that was killed has not what it rests on: %s", h)
	}
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

// switched sees that a cutover has happened, with a stream back to side a.
func switched(t *testing.T, a, b *sql.DB) {
	t.Helper()
	if f := flags(t, a) + flags(t, b); f != "101111" {
		t.Errorf("flags of the legacy after the cutover: %s, expected all on but super_read_only of side a", f)
	}
	if traffic, phase := where(t, "0123"); traffic != "vitess" || phase != "switched" {
		t.Errorf("after the cutover: traffic on %s, %s", traffic, phase)
	}
}

// where is who serves a shard, and its phase.
func where(t *testing.T, shard string) (traffic, phase string) {
	t.Helper()
	s := decode[struct {
		Traffic string `json:"traffic"`
		State   struct {
			Phase string `json:"phase"`
		} `json:"state"`
	}](t, must(t, "--output", "json", "status", shard))
	return s.Traffic, s.State.Phase
}

// reparent makes another tablet the landing's primary, as an operator does for maintenance.
func reparent(t *testing.T, keyspace string) {
	t.Helper()
	vitesses, err := vitess.Open(t.Context(), fleet.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer vitesses.Close()
	landing := vitesses.Landing(keyspace)
	tablets, err := landing.Tablets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tablet := range tablets {
		if tablet.Type == "REPLICA" {
			if err := landing.Elect(t.Context(), tablet.Alias); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the landing has no replica")
}

// openTransaction leaves a transaction open through vtgate. late sees that it cannot be
// committed behind a rollback: nobody would carry it to the legacy.
func openTransaction(t *testing.T) (late func()) {
	t.Helper()
	target, err := fleet.cfg.VtgateTarget(123)
	if err != nil {
		t.Fatal(err)
	}
	target.Database = "legacy_0123"
	db := connect(t, target, mysqlconn.Plain())
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, stmt := range []string{"BEGIN", "UPDATE teams SET name = 'committed too late' ORDER BY team_id DESC LIMIT 1"} {
		if _, err := conn.ExecContext(t.Context(), stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	return func() {
		if _, err := conn.ExecContext(t.Context(), "COMMIT"); err == nil {
			t.Error("a transaction that was open at the rollback was committed behind it, on the landing")
		}
		_ = conn.Close()
	}
}

// loseUnacknowledged has the landing's primary lost while a commit waits for its
// acknowledgement. No client was told that it was committed, and the next primary never had
// it: the legacy must not get it either.
func loseUnacknowledged(t *testing.T, a, b *sql.DB) {
	t.Helper()
	vitesses, err := vitess.Open(t.Context(), fleet.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer vitesses.Close()
	landing := vitesses.Landing("legacy_0123")
	primary, err := landing.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lost []int
	var replicas []*sql.DB
	for _, p := range processes(t) {
		switch {
		case p.Landing != "legacy_0123" || p.Pid == 0:
		case strings.HasPrefix(p.Name, primary.Alias):
			lost = append(lost, p.Pid)
		case strings.HasSuffix(p.Name, " mysqld"):
			replicas = append(replicas, connect(t, mysqlconn.Target{Name: p.Name, Socket: p.Socket, Account: mysqlconn.Account{User: "vt_dba"}}))
		}
	}
	if len(lost) != 2 || len(replicas) != 2 {
		t.Fatalf("found %d processes of the primary and %d replicas, expected 2 and 2", len(lost), len(replicas))
	}
	account, err := fleet.cfg.Account(fleet.cfg.Landing.Account)
	if err != nil {
		t.Fatal(err)
	}
	db := connect(t, landing.Target(primary, account, "slack"))
	team := query1(t, a, "SELECT MIN(team_id) FROM slack.teams")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Under the shard lock, or VTOrc starts them again.
	_, unlock, err := landing.Lock(t.Context(), "a test stops the acknowledgements")
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() { unlock(new(error)) })
	defer release()
	for _, r := range replicas {
		exec1(t, r, "STOP REPLICA IO_THREAD")
	}
	told := make(chan error, 1)
	go func() {
		told <- writeThrough(ctx, "legacy_0123", "UPDATE teams SET name = 'a ghost' WHERE team_id = "+team)
	}()
	for start := time.Now(); query1(t, db, "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_state LIKE 'Waiting for semi-sync ACK%'") == "0"; {
		if time.Since(start) > 20*time.Second {
			t.Fatal("no commit waits for its acknowledgement")
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second) // for whoever would read the primary
	for _, pid := range lost {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill %d: %v", pid, err)
		}
	}
	release()
	cancel()
	if err := <-told; err == nil {
		t.Error("a write was acknowledged that only the lost primary had")
	}
	for start := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		now, err := landing.Primary(t.Context())
		if err == nil && now.Alias != primary.Alias && writeThrough(t.Context(), "legacy_0123", "DELETE FROM messages WHERE 1 = 0") == nil {
			break
		}
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("the landing has no other primary after two minutes: %+v, %v", now, err)
		}
	}
	time.Sleep(2 * time.Second)                // writes on the new primary
	for _, s := range append(replicas, a, b) { // the replicas: is it really lost?
		if n := query1(t, s, "SELECT COUNT(*) FROM slack.teams WHERE name = 'a ghost'"); n != "0" {
			t.Errorf("%s row(s) that were never acknowledged, expected none on the landing that is left nor on the legacy", n)
		}
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
