package load_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/load"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/load/ledger"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/shardid"
)

// switchOver does what a direct cutover does, with a replica as the landing: freeze both
// sides, let everything arrive, change mains.
func (f *fleet) switchOver(t *testing.T) {
	t.Helper()
	mysqldtest.Exec(t, f.a, "SET GLOBAL super_read_only = ON")
	mysqldtest.Exec(t, f.b, "SET GLOBAL super_read_only = ON")
	mysqldtest.CaughtUp(t, f.a, f.b)
	mysqldtest.CaughtUp(t, f.b, f.a)
	mysqldtest.CaughtUp(t, f.landing, f.a)
	mysqldtest.Exec(t, f.landing, "STOP REPLICA", "RESET REPLICA ALL")
	places := []appschema.Place{f.places[0], f.places[1]}
	for i := range places {
		places[i].Port, places[i].Database = f.landing.Port(), "legacy_0123"
	}
	if err := appschema.MainsRows(t.Context(), open(t, f.mains, "mains"), shard, nil, places); err != nil {
		t.Fatal(err)
	}
}

func TestASwitchUnderLoadVerifies(t *testing.T) {
	t.Parallel()
	f := start(t, true)
	run := f.load(t, 8, 400)
	until(t, run, "writes on the legacy", func(s load.Summary) bool { return s.Acked > 200 })
	run.Mark("switch")
	f.switchOver(t)
	acked := run.Snapshot().Acked
	until(t, run, "writes on the landing", func(s load.Summary) bool { return s.Acked > acked+200 })
	s := stop(t, run)
	// That writers were turned away and looked again, not that the longest wait was one of
	// theirs: on a busy machine a write that hangs in its only try can be longer.
	if s.Errors != 0 || s.Unknown != 0 || s.Windows[1].Refused == 0 {
		t.Errorf("errors %v, unknown %d, refused %d, longest %v", s.ErrorTexts, s.Unknown, s.Windows[1].Refused, s.Windows[1].Longest)
	}
	t.Log("\n" + s.Text())
	r := f.mustVerify(t)
	if r.In.Legacy == 0 || r.In.Vitess == 0 || r.Shards[0].Served != "vitess" || len(r.Shards[0].Servers) != 3 {
		t.Errorf("%+v, %+v", r.In, r.Shards)
	}

	// From here on, one thing is made wrong at a time, and must be found.
	landing := open(t, f.landing, "legacy_0123")
	a := open(t, f.a, "slack")
	legacyRow := f.pick(t, func(o op) bool { return o.table == "messages" && o.act != ledger.Delete && !o.vitess })
	vitessRow := f.pick(t, func(o op) bool { return o.table == "messages" && o.act != ledger.Delete && o.born })
	vitessFile := f.pick(t, func(o op) bool { return o.table == "files" && o.act != ledger.Delete && o.born })
	mysqldtest.Exec(t, f.a, "SET GLOBAL read_only = OFF")
	f.wrong(t, "an acknowledged row is deleted on the landing", load.Missing, landing, "messages", "id", legacyRow, "DELETE FROM messages WHERE id = ?")
	f.wrong(t, "an acknowledged row is changed on the landing", load.Changed, landing, "messages", "id", vitessRow, "UPDATE messages SET body = CONCAT(body, ' ') WHERE id = ?")
	f.wrong(t, "an acknowledged row has another version", load.Changed, landing, "messages", "id", vitessRow, "UPDATE messages SET version = version + 1 WHERE id = ?")
	f.wrong(t, "a row has another id than was acknowledged", load.Changed, landing, "files", "client_ref", vitessFile, "UPDATE files SET id = id + 1000001 WHERE client_ref = ?")
	f.wrong(t, "a row is there twice", load.Doubled, landing, "files", "client_ref", vitessFile,
		"INSERT INTO files (team_id, user_id, client_ref, version, name, mime, size, sha256) SELECT team_id, user_id, client_ref, version, name, mime, size, sha256 FROM files WHERE client_ref = ?")
	f.wrong(t, "a row is deleted on the legacy", load.Missing, a, "messages", "id", legacyRow, "DELETE FROM messages WHERE id = ?")

	// The same write on both sides of the switch.
	columns := "id, team_id, channel_id, user_id, ts, version, body"
	values := make([]any, 7)
	into := make([]any, 7)
	for i := range values {
		into[i] = &values[i]
	}
	if err := landing.QueryRowContext(t.Context(), "SELECT "+columns+" FROM messages WHERE id = ?", vitessRow).Scan(into...); err != nil {
		t.Fatal(err)
	}
	exec(t, a, "INSERT INTO messages ("+columns+") VALUES (?,?,?,?,?,?,?)", values...)
	f.finds(t, "a row of the landing on the legacy too", load.Doubled, 1)
	exec(t, a, "UPDATE messages SET body = 'another write' WHERE id = ?", vitessRow)
	f.finds(t, "another row by that key on the legacy", load.Extra, 1)
	exec(t, a, "DELETE FROM messages WHERE id = ?", vitessRow)

	// A deleted row that is there again.
	deleted := f.pick(t, func(o op) bool { return o.table == "messages" && o.act == ledger.Delete })
	exec(t, landing, "INSERT INTO messages ("+columns+") VALUES (?, 123000001, 1, 1, 1, 1, 'back')", deleted)
	f.finds(t, "a deleted row that is back", load.Extra, 1)
	exec(t, landing, "DELETE FROM messages WHERE id = ?", deleted)

	// Mains half way.
	if err := appschema.MainsRows(t.Context(), open(t, f.mains, "mains"), shard, nil, f.places[:1]); err != nil {
		t.Fatal(err)
	}
	f.finds(t, "mains serves side a from the legacy and b from the landing", load.Mixed, 1)
}

// op is the last acknowledged write of a row, and who took it and the row's first.
type op struct {
	table, key, act string
	vitess, born    bool
}

// pick finds a row of the ledger by its last write.
func (f *fleet) pick(t *testing.T, fit func(op) bool) string {
	t.Helper()
	last := map[string]op{}
	begun := map[int]*ledger.Attempt{}
	err := ledger.Read(f.ledger, func(r ledger.Record) error {
		if r.Begin != nil {
			begun[r.Begin.Writer] = r.Begin
		}
		if r.End != nil && r.End.Outcome == ledger.Acked {
			b := begun[r.End.Writer]
			vitess := strings.HasSuffix(b.Endpoint, "/legacy_0123")
			for _, fx := range b.Effects {
				before, known := last[fx.Table+fx.Key]
				last[fx.Table+fx.Key] = op{fx.Table, fx.Key, fx.Act, vitess, before.born || !known && vitess}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range last {
		if fit(o) {
			return o.key
		}
	}
	t.Fatal("the ledger has no such row")
	return ""
}

func exec(t *testing.T, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// wrong breaks something by a statement on a row, wants verify to find one problem of the
// kind, and puts the row back.
func (f *fleet) wrong(t *testing.T, what, kind string, db *sql.DB, table, keyColumn, key, statement string) {
	t.Helper()
	exec(t, db, "DROP TABLE IF EXISTS test.kept")
	exec(t, db, "CREATE DATABASE IF NOT EXISTS test")
	list := map[string]string{
		"messages": "id, team_id, channel_id, user_id, ts, version, body",
		"files":    "id, team_id, user_id, client_ref, version, name, mime, size, sha256",
	}[table]
	exec(t, db, "CREATE TABLE test.kept AS SELECT "+list+" FROM "+table+" WHERE "+keyColumn+" = ?", key)
	exec(t, db, statement, key)
	f.finds(t, what, kind, 1)
	exec(t, db, "DELETE FROM "+table+" WHERE "+keyColumn+" = ?", key)
	exec(t, db, "INSERT INTO "+table+" ("+list+") SELECT "+list+" FROM test.kept")
	f.finds(t, what+", put back", "", 0)
}

// finds verifies and wants exactly n keys with problems, all of the kind.
func (f *fleet) finds(t *testing.T, what, kind string, n int) {
	t.Helper()
	mysqldtest.CaughtUp(t, f.b, f.a)
	r := f.verify(t, time.Millisecond)
	if n == 0 && !r.OK() || n > 0 && (len(r.Wrong) != 1 || r.Wrong[kind] < n) || len(r.Problems) > 2*n {
		t.Errorf("%s: found\n%s", what, r.Text())
	}
}

func TestVerifyFindsALossOnThePair(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	run := f.load(t, 4, 0)
	until(t, run, "writes", func(s load.Summary) bool { return s.Acked > 100 })
	stop(t, run)
	f.mustVerify(t)
	key := f.pick(t, func(o op) bool { return o.table == "api_tokens" && o.act != ledger.Delete })
	a := open(t, f.a, "slack")
	exec(t, a, "DELETE FROM api_tokens WHERE token_id = UNHEX(?)", key)
	f.finds(t, "a row deleted on both sides", load.Missing, 2)

	// Another server behind the address: other data, and another identity.
	f.legacy["b"], f.legacy["a"] = f.legacy["a"], f.legacy["b"]
	if r := f.verify(t, time.Millisecond); r.OK() {
		t.Error("a lost row is not found when the sides are named the other way round")
	}
	other := mysqldtest.Start(t, mysqldtest.Options{Name: "other"})
	f.legacy["b"] = target(other, "other", "slack")
	_, err := load.Verify(t.Context(), load.VerifyOptions{
		Ledger: f.ledger, Mains: target(f.mains, "mains", "mains"), Servers: map[shardid.ID]load.Servers{shard: {Legacy: f.legacy}},
	})
	if !mysqlconn.IsUnknownDatabase(err) {
		t.Errorf("a server without the database: %v", err)
	}
}

// forge writes a ledger by hand.
func forge(t *testing.T, path string, attempts []ledger.Attempt, ends []ledger.End) {
	t.Helper()
	w, err := ledger.Open(path, ledger.Header{Run: "forged"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for i := range attempts {
		if err := errors.Join(w.Append(ledger.Record{Begin: &attempts[i]}), w.Append(ledger.Record{End: &ends[i]})); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyFindsSharedIDsAndWrongServers(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	var uuid string
	if err := open(t, f.a, "").QueryRowContext(t.Context(), "SELECT @@server_uuid").Scan(&uuid); err != nil {
		t.Fatal(err)
	}
	at := hostPort(f.a) + "/slack"
	file := func(n uint64, key, at, server string) ledger.Attempt {
		return ledger.Attempt{Writer: 1, N: n, Team: 123000002, Shard: shard, Side: "a", Endpoint: at, Server: server, Effects: []ledger.Effect{{Table: "files", Key: key, Act: ledger.Insert, Version: 1}}}
	}
	forge(t, f.ledger,
		[]ledger.Attempt{file(1, "r1", at, uuid), file(2, "r2", at, "someone-else"), file(3, "r3", hostPort(f.mains)+"/slack", uuid)},
		[]ledger.End{{Writer: 1, N: 1, Outcome: ledger.Acked, IDs: []uint64{7}}, {Writer: 1, N: 2, Outcome: ledger.Acked, IDs: []uint64{7}}, {Writer: 1, N: 3, Outcome: ledger.Unknown}})
	r := f.verify(t, time.Millisecond)
	if r.Wrong[load.SameID] != 1 || r.Wrong[load.WrongPlace] != 2 || r.Wrong[load.Missing] != 4 || r.NotApplied != 1 {
		t.Errorf("found\n%s", r.Text())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := load.Verify(ctx, load.VerifyOptions{Ledger: f.ledger, Mains: target(f.mains, "mains", "mains")}); err == nil {
		t.Error("verified without looking")
	}
}

func TestAnUnknownWriteThatOnlyOneSideHasIsFound(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	var uuid string
	if err := open(t, f.a, "").QueryRowContext(t.Context(), "SELECT @@server_uuid").Scan(&uuid); err != nil {
		t.Fatal(err)
	}
	forge(t, f.ledger, []ledger.Attempt{{Writer: 1, N: 1, Team: 123000002, Shard: shard, Side: "a", Endpoint: hostPort(f.a) + "/slack", Server: uuid,
		Effects: []ledger.Effect{{Table: "reactions", Key: "5|6|+1", Act: ledger.Insert, Version: 1, Digest: load.Digest("123000002", "77")}}}},
		[]ledger.End{{Writer: 1, N: 1, Outcome: ledger.Unknown}})
	if r := f.mustVerify(t); r.NotApplied != 1 || r.Gone != 1 {
		t.Errorf("%+v", r)
	}
	const insert = "INSERT INTO reactions (message_id, user_id, emoji, team_id, added_at) VALUES (5, 6, '+1', 123000002, 77)"
	mysqldtest.Exec(t, f.a, "SET sql_log_bin = 0", "USE slack", insert)
	if r := f.verify(t, time.Millisecond); r.Wrong[load.Split] != 1 {
		t.Errorf("found\n%s", r.Text())
	}
	mysqldtest.Exec(t, f.b, "SET sql_log_bin = 0", "USE slack", insert)
	if r := f.mustVerify(t); r.Applied != 1 || r.Found != 1 {
		t.Errorf("%+v", r)
	}
}
