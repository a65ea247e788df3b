package seed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// A seed into a full storage stood still for ever, at the bytes that had found room.
func TestASeedIntoAFullStorageFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small storage")
	}
	t.Parallel()
	_, spec := source(t)
	spec.BackupRoot = filepath.Join(mysqldtest.Dir(t), "small")
	if err := os.Mkdir(spec.BackupRoot, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", spec.BackupRoot, "tmpfs", 0, "size=1m,mode=0755"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(spec.BackupRoot, unix.MNT_DETACH) })
	ctx, cancel := context.WithTimeout(t.Context(), mysqldtest.Timeout+time.Minute)
	defer cancel()
	_, err := Run(ctx, spec, nil)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "is full") || !strings.Contains(err.Error(), spec.BackupRoot) {
		t.Fatalf("%v (%v), expected an error that the storage %s is full", err, ctx.Err(), spec.BackupRoot)
	}
	if all, err := Backups(spec.BackupRoot, spec.Keyspace); err != nil || len(all) != 0 {
		t.Errorf("left behind: %+v, %v", all, err)
	}
	if left, err := filepath.Glob(filepath.Join(spec.WorkDir, "seed-legacy_0123", "*")); err != nil || len(left) != 0 {
		t.Errorf("left in the work folder: %v, %v", left, err)
	}
}

func TestAStallIsNoSlowStorageAndNoStoppingServer(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var s stall
	for _, c := range []struct {
		name        string
		bytes, free uint64
		stopped     bool
		after       time.Duration
		want        string
	}{
		{"the server is stopping", 0, 1 << 40, false, 0, ""},
		{"for minutes", 0, 1 << 40, false, 10 * time.Minute, ""},
		{"it grows", 5, 1 << 40, true, 11 * time.Minute, ""},
		{"it is slow", 5, 1 << 40, true, 12 * time.Minute, ""},
		{"it grows on the last block", 6, 0, true, 13 * time.Minute, ""},
		{"it has just stopped there", 6, 0, true, 13*time.Minute + time.Second, ""},
		{"it is full", 6, 0, true, 13*time.Minute + fullAfter, "is full"},
		{"it hangs with room", 6, 1 << 40, true, 13*time.Minute + stallAfter, "has taken nothing"},
	} {
		err := s.check("/backups", c.bytes, c.free, c.stopped, at(c.after))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
