// Package vindexes_test shows the vindexes at work in a real vtgate and a real vttablet, in
// front of real servers: a keyspace fleet whose shards are two legacy shards' key ranges, and
// mains.
package vindexes_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/grpcclient"
	_ "vitess.io/vitess/go/vt/vttablet/grpctabletconn" // the protocol that tablets are spoken to in
	"vitess.io/vitess/go/vt/vttablet/tabletconn"

	binlogdatapb "vitess.io/vitess/go/vt/proto/binlogdata"
	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/teammap"
	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

const vschema = `{
  "sharded": true,
  "vindexes": {
    "team": {"type": "legacy_shard", "params": {
      "shards": "0123,0124", "table": "mains.teams", "from": "team_id", "to": "shard", "file": "%s", "staleness": "2s"}},
    "user": {"type": "entity_id", "params": {"prefixes": "UW"}},
    "hash": {"type": "xxhash"}
  },
  "tables": {
    "messages": {"column_vindexes": [{"column": "team_id", "name": "team"}]},
    "users": {"column_vindexes": [{"column": "id", "name": "user"}]},
    "profiles": {"column_vindexes": [{"column": "public_id", "name": "user"}]},
    "hashed": {"column_vindexes": [{"column": "id", "name": "hash"}]}
  }
}`

var tables = []string{
	"CREATE TABLE messages (team_id BIGINT UNSIGNED, id BIGINT, body VARCHAR(50), PRIMARY KEY (team_id, id))",
	"CREATE TABLE users (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50))",
	"CREATE TABLE profiles (public_id VARCHAR(20) PRIMARY KEY, status VARCHAR(50))",
	"CREATE TABLE hashed (id BIGINT UNSIGNED PRIMARY KEY)",
}

// fleet is the real fleet of a test.
type fleet struct {
	*vitesstest.Fleet
	vtgate mysqlconn.Target
	app    *sql.DB // through vtgate
	mains  *vitesstest.Tablet
	shards []*vitesstest.Tablet // 0123, 0124
	direct []*sql.DB            // their servers, without Vitess
}

func start(t *testing.T) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{}
	var err error
	f.Fleet, err = vitesstest.Start(ctx)
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(err)
	mains, err := f.AddKeyspace(ctx, "mains", "mains", "0")
	must(err)
	f.mains = mains[0]
	f.shards, err = f.AddKeyspace(ctx, "fleet", "slack", "-007c", "007c-")
	must(err)
	open := func(target mysqlconn.Target, statements ...string) *sql.DB {
		db, err := mysqlconn.Connect(ctx, target)
		must(err)
		t.Cleanup(func() { _ = db.Close() })
		for _, s := range statements {
			_, err := db.ExecContext(ctx, s)
			must(err)
		}
		return db
	}
	target := f.mains.MySQL.Target("mains")
	target.Database = "mains"
	open(target, "CREATE TABLE teams (team_id BIGINT UNSIGNED PRIMARY KEY, shard SMALLINT UNSIGNED NOT NULL)",
		"INSERT INTO teams VALUES (1, 123), (2, 124), (10, 123), (20, 124)")
	for _, s := range f.shards {
		target := s.MySQL.Target(s.Alias)
		target.Database = "slack"
		f.direct = append(f.direct, open(target, tables...))
	}
	dir, err := f.Dir("maps")
	must(err)
	var b teammap.Builder
	b.Add(1, 123)
	b.Add(2, 124)
	b.Add(10, 123)
	b.Add(20, 124)
	m, err := b.Build(time.Now())
	must(err)
	path := filepath.Join(dir, "teams.map")
	must(m.Write(path))
	must(f.ApplyVSchema(ctx, "mains", `{"tables": {"teams": {}}}`))
	must(f.ApplyVSchema(ctx, "fleet", fmt.Sprintf(vschema, path)))
	f.vtgate, err = f.StartVtgate(ctx, "--schema-change-signal=false")
	must(err)
	f.vtgate.Database = "fleet"
	f.app, err = mysqlconn.Connect(ctx, f.vtgate)
	must(err)
	t.Cleanup(func() { _ = f.app.Close() })
	return f
}

// rows are a query's values, row by row, sorted.
func rows(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer r.Close()
	var out []string
	for r.Next() {
		var a, b sql.NullString
		if err := r.Scan(&a, &b); err != nil {
			t.Fatal(err)
		}
		out = append(out, a.String+" "+b.String)
	}
	if err := r.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	slices.Sort(out)
	return out
}

func expectRows(t *testing.T, db *sql.DB, want []string, query string, args ...any) {
	t.Helper()
	if got := rows(t, db, query, args...); !slices.Equal(got, want) {
		t.Fatalf("%s %v: found %q, expected %q", query, args, got, want)
	}
}

func (f *fleet) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if err := f.try(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (f *fleet) try(query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := f.app.ExecContext(ctx, query, args...)
	return err
}

func TestThroughARealVtgate(t *testing.T) {
	f := start(t)

	t.Run("legacy_shard writes where mains says and reads it back", func(t *testing.T) {
		f.exec(t, "INSERT INTO messages (team_id, id, body) VALUES (1, 1, 'a'), (2, 1, 'b'), (10, 1, 'c')")
		f.exec(t, "INSERT INTO messages (team_id, id, body) VALUES (?, ?, ?)", "0020", 1, "d") // prepared, padded
		expectRows(t, f.direct[0], []string{"1 a", "10 c"}, "SELECT team_id, body FROM messages")
		expectRows(t, f.direct[1], []string{"2 b", "20 d"}, "SELECT team_id, body FROM messages")
		expectRows(t, f.app, []string{"1 a"}, "SELECT team_id, body FROM messages WHERE team_id = 1")
		expectRows(t, f.app, []string{"1 a"}, "SELECT team_id, body FROM messages WHERE team_id = '0001'")
		expectRows(t, f.app, []string{"2 b"}, "SELECT team_id, body FROM messages WHERE team_id = ?", 2)
		expectRows(t, f.app, []string{"1 a", "2 b", "20 d"}, "SELECT team_id, body FROM messages WHERE team_id IN (1, 2, 20)")
		expectRows(t, f.app, []string{"1 a", "10 c", "2 b", "20 d"}, "SELECT team_id, body FROM messages")
		expectRows(t, f.app, nil, "SELECT team_id, body FROM messages WHERE team_id = NULL")
		f.exec(t, "UPDATE messages SET body = 'changed' WHERE team_id = 10")
		expectRows(t, f.direct[0], []string{"1 a", "10 changed"}, "SELECT team_id, body FROM messages")
		f.exec(t, "DELETE FROM messages WHERE team_id = 20")
		expectRows(t, f.direct[1], []string{"2 b"}, "SELECT team_id, body FROM messages")

		tx, err := f.app.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO messages (team_id, id, body) VALUES (20, 2, 'in a transaction')"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		expectRows(t, f.app, nil, "SELECT team_id, body FROM messages WHERE team_id = 20")
	})

	t.Run("the vindex's own keyspace ids are the pinned ones", func(t *testing.T) {
		expectRows(t, f.app, []string{"1 007bd46405367612b4b7"}, "SELECT id, hex_keyspace_id FROM team WHERE id = 1")
	})

	t.Run("an unknown team, or none, is an error and not silence", func(t *testing.T) {
		for _, query := range []string{"SELECT * FROM messages WHERE team_id = 99", "INSERT INTO messages (team_id, id, body) VALUES (99, 1, 'x')", "DELETE FROM messages WHERE team_id = 99"} {
			if err := f.try(query); err == nil || !strings.Contains(err.Error(), "team 99 is not in mains.teams") {
				t.Errorf("%s: found %v, expected that mains does not have the team", query, err)
			}
		}
		if err := f.try("SELECT * FROM messages WHERE team_id = 'general'"); err == nil || !strings.Contains(err.Error(), "expected the id of a team") {
			t.Errorf("a word: found %v, expected that it is no team", err)
		}
		if err := f.try("INSERT INTO messages (team_id, id, body) VALUES (NULL, 1, 'x')"); err == nil {
			t.Error("NULL: found no error")
		}
	})

	t.Run("entity_id finds an entity's shard by its number and by its public form", func(t *testing.T) {
		// A number whose keyspace id is in the small first shard; most are in the second.
		n := uint64(1)
		for ; ; n++ {
			var ksid [8]byte
			binary.LittleEndian.PutUint64(ksid[:], xxhash.Sum64(fmt.Append(nil, n)))
			if binary.BigEndian.Uint16(ksid[:]) < 0x7c {
				break
			}
		}
		public := "U" + strings.ToUpper(base36(n))
		f.exec(t, "INSERT INTO users (id, name) VALUES (?, 'first'), (1, 'one')", n)
		f.exec(t, "INSERT INTO profiles (public_id, status) VALUES (?, 'first'), ('U00001', 'one')", public)
		f.exec(t, "INSERT INTO hashed (id) VALUES (?), (1)", n)
		first := fmt.Sprint(n)
		expectRows(t, f.direct[0], []string{first + " first"}, "SELECT id, name FROM users")
		expectRows(t, f.direct[0], []string{public + " first"}, "SELECT public_id, status FROM profiles")
		expectRows(t, f.direct[0], []string{first + " "}, "SELECT id, '' FROM hashed") // where xxhash puts it
		expectRows(t, f.app, []string{first + " first"}, "SELECT id, name FROM users WHERE id = ?", n)
		expectRows(t, f.app, []string{public + " first"}, "SELECT public_id, status FROM profiles WHERE public_id = ?", public)
		if err := f.try("SELECT * FROM profiles WHERE public_id = 'C1'"); err == nil || !strings.Contains(err.Error(), "the letter one of UW") {
			t.Errorf("found %v, expected that the letter is not one of ours", err)
		}
	})

	t.Run("the tablet computes the same by the team map", func(t *testing.T) {
		for i, want := range []string{"[1 10]", "[2]"} {
			s := f.shards[i]
			got := inKeyRange(t, s, []string{"-007c", "007c-"}[i])
			if fmt.Sprint(got) != want {
				t.Errorf("%s: in_keyrange kept the teams %v, expected %s", s.Alias, got, want)
			}
			if other := inKeyRange(t, s, []string{"007c-", "-007c"}[i]); len(other) != 0 {
				t.Errorf("%s: in_keyrange of the other range kept %v, expected none", s.Alias, other)
			}
		}
	})

	t.Run("a team that mains moved is followed within the staleness", func(t *testing.T) {
		f.exec(t, "SELECT 1 FROM messages WHERE team_id = 20")
		db, err := mysqlconn.Connect(context.Background(), f.mains.MySQL.Target("mains"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("UPDATE mains.teams SET shard = 123 WHERE team_id = 20"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		f.exec(t, "INSERT INTO messages (team_id, id, body) VALUES (20, 9, 'moved')")
		expectRows(t, f.direct[0], []string{"20 moved"}, "SELECT team_id, body FROM messages WHERE team_id = 20")
	})

	t.Run("mains down is an error for who is not cached, never no rows", func(t *testing.T) {
		if err := f.mains.Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		err := f.try("SELECT * FROM messages WHERE team_id = 1")
		if err == nil || !strings.Contains(err.Error(), "vindex team") || !strings.Contains(err.Error(), "mains.teams") {
			t.Errorf("found %v, expected that mains cannot be asked", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s, expected an answer within the time-out", took)
		}
		// entity_id needs no mains.
		expectRows(t, f.app, []string{"1 one"}, "SELECT id, name FROM users WHERE id = 1")
	})
}

func base36(n uint64) string {
	s := ""
	for ; n > 0; n /= 36 {
		s = string("0123456789abcdefghijklmnopqrstuvwxyz"[n%36]) + s
	}
	return s
}

// inKeyRange are the teams of a tablet's messages whose keyspace id, as the tablet itself
// computes it (as for a Reshard), is in a key range.
func inKeyRange(t *testing.T, tablet *vitesstest.Tablet, keyRange string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	record, err := tablet.Record(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tabletconn.GetDialer()(ctx, record, grpcclient.FailFast(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var teams []string
	err = conn.VStreamRows(ctx, &binlogdatapb.VStreamRowsRequest{
		Target: &querypb.Target{Keyspace: record.Keyspace, Shard: record.Shard, TabletType: topodatapb.TabletType_PRIMARY},
		Query:  "select team_id, id from messages where in_keyrange(team_id, 'fleet.team', '" + keyRange + "')",
	}, func(r *binlogdatapb.VStreamRowsResponse) error {
		for _, row := range r.Rows {
			teams = append(teams, sqltypes.MakeRowTrusted([]*querypb.Field{{Type: sqltypes.Uint64}, {Type: sqltypes.Int64}}, row)[0].ToString())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return teams
}
