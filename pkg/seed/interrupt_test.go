package seed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

const parentCommand = "seed-parent"

// parentHelper is a vifl that seeds: it is there to be killed.
func parentHelper(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	line, err := bufio.NewReader(stdin).ReadBytes('\n')
	if err != nil {
		return err
	}
	var w wire
	if err := w.decode(line); err != nil {
		return err
	}
	out := &emitter{w: json.NewEncoder(stdout)}
	_, err = Run(ctx, w.Spec, out.send)
	return err
}

// killAt starts a seed in a process of its own and kills that process (SIGKILL) at the
// first event that is the moment.
func killAt(t *testing.T, spec Spec, what string, moment func(Event) bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := wire{Spec: spec}
	description, err := w.encode()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, parentCommand)
	cmd.Stdin = strings.NewReader(string(description))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	p, err := child.Start("vifl", cmd, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill() }()
	events := json.NewDecoder(stdout)
	for {
		var e Event
		if err := events.Decode(&e); err != nil {
			t.Fatalf("no event of %s: %v: %s", what, err, stderr.String())
		}
		if moment(e) {
			break
		}
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	// Nobody asked the child and its server to end; the kernel does.
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		found := processesWith(spec.WorkDir)
		if len(found) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("killed in %s, these outlived it: %v", what, found)
		}
	}
}

// killInBackup kills a seed whose backup has begun to be written, and says what it left. The
// phase's first event comes before the backup's folder exists; one with bytes comes after. A
// busy machine may kill so late that the backup is whole: that is no half-written one, again.
func killInBackup(t *testing.T, spec Spec) []Backup {
	t.Helper()
	for range 5 {
		killAt(t, spec, "the backup", func(e Event) bool { return e.Phase == PhaseBackup && e.BytesDone > 0 })
		all, err := Backups(spec.BackupRoot, spec.Keyspace)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || !all[0].Complete {
			return all
		}
		if _, err := RemoveBackups(context.Background(), spec.BackupRoot, spec.Keyspace); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("five seeds had written their whole backup before the kill")
	return nil
}

func TestKilledSeedStartsOverCleanly(t *testing.T) {
	_, spec := source(t)
	ctx := context.Background()
	killAt(t, spec, "the fill", func(e Event) bool { return e.Phase == PhaseFill })
	if _, err := os.Stat(filepath.Join(spec.WorkDir, "seed-legacy_0123")); err != nil {
		t.Fatalf("a killed seed was expected to leave its scratch folder: %v", err)
	}
	all := killInBackup(t, spec)
	if len(all) != 1 || all[0].Complete || !all[0].Ours {
		t.Fatalf("found backups %+v, expected one that is ours and not complete", all)
	}
	if _, err := tryRestore(t, spec); err == nil || !strings.Contains(err.Error(), "none are complete") {
		t.Fatalf("restoring a half-written backup: %v, expected Vitess to find none complete", err)
	}

	r := runSeed(t, spec)
	leftNothing(t, spec)
	all, err := Backups(spec.BackupRoot, spec.Keyspace)
	if err != nil || len(all) != 1 || !all[0].Complete || all[0].Name != r.BackupName || all[0].Record == nil || all[0].Record.Position != r.Position {
		t.Fatalf("found backups %+v (%v), expected only %s, complete, with its record", all, err, r.BackupName)
	}

	_, err = Run(ctx, spec, nil)
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "the same server") {
		t.Errorf("seeding again: %v, expected a refusal", err)
	}
	other := spec
	other.Shard = 4567
	if _, err = Run(ctx, other, nil); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "ANOTHER legacy shard, 0123") {
		t.Errorf("seeding another shard into this landing: %v, expected a refusal that names 0123", err)
	}
	if n, err := RemoveBackups(ctx, spec.BackupRoot, spec.Keyspace); n != 1 || err != nil {
		t.Errorf("removed %d backups (%v), expected 1", n, err)
	}
	if all, err = Backups(spec.BackupRoot, spec.Keyspace); len(all) != 0 || err != nil {
		t.Errorf("found %+v (%v) after their removal", all, err)
	}
}

func TestStoppedSeedLeavesNothing(t *testing.T) {
	_, spec := source(t)
	for _, phase := range []string{PhasePrepare, PhaseFill, PhaseBackup} {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Minute, errors.New("test timeout"))
		_, err := Run(ctx, spec, func(e Event) {
			if e.Phase == phase {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped in phase %s: %v", phase, err)
		}
		leftNothing(t, spec)
		if all, err := Backups(spec.BackupRoot, spec.Keyspace); err != nil || len(all) > 1 || (len(all) == 1 && all[0].Complete) {
			t.Errorf("stopped in phase %s: found backups %+v (%v)", phase, all, err)
		}
	}
}

// Each refusal is one line that names the shard, the server, what was found and expected.
func TestBadInputIsRefused(t *testing.T) {
	srv, spec := source(t)
	refused := func(what string, spec Spec, words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_, err := Run(ctx, spec, nil)
		if err == nil {
			t.Fatalf("%s: the seed went through", what)
		}
		for _, w := range append(words, "0123") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", what, err, w)
			}
		}
		if strings.Contains(err.Error(), sourcePassword) || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: the error holds a password: %q", what, err)
		}
		leftNothing(t, spec)
	}
	s := spec
	s.A.ServerUUID = "11111111-2222-3333-4444-555555555555"
	refused("another server behind the address", s, s.A.ServerUUID, spec.A.ServerUUID)
	s = spec
	s.Source.Password = "wrong-secret"
	refused("wrong password", s, "vifl", "0123 side a")
	s = spec
	s.Source.Port = 1
	refused("server not there", s, "cannot be reached", "127.0.0.1:1")
	s = spec
	s.Database = "nosuch"
	refused("unknown database", s, "nosuch")
	s = spec
	s.Landing.User, s.Method = "vt_app", "xtrabackup"
	refused("bad description", s, "vt_app", "xtrabackup", "copy or clone")

	lock, err := takeLock(filepath.Join(spec.WorkDir, "seed-legacy_0123.lock"))
	if err != nil {
		t.Fatal(err)
	}
	refused("a second seed", spec, "another seed of this landing", fmt.Sprint(os.Getpid()))
	_ = lock.Close()

	mysqldtest.Exec(t, srv, "REVOKE RELOAD ON *.* FROM vifl@'%'")
	refused("no RELOAD", spec, "RELOAD")
}
