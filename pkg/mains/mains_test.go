package mains

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/shardid"
)

const shard, other shardid.ID = 123, 4567

var (
	legacyPlaces = []Place{{"a", "10.0.0.1", 3306, "slack"}, {"b", "10.0.0.2", 3306, "slack"}}
	vitessPlaces = []Place{{"a", "10.0.1.1", 15306, "legacy_0123"}, {"b", "10.0.1.1", 15306, "legacy_0123"}}
	otherPlaces  = []Place{{"a", "10.0.0.3", 3306, "slack"}, {"b", "10.0.0.4", 3306, "slack"}}
)

func statements() config.Mains {
	return config.Mains{
		Teams:     "SELECT team_id FROM teams WHERE shard = :shard ORDER BY team_id",
		DataTeams: "SELECT id FROM teams ORDER BY id",
		Where:     "SELECT side, host, port, db_name FROM shards WHERE shard = :shard ORDER BY side",
		Switch:    "UPDATE shards SET host = :host, port = :port, db_name = :database WHERE shard = :shard AND side = :side -- :not a name",
	}
}

// tables makes mains anew.
func tables(t *testing.T, srv *mysqld.Server) {
	t.Helper()
	mysqldtest.Exec(t, srv, "DROP DATABASE IF EXISTS mains", "DROP DATABASE IF EXISTS _vifl", "CREATE DATABASE mains",
		"CREATE TABLE mains.teams (team_id BIGINT PRIMARY KEY, shard SMALLINT UNSIGNED NOT NULL)",
		"INSERT INTO mains.teams VALUES (1,123),(2,4567),(3,123),(4,4567)",
		"CREATE TABLE mains.shards (shard SMALLINT UNSIGNED NOT NULL, side CHAR(1) NOT NULL, host VARCHAR(100), port INT, db_name VARCHAR(64), PRIMARY KEY (shard, side))",
		"INSERT INTO mains.shards VALUES (123,'a','10.0.0.1',3306,'slack'),(123,'b','10.0.0.2',3306,'slack'),(4567,'a','10.0.0.3',3306,'slack'),(4567,'b','10.0.0.4',3306,'slack')")
}

func target(srv *mysqld.Server) mysqlconn.Target {
	t := mysqldtest.TCP(srv, "mains")
	t.Database = "mains"
	return t
}

func open(t *testing.T, tg mysqlconn.Target, c config.Mains) *Mains {
	t.Helper()
	m, err := Open(ctxFor(t), tg, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
	t.Cleanup(cancel)
	return ctx
}

func expectServed(t *testing.T, m *Mains, id shardid.ID, want []Place) {
	t.Helper()
	if got, err := m.Where(ctxFor(t), id); err != nil || !Same(got, want) {
		t.Errorf("%s is served %s, expected %s, %v", id, Show(got), Show(want), err)
	}
}

func TestMains(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{Name: "mains"})
	for _, c := range []struct {
		name string
		run  func(*testing.T, *mysqld.Server)
	}{
		{"teams", testTeams},
		{"epoch only upwards", testEpoch},
		{"switch there and back", testSwitch},
		{"switch of an old owner", testOldOwner},
		{"a statement that changes too much", testTooMuch},
		{"a place that cannot be", testReadBack},
		{"a switch that is only rehearsed", testRehearse},
		{"a table that does not roll back", testNoRollback},
		{"the reply to COMMIT is lost", testLostReply},
		{"an old owner wakes up inside its transaction", testRaiseWaits},
		{"mains is read only", testReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			tables(t, srv)
			c.run(t, srv)
		})
	}
}

func testTeams(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	if ids, err := m.Teams(ctxFor(t), shard); err != nil || !reflect.DeepEqual(ids, []int64{1, 3}) {
		t.Errorf("teams %v, %v", ids, err)
	}
	mysqldtest.Exec(t, srv, "DROP DATABASE IF EXISTS slack", "CREATE DATABASE slack", "CREATE TABLE slack.teams (id BIGINT PRIMARY KEY)", "INSERT INTO slack.teams VALUES (3),(1)")
	tg := target(srv)
	tg.Database = "slack"
	if ids, err := m.DataTeams(ctxFor(t), tg, shard); err != nil || !reflect.DeepEqual(ids, []int64{1, 3}) {
		t.Errorf("teams of the data %v, %v", ids, err)
	}
	c := statements()
	c.Teams = "SELECT 'x' FROM teams WHERE shard = :shard"
	if _, err := open(t, target(srv), c).Teams(ctxFor(t), shard); err == nil || !strings.Contains(err.Error(), "mains.teams") {
		t.Errorf("ids that are no numbers: %v", err)
	}
}

func testEpoch(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if e, err := m.Epoch(ctx, shard); err != nil || e != 0 {
		t.Errorf("before the first: %d, %v", e, err)
	}
	for _, to := range []uint64{1, 1, 7} {
		if err := m.RaiseEpoch(ctx, shard, to); err != nil {
			t.Errorf("raise to %d: %v", to, err)
		}
		if e, err := m.Epoch(ctx, shard); err != nil || e != to {
			t.Errorf("epoch %d, expected %d, %v", e, to, err)
		}
	}
	if err := m.RaiseEpoch(ctx, shard, 6); !errors.Is(err, ErrEpoch) {
		t.Errorf("downwards: %v", err)
	}
	if e, err := m.Epoch(ctx, shard); err != nil || e != 7 {
		t.Errorf("epoch %d after a refused one, %v", e, err)
	}
	if e, err := m.Epoch(ctx, other); err != nil || e != 0 {
		t.Errorf("another shard's: %d, %v", e, err)
	}
}

func testSwitch(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 2); err != nil {
		t.Fatal(err)
	}
	expectServed(t, m, shard, legacyPlaces)
	for range 2 { // the second finds it done
		if err := m.Switch(ctx, shard, 2, vitessPlaces); err != nil {
			t.Fatal(err)
		}
		expectServed(t, m, shard, vitessPlaces)
	}
	if err := m.Switch(ctx, shard, 2, legacyPlaces); err != nil {
		t.Fatal(err)
	}
	expectServed(t, m, shard, legacyPlaces)
	// One side there, by hand: only the other is left to change.
	mysqldtest.Exec(t, srv, "UPDATE mains.shards SET host='10.0.1.1', port=15306, db_name='legacy_0123' WHERE shard=123 AND side='b'")
	if err := m.Switch(ctx, shard, 2, vitessPlaces); err != nil {
		t.Fatal(err)
	}
	expectServed(t, m, shard, vitessPlaces)
	expectServed(t, m, other, otherPlaces)
}

func testOldOwner(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.Switch(ctx, shard, 1, vitessPlaces); !errors.Is(err, ErrEpoch) {
		t.Errorf("no epoch was raised: %v", err)
	}
	if err := m.RaiseEpoch(ctx, shard, 5); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []uint64{4, 6} {
		if err := m.Switch(ctx, shard, epoch, vitessPlaces); !errors.Is(err, ErrEpoch) {
			t.Errorf("epoch %d where 5 is: %v", epoch, err)
		}
	}
	expectServed(t, m, shard, legacyPlaces)
}

// Each statement passes the configuration's check of names.
func testTooMuch(t *testing.T, srv *mysqld.Server) {
	ctx := ctxFor(t)
	for name, sql := range map[string]string{
		"all shards of the side": "UPDATE shards SET host=:host, port=:port, db_name=:database WHERE side=:side AND :shard>0",
		"both sides":             "UPDATE shards SET host=:host, port=:port, db_name=:database WHERE shard=:shard AND :side<>''",
		"nothing":                "UPDATE shards SET host=:host, port=:port, db_name=:database WHERE shard=:shard AND side=CONCAT(:side,'x')",
		"another shard":          "UPDATE shards SET host=:host, port=:port, db_name=:database WHERE shard=4567 AND side=:side AND :shard>0",
		"the host only":          "UPDATE shards SET host=:host WHERE shard=:shard AND side=:side AND :port>0 AND :database<>''",
	} {
		t.Run(name, func(t *testing.T) {
			c := statements()
			c.Switch = sql
			m := open(t, target(srv), c)
			if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
				t.Fatal(err)
			}
			if err := m.Switch(ctx, shard, 1, vitessPlaces); err == nil || errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("%v", err)
			}
			expectServed(t, m, shard, legacyPlaces)
			expectServed(t, m, other, otherPlaces)
		})
	}
}

// A third row of the shard, of a side that nobody asked for, is not left behind unseen.
func testReadBack(t *testing.T, srv *mysqld.Server) {
	mysqldtest.Exec(t, srv, "INSERT INTO mains.shards VALUES (123,'c','10.0.0.9',3306,'slack')")
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	if err := m.Switch(ctx, shard, 1, vitessPlaces); err == nil || !strings.Contains(err.Error(), "10.0.0.9") {
		t.Errorf("%v", err)
	}
	expectServed(t, m, shard, append([]Place{{"c", "10.0.0.9", 3306, "slack"}}, legacyPlaces...))
}

func testLostReply(t *testing.T, srv *mysqld.Server) {
	direct := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := direct.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		delivered bool
		want      []Place
	}{
		{"before it arrived", false, legacyPlaces},
		{"after it was done", true, vitessPlaces},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := cutAtCommit(t, srv.Port(), c.delivered)
			tg := target(srv)
			tg.Port = p.port
			m := open(t, tg, statements())
			if err := m.Switch(ctx, shard, 1, vitessPlaces); !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("%v", err)
			}
			if n := p.cut.Load(); n != 1 {
				t.Fatalf("the proxy cut %d connections, expected 1", n)
			}
			// The server may still be at it.
			deadline := time.Now().Add(10 * time.Second)
			for time.Now().Before(deadline) {
				if got, err := direct.Where(ctx, shard); err == nil && Same(got, c.want) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			expectServed(t, direct, shard, c.want)
		})
	}
	if err := direct.Switch(ctx, shard, 1, vitessPlaces); err != nil {
		t.Errorf("again, after reading: %v", err)
	}
}

// Whoever has raised the epoch can be sure that the old owner changes nothing afterwards:
// raising waits for a transaction that holds the epoch's row.
func testRaiseWaits(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		t.Fatal(err)
	}
	if err := m.changePlaces(ctx, conn, shard, 1, vitessPlaces); err != nil {
		t.Fatal(err)
	}
	raised := make(chan error, 1)
	go func() { raised <- m.RaiseEpoch(ctx, shard, 2) }()
	select {
	case err := <-raised:
		t.Fatalf("raised while the old owner's transaction is open: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-raised; err != nil {
		t.Error(err)
	}
	if err := m.Switch(ctx, shard, 1, legacyPlaces); !errors.Is(err, ErrEpoch) {
		t.Errorf("the old owner: %v", err)
	}
	expectServed(t, m, shard, vitessPlaces)
}

// A statement whose OR reaches both sides was planned without complaint, passed the preflight
// and failed behind the point of no undo, with both sides frozen.
func testRehearse(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	if err := m.Rehearse(ctx, shard, 1, vitessPlaces); err != nil {
		t.Errorf("a good one: %v", err)
	}
	expectServed(t, m, shard, legacyPlaces)
	if err := m.Rehearse(ctx, shard, 2, vitessPlaces); !errors.Is(err, ErrEpoch) {
		t.Errorf("another owner's: %v", err)
	}
	for name, where := range map[string]string{
		"both sides at once": "shard = :shard OR side = :side",
		"no row":             "shard = :shard AND side = :side AND 1 = 0",
		"another shard":      "shard = :shard + 4444 AND side = :side",
	} {
		c := statements()
		c.Switch = "UPDATE shards SET host = :host, port = :port, db_name = :database WHERE " + where
		bad := open(t, target(srv), c)
		if err := bad.TrySwitch(ctx, shard, vitessPlaces); err != nil {
			t.Errorf("%s: not even planned: %v", name, err)
		}
		if err := bad.Rehearse(ctx, shard, 1, vitessPlaces); err == nil || !strings.Contains(err.Error(), "mains.switch") {
			t.Errorf("%s: %v", name, err)
		}
		expectServed(t, m, shard, legacyPlaces)
		expectServed(t, m, other, otherPlaces)
	}
}

func testNoRollback(t *testing.T, srv *mysqld.Server) {
	mysqldtest.Exec(t, srv, "ALTER TABLE mains.shards ENGINE=MyISAM")
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"rehearsal": m.Rehearse(ctx, shard, 1, vitessPlaces), "plan": m.TrySwitch(ctx, shard, vitessPlaces)} {
		if err == nil || !strings.Contains(err.Error(), "MyISAM") {
			t.Errorf("%s: %v, expected a refusal of MyISAM", name, err)
		}
	}
	expectServed(t, m, shard, legacyPlaces)
}

func testReadOnly(t *testing.T, srv *mysqld.Server) {
	m := open(t, target(srv), statements())
	ctx := ctxFor(t)
	if err := m.RaiseEpoch(ctx, shard, 1); err != nil {
		t.Fatal(err)
	}
	db := mysqldtest.Open(t, srv)
	set := func(v string) {
		if _, err := db.ExecContext(ctx, "SET GLOBAL super_read_only="+v+", GLOBAL read_only="+v); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	defer set("0")
	if err := m.Switch(ctx, shard, 1, vitessPlaces); err == nil || errors.Is(err, ErrUnknownOutcome) || !mysqlconn.IsReadOnly(err) {
		t.Errorf("%v", err)
	}
	expectServed(t, m, shard, legacyPlaces)
}

func TestStatementsAreParsed(t *testing.T) {
	s, err := parse("k", "UPDATE `a:shard` SET x=':host', y=\"it\\'s :port\", z=:host /* :side */, v:=1 WHERE q=':it''s :b' AND s=:shard AND h=:host # :zz\n AND 1", "shard", "host")
	if err != nil {
		t.Fatal(err)
	}
	want := "UPDATE `a:shard` SET x=':host', y=\"it\\'s :port\", z=? /* :side */, v:=1 WHERE q=':it''s :b' AND s=? AND h=? # :zz\n AND 1"
	if s.text != want || !reflect.DeepEqual(s.names, []string{"host", "shard", "host"}) {
		t.Errorf("%s\n%v", s.text, s.names)
	}
	if got := s.args(map[string]any{"shard": 1, "host": "h"}); !reflect.DeepEqual(got, []any{"h", 1, "h"}) {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"WHERE s=:shards", "WHERE s=?", "WHERE s=:Shard"} {
		if _, err := parse("k", bad, "shard"); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	for _, odd := range []string{"'open :shard", "/* open :shard", "-- open :shard", "x::y", ":"} {
		if s, err := parse("k", odd, "shard", "y"); err != nil {
			t.Errorf("%q: %v", odd, err)
		} else if odd != "x::y" && s.text != odd {
			t.Errorf("%q became %q", odd, s.text)
		}
	}
}

func TestSwitchMustBeAnUpdate(t *testing.T) {
	c := statements()
	c.Switch = "CALL move(:shard, :side, :host, :port, :database)"
	if _, err := Open(ctxFor(t), mysqlconn.Target{Host: "127.0.0.1", Port: 1}, c); err == nil || !strings.Contains(err.Error(), "UPDATE") {
		t.Errorf("%v", err)
	}
}

func TestMainsUnreachable(t *testing.T) {
	_, err := Open(ctxFor(t), mysqlconn.Target{Name: "mains", Host: "127.0.0.1", Port: 1}, statements())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v", err)
	}
}
