package keyspaces_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

// workflow is the stream that keeps membership_by_channel.
const workflow = "memberships"

// key is one membership.
type key struct{ user, channel int }

// absent is the role of a membership that is not there.
const absent = ""

// ledger is what the writers were told of every membership. Each membership has one writer, so the
// last acknowledged write is what must be there.
type ledger struct {
	mu sync.Mutex
	// roles that a membership may have. More than one: the last write was not acknowledged, and may
	// have happened or not.
	roles map[key][]string

	acknowledged, unknown atomic.Int64
}

func (l *ledger) wrote(err error, changes map[key]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acknowledged.Add(1)
	} else {
		l.unknown.Add(1)
	}
	for k, role := range changes {
		switch before := l.roles[k]; {
		case err == nil:
			l.roles[k] = []string{role}
		case before == nil:
			l.roles[k] = []string{absent, role}
		default:
			l.roles[k] = append(before, role)
		}
	}
}

// channels is how many channels there are, users how many users each writer has. Both are small, so
// that a membership is changed, ended and begun again many times.
const (
	channels = 40
	users    = 25
)

// write changes memberships of its own users until ctx ends.
func (l *ledger) write(ctx context.Context, db *sql.DB, writer int) {
	r := rand.New(rand.NewSource(int64(writer)))
	roles := []string{"member", "admin", "guest"}
	for ctx.Err() == nil {
		user := writer*1000 + r.Intn(users)
		k := key{user, 1 + r.Intn(channels)}
		role := roles[r.Intn(len(roles))]
		// Without the load's own ctx: a write that is broken off has no outcome.
		one, cancel := context.WithTimeout(context.Background(), patience)
		var err error
		changes := map[key]string{k: role}
		switch n := r.Intn(20); {
		case n < 8: // join, or a new role
			_, err = db.ExecContext(one, "INSERT INTO user_channels (user_id, channel_id, team_id, role, joined_at) VALUES (?, ?, 1, ?, NOW(6)) ON DUPLICATE KEY UPDATE role = VALUES(role)", user, k.channel, role)
		case n < 13: // leave
			changes[k] = absent
			_, err = db.ExecContext(one, "DELETE FROM user_channels WHERE user_id = ? AND channel_id = ?", user, k.channel)
		case n < 17: // move from one channel to another, in a transaction
			to := key{user, 1 + k.channel%channels}
			changes = map[key]string{k: absent, to: role}
			err = move(one, db, k, to, role)
		case n < 19: // leave and come back as somebody else, in a transaction
			err = move(one, db, k, k, role)
		default: // the user is deactivated
			changes = map[key]string{}
			for channel := 1; channel <= channels; channel++ {
				changes[key{user, channel}] = absent
			}
			_, err = db.ExecContext(one, "DELETE FROM user_channels WHERE user_id = ?", user)
		}
		cancel()
		l.wrote(err, changes)
	}
}

func move(ctx context.Context, db *sql.DB, from, to key, role string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "DELETE FROM user_channels WHERE user_id = ? AND channel_id = ?", from.user, from.channel); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO user_channels (user_id, channel_id, team_id, role, joined_at) VALUES (?, ?, 1, ?, NOW(6)) ON DUPLICATE KEY UPDATE role = VALUES(role)", to.user, to.channel, role); err != nil {
		return err
	}
	return tx.Commit()
}

// found is one row of a membership, and on which shard.
type found struct{ shard, role, row string }

// read reads a membership table on the servers of all shards, without Vitess: a row that is on two
// shards is found twice.
func (c *cluster) read(t *testing.T, keyspace, table string) map[key][]found {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := map[key][]found{}
	for i, tablet := range c.tablets[keyspace] {
		rows, err := c.direct[tablet].QueryContext(ctx, "SELECT user_id, channel_id, role, CONCAT_WS(',', user_id, channel_id, team_id, role, joined_at) FROM "+table)
		if err != nil {
			t.Fatalf("%s: %v", keyspace, err)
		}
		for rows.Next() {
			var k key
			f := found{shard: shards[i]}
			if err := rows.Scan(&k.user, &k.channel, &f.role, &f.row); err != nil {
				t.Fatal(err)
			}
			out[k] = append(out[k], f)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
	return out
}

// counts are what is wrong with memberships.
type counts struct {
	lost    int // expected, and not there
	doubled int // there more than once
	ghosts  int // there, and not expected
	changed int // there once, and different
}

// against counts what is wrong with a membership table by what the ledger allows.
func (l *ledger) against(rows map[key][]found) (n counts) {
	for k, allowed := range l.roles {
		have := rows[k]
		role := absent
		if len(have) > 0 {
			role = have[0].role
		}
		switch {
		case len(have) > 1:
			n.doubled++
		case slices.Contains(allowed, role):
		case role == absent:
			n.lost++
		case len(allowed) == 1 && allowed[0] == absent:
			n.ghosts++
		default:
			n.changed++
		}
	}
	for k := range rows {
		if _, known := l.roles[k]; !known {
			n.ghosts++
		}
	}
	return n
}

// compare counts what is wrong with the copy.
func compare(truth, copied map[key][]found) (n counts) {
	for k, want := range truth {
		have := copied[k]
		switch {
		case len(have) == 0:
			n.lost++
		case len(have) > 1:
			n.doubled++
		case have[0].row != want[0].row:
			n.changed++
		}
	}
	for k := range copied {
		if len(truth[k]) == 0 {
			n.ghosts++
		}
	}
	return n
}

// caughtUp waits until the stream has applied all that the sources' servers have committed.
func (c *cluster) caughtUp(t *testing.T) {
	t.Helper()
	for i, source := range c.tablets["membership_by_user"] {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		done, err := one(ctx, c.direct[source], "SELECT @@GLOBAL.gtid_executed")
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for j, target := range c.tablets["membership_by_channel"] {
			what := fmt.Sprintf("the stream of shard %s has applied what shard %s of membership_by_user committed", shards[j], shards[i])
			eventually(t, what, func(ctx context.Context) error {
				state, err := one(ctx, c.direct[target], `SELECT CONCAT(GTID_SUBSET(?, SUBSTRING_INDEX(pos, '/', -1)), ' ', state, ' ', message, ' ', pos)
					FROM _vt.vreplication WHERE workflow = ? AND source LIKE CONCAT('%shard:"', ?, '"%')`, done, workflow, shards[i])
				if err == nil && !strings.HasPrefix(state, "1 Running") {
					err = fmt.Errorf("found %s, expected it running and past %s", state, done)
				}
				return err
			})
		}
	}
}

// sums are what the check of docs/keyspaces.md asks a keyspace for, through vtgate: the number of
// memberships and their sum, by bucket.
func (c *cluster) sums(t *testing.T, keyspace string) (buckets map[string]string, memberships int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := c.safe.QueryContext(ctx, c.query(t, keyspace, "sums_of_memberships").Text)
	if err != nil {
		t.Fatalf("%s: %v", keyspace, err)
	}
	defer rows.Close()
	buckets = map[string]string{}
	for rows.Next() {
		var bucket, sum string
		var n int
		if err := rows.Scan(&bucket, &n, &sum); err != nil {
			t.Fatal(err)
		}
		buckets[bucket] = fmt.Sprintf("%d memberships, sum %s", n, sum)
		memberships += n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return buckets, memberships
}

// differing are the buckets that are not the same on both sides.
func differing(a, b map[string]string) (n int) {
	for bucket := range a {
		if a[bucket] != b[bucket] {
			n++
		}
	}
	for bucket := range b {
		if _, both := a[bucket]; !both {
			n++
		}
	}
	return n
}

// testAgreement writes memberships by user, makes the copy by channel while it does, kills every
// kind of server that the copy needs, and counts at the end.
func (c *cluster) testAgreement(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	l := &ledger{roles: map[key][]string{}}
	// What testQueries has left is no part of this.
	for _, source := range c.tablets["membership_by_user"] {
		if _, err := c.direct[source].ExecContext(ctx, "DELETE FROM user_channels"); err != nil {
			t.Fatal(err)
		}
	}
	load, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() { l.write(load, c.safe, w+1) })
	}
	var fresh freshness
	writers.Go(func() { fresh.watch(load, c.safe) })
	stopped := false
	end := func() {
		if !stopped {
			stopped = true
			stop()
			writers.Wait()
		}
	}
	defer end()
	more := int64(400)
	if os.Getenv("VIFL_TEST_LONG") != "" {
		more = 20000
	}
	goOn := func(what string) {
		t.Helper()
		want := l.acknowledged.Load() + more
		eventually(t, fmt.Sprintf("%d more writes are acknowledged %s", more, what), func(context.Context) error {
			if n := l.acknowledged.Load(); n < want {
				return fmt.Errorf("found %d, expected %d", n, want)
			}
			return nil
		})
	}
	goOn("before there is a copy")
	settings := ""
	for _, k := range c.all {
		settings += k.TableSettings
	}
	if _, err := c.Vtctldclient(ctx, "Materialize", "--workflow", workflow, "--target-keyspace", "membership_by_channel",
		"create", "--source-keyspace", "membership_by_user", "--table-settings", settings); err != nil {
		t.Fatal(err)
	}
	goOn("while the copy is made")
	restart := func(what string, f func(context.Context) error) {
		t.Helper()
		if err := f(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		goOn("behind " + what)
	}
	by := func(keyspace string, i int) *vitesstest.Tablet { return c.tablets[keyspace][i] }
	restart("a kill of the copy's vttablet", by("membership_by_channel", 0).Restart)
	restart("a kill of the truth's vttablet", by("membership_by_user", 1).Restart)
	restart("a kill of the copy's mysqld", killed(by("membership_by_channel", 1)))
	restart("a kill of the truth's mysqld", killed(by("membership_by_user", 0)))
	end()
	c.caughtUp(t)

	truth, copied := c.read(t, "membership_by_user", "user_channels"), c.read(t, "membership_by_channel", "channel_members")
	for k := range fresh.seen {
		l.roles[k] = []string{absent, "probe"}
	}
	byLedger, byCopy := l.against(truth), compare(truth, copied)
	t.Logf("writes: acknowledged %d, unknown %d; memberships: by user %d, by channel %d", l.acknowledged.Load(), l.unknown.Load(), len(truth), len(copied))
	t.Logf("by user against the ledger: %+v; by channel against by user: %+v", byLedger, byCopy)
	t.Logf("a write by user was seen by channel after: %s", &fresh)
	if byLedger != (counts{}) {
		t.Errorf("by user: found %+v, expected what was acknowledged", byLedger)
	}
	if byCopy != (counts{}) {
		t.Errorf("by channel: found %+v, expected the same memberships, each once", byCopy)
	}
	if len(truth) < users || l.acknowledged.Load() < 6*more {
		t.Errorf("found %d memberships behind %d writes, expected a load", len(truth), l.acknowledged.Load())
	}
	a, inA := c.sums(t, "membership_by_user")
	b, inB := c.sums(t, "membership_by_channel")
	if n := differing(a, b); n != 0 || inA != len(truth) || inB != len(truth) {
		t.Errorf("sums: found %d of %d and %d buckets different, %d and %d memberships, expected none and %d", n, len(a), len(b), inA, inB, len(truth))
	}

	// The counting sees what it counts: a membership is lost, one is on both shards, one has another
	// role, one should not be there.
	here, there := c.direct[by("membership_by_channel", 0)], c.direct[by("membership_by_channel", 1)]
	for _, damage := range []struct {
		db        *sql.DB
		statement string
	}{
		{here, "DELETE FROM channel_members ORDER BY channel_id, user_id LIMIT 1"},
		{here, "UPDATE channel_members SET role = 'damaged' ORDER BY channel_id DESC, user_id DESC LIMIT 1"},
		{there, "INSERT INTO channel_members SELECT channel_id, 999999, team_id, role, joined_at FROM channel_members LIMIT 1"},
	} {
		if _, err := damage.db.ExecContext(ctx, damage.statement); err != nil {
			t.Fatalf("%s: %v", damage.statement, err)
		}
	}
	for k, f := range copied {
		if f[0].shard == shards[1] {
			if _, err := here.ExecContext(ctx, "INSERT INTO channel_members (channel_id, user_id, team_id, role, joined_at) VALUES (?, ?, 1, 'member', NOW(6))", k.channel, k.user); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if n := compare(truth, c.read(t, "membership_by_channel", "channel_members")); n != (counts{lost: 1, doubled: 1, ghosts: 1, changed: 1}) {
		t.Errorf("a copy that was damaged: found %+v, expected one of each", n)
	}
	b, _ = c.sums(t, "membership_by_channel")
	if n := differing(a, b); n < 1 || n > 4 {
		t.Errorf("sums of a copy that was damaged: found %d buckets different, expected those of four rows", n)
	}
}

// killed kills a tablet's mysqld, as a crash of it would, and starts it again.
func killed(tablet *vitesstest.Tablet) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := tablet.MySQL.Kill(); err != nil {
			return err
		}
		return tablet.MySQL.Restart(ctx)
	}
}

// freshness is how long a write by user took until it was seen by channel.
type freshness struct {
	took []time.Duration
	seen map[key]bool
}

// watch joins a user to a channel, again and again, and looks for it there.
func (f *freshness) watch(ctx context.Context, db *sql.DB) {
	f.seen = map[key]bool{}
	for n := 1; ctx.Err() == nil; n++ {
		k := key{900000 + n, 1 + n%channels}
		f.seen[k] = true
		if _, err := db.ExecContext(ctx, "INSERT INTO user_channels (user_id, channel_id, team_id, role, joined_at) VALUES (?, ?, 1, 'probe', NOW(6))", k.user, k.channel); err != nil {
			continue
		}
		for wrote := time.Now(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if role, err := one(ctx, db, "SELECT MAX(role) FROM channel_members WHERE channel_id = ? AND user_id = ?", k.channel, k.user); err == nil && role != "" {
				f.took = append(f.took, time.Since(wrote))
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *freshness) String() string { return quantiles(f.took) }

// quantiles are p50, p99 and the longest of some durations.
func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "no sample"
	}
	d = slices.Sorted(slices.Values(d))
	at := func(q float64) float64 { return d[int(q*float64(len(d)-1))].Seconds() * 1000 }
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, longest %.1f ms (%d)", at(0.5), at(0.99), at(1), len(d))
}
