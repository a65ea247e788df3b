package diff

import (
	"context"
	"crypto/des"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// keyRange is the quarter of the keyspace, -40 to c0-, that Vitess' hash vindex gives an id.
func keyRange(t *testing.T, id uint64) int {
	t.Helper()
	block, err := des.NewCipher(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	var in, out [8]byte
	binary.BigEndian.PutUint64(in[:], id)
	block.Encrypt(out[:], in[:])
	return int(out[0]) / 64
}

// spreads are three source servers, where a row is by its team, and four target databases,
// where it is by its channel.
type spreads struct {
	servers  []*mysqld.Server // the sources, then the one of the targets
	from, to Spread
}

const spreadDatabases = "from_0 from_1 from_2 ks_-40 ks_40-80 ks_80-c0 ks_c0-"

func newSpreads(t *testing.T) *spreads {
	t.Helper()
	s := &spreads{from: Spread{Name: "legacy", Table: "membership_by_user"}, to: Spread{Name: "ks", Table: "membership_by_channel"}}
	for i := range 4 {
		s.servers = append(s.servers, mysqldtest.Start(t, mysqldtest.Options{Name: fmt.Sprintf("server %d", i)}))
	}
	for i, name := range strings.Fields(spreadDatabases) {
		server := s.servers[min(i, 3)]
		script(t, server, "", []string{"CREATE DATABASE `" + name + "`"})
		pool := Pool{Name: name, Database: name, DB: mysqldtest.Open(t, server)}
		if i < 3 {
			s.from.Pools = append(s.from.Pools, pool)
			script(t, server, name, []string{`CREATE TABLE membership_by_user (user_id INT UNSIGNED NOT NULL, channel_id BIGINT NOT NULL, team_id INT NOT NULL, role ENUM('member','owner') NOT NULL, joined DATETIME(6), note TEXT, legacy_only INT, PRIMARY KEY (user_id, channel_id))`})
		} else {
			s.to.Pools = append(s.to.Pools, pool)
			script(t, server, name, []string{`CREATE TABLE membership_by_channel (channel_id BIGINT NOT NULL, role ENUM('member','owner') NOT NULL, note TEXT, user_id BIGINT UNSIGNED NOT NULL, joined DATETIME(6), team_id INT NULL, PRIMARY KEY (channel_id, user_id))`})
		}
	}
	return s
}

// run runs a statement in a side's database.
func (s *spreads) run(t *testing.T, side *Spread, part int, statements ...string) {
	t.Helper()
	server := s.servers[3]
	if side == &s.from {
		server = s.servers[part]
	}
	script(t, server, side.Pools[part].Database, statements)
}

// fill gives both sides the same rows.
func (s *spreads) fill(t *testing.T, rows int) {
	t.Helper()
	from, to := make([][]string, 3), make([][]string, 4)
	for i := range rows {
		user, channel, team := i/3, i%7*1000+i, i%50
		role, joined, note := 1+i%2, fmt.Sprintf("'2024-01-01 00:00:00.%06d'", i), fmt.Sprintf("'note %d'", i)
		if i%5 == 0 {
			note = "NULL"
		}
		from[team%3] = append(from[team%3], fmt.Sprintf("(%d,%d,%d,%d,%s,%s,%d)", user, channel, team, role, joined, note, i))
		r := keyRange(t, uint64(channel))
		to[r] = append(to[r], fmt.Sprintf("(%d,%d,%s,%d,%s,%d)", channel, role, note, user, joined, team))
	}
	for i := range from {
		s.run(t, &s.from, i, "DELETE FROM membership_by_user", "INSERT INTO membership_by_user VALUES "+strings.Join(from[i], ","))
	}
	for i := range to {
		s.run(t, &s.to, i, "DELETE FROM membership_by_channel", "INSERT INTO membership_by_channel VALUES "+strings.Join(to[i], ","))
	}
}

var membership = SpreadOptions{Columns: []string{"user_id", "channel_id", "team_id", "role", "joined", "note"}, Settle: 300 * time.Millisecond}

func (s *spreads) compare(t *testing.T, o SpreadOptions) *SpreadReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	r, err := CompareSpread(ctx, s.from, s.to, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantSpread(t *testing.T, r *SpreadReport, lines ...string) {
	t.Helper()
	var have []string
	for _, d := range r.Differences {
		line := fmt.Sprintf("%s %s %v %v", d.KeyText(), d.Kind, d.From, d.To)
		if d.Kind == Changed {
			for _, c := range d.Columns {
				line += " " + c.String()
			}
		}
		have = append(have, line)
	}
	slices.Sort(have)
	lines = slices.Clone(lines)
	slices.Sort(lines)
	if !slices.Equal(have, lines) || r.Differing != uint64(len(lines)) {
		t.Errorf("found %d: %q\nexpected %d: %q", r.Differing, have, len(lines), lines)
	}
}

// TestSpread: three legacy servers by team against four databases by channel.
func TestSpread(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	const rows = 3000
	s.fill(t, rows)
	channel := func(i int) int { return i%7*1000 + i }
	place := func(i int) int { return keyRange(t, uint64(channel(i))) }
	key := func(i int) string { return fmt.Sprintf("%d, %d", i/3, channel(i)) }
	db := func(side *Spread, part int) string { return side.Pools[part].Name }
	cond := func(i int) string { return fmt.Sprintf(" WHERE user_id = %d AND channel_id = %d", i/3, channel(i)) }
	source := func(i int) string { return "[" + db(&s.from, i%50%3) + "]" }
	target := func(i int) string { return "[" + db(&s.to, place(i)) + "]" }
	t.Run("equal", func(t *testing.T) {
		r := s.compare(t, membership)
		wantSpread(t, r)
		if r.FromRows != rows || r.ToRows != rows || len(r.FromParts) != 3 || len(r.ToParts) != 4 || !slices.Equal(r.KeyNames, []string{"user_id", "channel_id"}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("differences", func(t *testing.T) {
		other := (place(40) + 1) % 4
		tamper := func(i int, q string) { s.run(t, &s.to, place(i), q+cond(i)) }
		tamper(10, "DELETE FROM membership_by_channel")
		tamper(20, "UPDATE membership_by_channel SET note = ''")
		tamper(30, "UPDATE membership_by_channel SET joined = joined + INTERVAL 1 MICROSECOND")
		s.run(t, &s.to, 2, "INSERT INTO membership_by_channel VALUES (77,1,NULL,900000,NULL,1)")
		// The same row on a second shard, with which it would cancel in a XOR.
		s.run(t, &s.to, other, fmt.Sprintf("INSERT INTO membership_by_channel SELECT * FROM `%s`.membership_by_channel", db(&s.to, place(40)))+cond(40))
		// A row on the shard of another range is the same fact.
		s.run(t, &s.to, (place(50)+1)%4, fmt.Sprintf("INSERT INTO membership_by_channel SELECT * FROM `%s`.membership_by_channel", db(&s.to, place(50)))+cond(50))
		tamper(50, "DELETE FROM membership_by_channel")
		twice := []string{db(&s.to, place(40)), db(&s.to, other)}
		slices.Sort(twice)
		lines := []string{
			key(10) + " missing " + source(10) + " []",
			key(20) + " changed " + source(20) + " " + target(20) + ` note NULL -> ""`,
			key(30) + " changed " + source(30) + " " + target(30) + " joined 2024-01-01 00:00:00.000030 -> 2024-01-01 00:00:00.000031",
			"900000, 77 extra [] [" + db(&s.to, 2) + "]",
			fmt.Sprintf("%s repeated %s %v", key(40), source(40), twice),
		}
		wantSpread(t, s.compare(t, membership), lines...)
		o := membership
		o.matched = 100 // in many groups
		wantSpread(t, s.compare(t, o), lines...)
		o = membership
		o.MaxListed = 2
		if r := s.compare(t, o); r.Differing != 5 || len(r.Differences) != 2 {
			t.Errorf("bound of 2: %d differ, %d listed", r.Differing, len(r.Differences))
		}
		o = membership
		o.Columns = []string{"role"}
		wantSpread(t, s.compareKeys(t, o, "channel_id", "user_id"), "77, 900000 extra [] ["+db(&s.to, 2)+"]",
			fmt.Sprintf("%d, %d missing %s []", channel(10), 10/3, source(10)), fmt.Sprintf("%d, %d repeated %s %v", channel(40), 40/3, source(40), twice))
		o = membership
		o.Where = fmt.Sprintf("user_id BETWEEN %d AND %d -- the rest is another day's", 20/3, 30/3-1)
		wantSpread(t, s.compare(t, o), lines[1])
	})
	t.Run("keys that a collation takes for one", func(t *testing.T) { testSpreadSpelling(t, s) })
	t.Run("a key that several rows have", func(t *testing.T) {
		o := membership
		o.Key = []string{"user_id"}
		if _, err := CompareSpread(context.Background(), s.from, s.to, o, nil); !errors.Is(err, ErrSpread) || !strings.Contains(err.Error(), "several rows") {
			t.Error(err)
		}
	})
	t.Run("rows that move", func(t *testing.T) { testSpreadMoving(t, s) })
	t.Run("what cannot be compared", func(t *testing.T) { testSpreadRefused(t, s) })
	t.Run("a broken connection is an error", func(t *testing.T) { testSpreadKilled(t, s) })
}

func (s *spreads) compareKeys(t *testing.T, o SpreadOptions, key ...string) *SpreadReport {
	t.Helper()
	o.Key = key
	return s.compare(t, o)
}

// testSpreadMoving: while rows are written on the sources and carried over a little later,
// no row differs but the one that really does, which is written to as well: in another
// column than the one that differs, as an application would.
func testSpreadMoving(t *testing.T, s *spreads) {
	s.fill(t, 600)
	s.run(t, &s.to, keyRange(t, 0), "UPDATE membership_by_channel SET note = 'drifted' WHERE user_id = 0 AND channel_id = 0")
	ctx, cancel := context.WithCancel(context.Background())
	type change struct{ i, n int }
	changes, ended := make(chan change, 100_000), make(chan error, 2)
	// The first reading finds the targets behind, on any machine: what carries begins behind it.
	written, carry := make(chan struct{}), make(chan struct{})
	from, to := &s.from, &s.to
	go func() {
		var err error
		for n := 0; ctx.Err() == nil && err == nil; n++ {
			i := []int{0, 1, n % 600}[n%3] // two rows are written all the time
			_, err = from.Pools[i%50%3].DB.Exec("UPDATE "+from.Pools[i%50%3].Database+".membership_by_user SET joined = '2024-01-01' + INTERVAL ? MICROSECOND WHERE user_id = ? AND channel_id = ?", n, i/3, i%7*1000+i)
			select {
			case changes <- change{i, n}:
			default:
			}
			if n == 50 {
				close(written)
			}
			time.Sleep(time.Millisecond)
		}
		close(changes)
		ended <- err
	}()
	go func() {
		var err error
		<-carry
		for c := range changes {
			if err != nil {
				continue
			}
			if c.n%50 == 0 {
				time.Sleep(20 * time.Millisecond) // a stream that falls behind now and then
			}
			ch := c.i%7*1000 + c.i
			pool := to.Pools[keyRange(t, uint64(ch))]
			_, err = pool.DB.Exec("UPDATE `"+pool.Database+"`.membership_by_channel SET joined = '2024-01-01' + INTERVAL ? MICROSECOND WHERE user_id = ? AND channel_id = ?", c.n, c.i/3, ch)
		}
		ended <- err
	}()
	o := membership
	o.Settle = 4 * time.Second
	select {
	case <-written:
	case err := <-ended:
		t.Fatal(err)
	}
	var once sync.Once
	r, err := CompareSpread(ctx, s.from, s.to, o, func(p Progress) {
		if p.Differing > 0 {
			once.Do(func() { close(carry) })
		}
	})
	once.Do(func() { close(carry) })
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if r.Rechecked < 2 {
		t.Errorf("only %d keys differed at first: nothing moved", r.Rechecked)
	}
	if r.Differing != 1 || len(r.Differences) != 1 || r.Differences[0].KeyText() != "0, 0" || r.Differences[0].Kind != Changed {
		t.Errorf("%d of %d suspects differ: %+v", r.Differing, r.Rechecked, r.Differences)
	}
}

// testSpreadSpelling: two servers may each have their own spelling of what is one key under
// the collation; each is compared with its like, and shown with its own values.
func testSpreadSpelling(t *testing.T, s *spreads) {
	const create = "CREATE TABLE names (name VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, ratio FLOAT, v INT)"
	for i := range s.from.Pools {
		s.run(t, &s.from, i, create)
	}
	for i := range s.to.Pools {
		s.run(t, &s.to, i, create)
	}
	s.run(t, &s.from, 0, "INSERT INTO names VALUES ('ada', 0.1, 1), ('bob', 1, 1), ('c', 1, 1)")
	s.run(t, &s.from, 1, "INSERT INTO names VALUES ('Ada', 0.1, 2)")
	s.run(t, &s.to, 2, "INSERT INTO names VALUES ('Ada', 0.1, 2), ('bob', 1, 1)")
	s.run(t, &s.to, 3, "INSERT INTO names VALUES ('ada', 0.1, 3), ('C', 1, 1)")
	from, to := s.from, s.to
	from.Table, to.Table = "names", "names"
	r, err := CompareSpread(context.Background(), from, to, SpreadOptions{Settle: 100 * time.Millisecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSpread(t, r, "C extra [] [ks_c0-]", "c missing [from_0] []", "ada changed [from_0] [ks_c0-] v 1 -> 3")
}

func testSpreadRefused(t *testing.T, s *spreads) {
	for name, c := range map[string]struct {
		o    SpreadOptions
		says string
	}{
		"all columns of tables that differ":   {SpreadOptions{}, "name the columns"},
		"a column that the target lacks":      {SpreadOptions{Columns: []string{"user_id", "channel_id", "legacy_only"}}, `no column "legacy_only"`},
		"a key outside of the columns":        {SpreadOptions{Columns: []string{"user_id", "role"}}, "channel_id is not among the compared columns"},
		"a key that may be NULL":              {SpreadOptions{Columns: []string{"role"}, Key: []string{"team_id"}}, "NOT NULL"},
		"a condition that is no SQL":          {SpreadOptions{Columns: membership.Columns, Where: "team_id = ="}, "syntax"},
		"a condition that closes the bracket": {SpreadOptions{Columns: membership.Columns, Where: "1) OR (1"}, ""},
	} {
		c.o.Settle = time.Millisecond
		_, err := CompareSpread(context.Background(), s.from, s.to, c.o, nil)
		switch {
		case c.says == "":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v", name, err)
		case c.says != "syntax" && !errors.Is(err, ErrSpread):
			t.Errorf("%s: not an ErrSpread: %v", name, err)
		}
	}
	s.run(t, &s.to, 1, "ALTER TABLE membership_by_channel MODIFY joined DATETIME(3)")
	if _, err := CompareSpread(context.Background(), s.from, s.to, membership, nil); !errors.Is(err, ErrSpread) || !strings.Contains(err.Error(), "datetime(3)") || !strings.Contains(err.Error(), "ks_40-80") {
		t.Errorf("another precision: %v", err)
	}
	s.run(t, &s.to, 1, "ALTER TABLE membership_by_channel MODIFY joined DATETIME(6)")
	wrong := s.from
	wrong.Table = "no_such"
	if _, err := CompareSpread(context.Background(), wrong, s.to, membership, nil); !errors.Is(err, ErrSpread) {
		t.Errorf("no such table: %v", err)
	}
}

func testSpreadKilled(t *testing.T, s *spreads) {
	for _, on := range []int{1, 3} { // a source, and the targets
		admin := mysqldtest.Open(t, s.servers[on])
		o := membership
		o.Where = "IF(channel_id % 7 = 0, SLEEP(0.01), 0) = 0" // seconds in all
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), testTime)
			defer cancel()
			r, err := CompareSpread(ctx, s.from, s.to, o, nil)
			if r != nil {
				err = fmt.Errorf("a report was made: %+v", r)
			}
			ended <- err
		}()
		id := 0
		for until := time.Now().Add(time.Minute); id == 0 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			_ = admin.QueryRow("SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(0.01)%' AND id <> CONNECTION_ID() LIMIT 1").Scan(&id)
		}
		if _, err := admin.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "read the hashes of all rows") {
			t.Errorf("a connection of server %d was killed: %v", on, err)
		}
	}
}
