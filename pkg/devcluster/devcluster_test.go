package devcluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/vitess"
)

// TestWholeLife brings a cluster up, looks at everything in it, gives it a landing whose
// tablets restore a real seed, breaks one, mends it, and takes all of it down, twice.
func TestWholeLife(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	up(t, dir)
	folder := data(t, dir)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()

	processes := status(t, dir)
	if len(processes) != 9 {
		t.Errorf("found %d processes, expected supervisor, mains, 4 legacy, vtctld, vtorc, vtgate: %+v", len(processes), processes)
	}
	var memory int64
	for _, p := range processes {
		if !p.Up || p.Memory == 0 || p.Address == "" {
			t.Errorf("found %+v, expected it up, with memory and an address", p)
		}
		memory += p.Memory
	}
	if memory > 5<<30 {
		t.Errorf("the cluster takes %d MB, expected less than 5 GB", memory>>20)
	}
	for _, pid := range members(folder) {
		if info, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil && info.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("process %d runs as root", pid)
		}
	}

	c, err := config.Load(dir + "/vifl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("legacy", func(t *testing.T) { checkLegacy(ctx, t, c) })
	t.Run("second up is refused", func(t *testing.T) {
		o, err := testOptions(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := Up(ctx, o, &lockedBuffer{}); err == nil || !strings.Contains(err.Error(), "up there already") {
			t.Errorf("found %v, expected a refusal", err)
		}
	})
	t.Run("landing", func(t *testing.T) { checkLanding(ctx, t, dir, c) })

	if found, err := Down(ctx, dir); err != nil || !found {
		t.Fatalf("down: %v, %v", found, err)
	}
	nothingLeft(t, folder)
	for _, p := range []string{folder, dir} {
		if _, err := os.Stat(p); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", p, err)
		}
	}
	if found, err := Down(ctx, dir); err != nil || found {
		t.Errorf("second down: %v, %v", found, err)
	}
}

func status(t *testing.T, dir string) []Process {
	t.Helper()
	processes, err := Status(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return processes
}

// checkLegacy: both sides hold the data, follow each other, and are set as the fleets are;
// the accounts of vifl.yaml get in and can do no more than they should.
func checkLegacy(ctx context.Context, t *testing.T, c *config.Config) {
	for _, shard := range c.Shards {
		var sums []string
		for i, side := range sideNames {
			target, err := c.SideTarget(shard, side)
			if err != nil {
				t.Fatal(err)
			}
			s, err := legacy.Open(ctx, target, shard.Number.ID, side, shard.Database)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var messages, offset int
			var gtid, format string
			err = s.DB().QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM slack.messages), @@gtid_mode, @@binlog_format, @@auto_increment_offset").Scan(&messages, &gtid, &format, &offset)
			if err != nil || messages != 100 || gtid != "OFF" || format != "ROW" || offset != i+1 {
				t.Errorf("%s side %s: found %d messages, gtid_mode %s, binlog_format %s, offset %d, %v", shard.Number, side, messages, gtid, format, offset, err)
			}
			replica, err := s.Replica(ctx)
			if err != nil || replica == nil {
				t.Errorf("%s side %s replicates from nobody: %v", shard.Number, side, err)
			}
			sums = append(sums, fmt.Sprint(messages))
			if _, err := s.DB().ExecContext(ctx, "DROP TABLE slack.messages"); !mysqlconn.IsAccessDenied(err) {
				t.Errorf("%s side %s: vifl's account may drop the application's tables: %v", shard.Number, side, err)
			}
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: the sides differ: %v", shard.Number, sums)
		}
	}
	target, err := c.MainsTarget()
	if err != nil {
		t.Fatal(err)
	}
	mains, err := mysqlconn.Connect(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	defer mains.Close()
	var teams, places int
	if err := mains.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM teams), (SELECT COUNT(*) FROM shards)").Scan(&teams, &places); err != nil || teams != 40 || places != 4 {
		t.Errorf("mains: found %d teams and %d places, %v; expected 40 and 4", teams, places, err)
	}
	if _, err := mains.ExecContext(ctx, "DELETE FROM teams"); !mysqlconn.IsAccessDenied(err) {
		t.Errorf("mains: vifl's account may delete teams: %v", err)
	}
}

// checkLanding seeds 0123 and looks at the tablets that the hook starts.
func checkLanding(ctx context.Context, t *testing.T, dir string, c *config.Config) {
	shard := c.Shards[0]
	l := Landing{Keyspace: c.Landing.Keyspace.Keyspace(shard.Number.ID), Database: shard.Database, Shard: shard.Number.String()}
	fleet, err := vitess.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close()
	landing := fleet.Landing(l.Keyspace)
	if err := Provision(ctx, dir, l, nil); err == nil || !strings.Contains(err.Error(), "shard 0") {
		t.Errorf("provision before the keyspace is made: found %v", err)
	}
	if err := landing.Create(ctx, c.Landing.Durability); err != nil {
		t.Fatal(err)
	}
	if err := Provision(ctx, dir, l, nil); err == nil || !strings.Contains(err.Error(), "no complete backup") {
		t.Errorf("provision before the seed: found %v, expected that there is no backup", err)
	}
	runSeed(ctx, t, c, l)

	var lines lockedBuffer
	begin := time.Now()
	if err := Provision(ctx, dir, l, func(s string) { fmt.Fprintln(&lines, s) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("three tablets in %s:\n%s", time.Since(begin).Round(time.Millisecond), lines.String())
	checkTablets(ctx, t, c, landing)
	before := tabletPids(t, dir)
	if err := Provision(ctx, dir, l, nil); err != nil {
		t.Fatal(err)
	}
	if after := tabletPids(t, dir); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("a second provision changed the tablets: %v, then %v", before, after)
	}

	// A tablet dies with its mysqld; the hook, run again, brings it back with its data.
	var victim string
	for _, p := range status(t, dir) {
		if p.Landing != "" && (victim == "" || strings.HasPrefix(p.Name, victim)) {
			victim = strings.TrimSuffix(p.Name, " mysqld")
			if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := poll(ctx, "the tablet is down", func() (bool, error) {
		up := 0
		for _, p := range status(t, dir) {
			if p.Landing != "" && p.Up {
				up++
			}
		}
		return up == 4, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := Provision(ctx, dir, l, nil); err != nil {
		t.Fatal(err)
	}
	checkTablets(ctx, t, c, landing)

	if err := Deprovision(ctx, dir, l); err != nil {
		t.Fatal(err)
	}
	if err := Deprovision(ctx, dir, l); err != nil {
		t.Errorf("deprovision twice: %v", err)
	}
	if left := tabletPids(t, dir); len(left) != 0 {
		t.Errorf("deprovision left %v", left)
	}
}

func tabletPids(t *testing.T, dir string) []int {
	t.Helper()
	var pids []int
	for _, p := range status(t, dir) {
		if p.Landing != "" {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// checkTablets: three tablets, each with the seed's record, vifl's account and a server_uuid
// of its own.
func checkTablets(ctx context.Context, t *testing.T, c *config.Config, landing *vitess.Landing) {
	t.Helper()
	tablets, err := landing.Tablets(ctx)
	if err != nil || len(tablets) != tabletsPerLanding {
		t.Fatalf("found %d tablets, %v", len(tablets), err)
	}
	account, err := c.Account(c.Landing.Account)
	if err != nil {
		t.Fatal(err)
	}
	uuids := map[string]bool{}
	for _, tablet := range tablets {
		db, err := landing.Connect(ctx, tablet, account, Database)
		if err != nil {
			t.Fatal(err)
		}
		record, err := seed.ReadRecord(ctx, db)
		if err != nil || record.Shard != c.Shards[0].Number.ID {
			t.Errorf("%s: found the seed record %+v, %v", tablet.Alias, record, err)
		}
		var uuid string
		var messages int
		if err := db.QueryRowContext(ctx, "SELECT @@server_uuid, (SELECT COUNT(*) FROM messages)").Scan(&uuid, &messages); err != nil || messages != 100 {
			t.Errorf("%s: found %d messages, %v", tablet.Alias, messages, err)
		}
		uuids[uuid] = true
		_ = db.Close()
	}
	if len(uuids) != tabletsPerLanding {
		t.Errorf("the tablets' servers share server_uuids: %v", uuids)
	}
}

func runSeed(ctx context.Context, t *testing.T, c *config.Config, l Landing) {
	t.Helper()
	shard := c.Shards[0]
	spec := seed.Spec{
		Shard: shard.Number.ID, Keyspace: l.Keyspace, Database: l.Database, StreamSide: config.SideA,
		MySQLRoot: c.Tools.MySQLRoot, RunAs: c.Tools.RunAs, WorkDir: c.WorkDir, BackupRoot: c.Backup.Root, Version: "test",
		BufferPool: 64 << 20,
	}
	var err error
	if spec.Landing, err = c.Account(c.Landing.Account); err != nil {
		t.Fatal(err)
	}
	for side, to := range map[string]*legacy.Identity{config.SideA: &spec.A, config.SideB: &spec.B} {
		target, err := c.SideTarget(shard, side)
		if err != nil {
			t.Fatal(err)
		}
		s, err := legacy.Open(ctx, target, shard.Number.ID, side, shard.Database)
		if err != nil {
			t.Fatal(err)
		}
		if *to, err = s.Identity(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if side == config.SideA {
			spec.Source = target
		}
	}
	if _, err := seed.Run(ctx, spec, nil); err != nil {
		t.Fatal(err)
	}
}
