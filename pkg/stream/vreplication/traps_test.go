package vreplication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// secret must never be seen outside of the servers.
const secret = "Tr0ub4dor&3"

func status(t *testing.T, s *Stream) stream.Status {
	t.Helper()
	st, err := s.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", st); strings.Contains(text, secret) || strings.Contains(text, "IDENTIFIED") {
		t.Errorf("the status shows a statement about a password: %s", text)
	}
	return st
}

// until waits for a status.
func until(t *testing.T, s *Stream, what string, ok func(stream.Status) bool) stream.Status {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		st := status(t, s)
		if ok(st) {
			return st
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("waited for a stream that %s, it is %+v", what, st)
		}
	}
}

func same(t *testing.T) {
	t.Helper()
	want, err := streamtest.Dump(within(t, time.Minute), world.legacy, database)
	if err != nil {
		t.Fatal(err)
	}
	got, err := streamtest.Dump(within(t, time.Minute), world.landing, database)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the landing has\n%.600s\nexpected\n%.600s", got, want)
	}
}

// VReplication never stops at the start of a fresh binlog: it waits for the next event and
// stops behind that one.
func TestFreshBinlogNeitherHangsNorPasses(t *testing.T) {
	s := emptied(t)
	if err := s.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.legacy, "insert into slack.t (n) values (1)", "flush binary logs")
	fresh := end(t)
	if err := s.StopAt(within(t, time.Minute), fresh); err == nil || !strings.Contains(err.Error(), "start of a binlog") {
		t.Errorf("StopAt the start of a binlog: %v", err)
	}
	// A stream that was given no source cannot look, and ends with its time.
	blind := New(world.tablet.Landing, 123, "legacy_0123_a", database, world.uuidA)
	if err := blind.StopAt(within(t, 2*time.Second), fresh); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("StopAt the start of a binlog, without a look at it: %v, expected the time to run out", err)
	}
	if st := status(t, s); st.State != stream.Running {
		t.Errorf("the stream is %+v, expected running as before", st)
	}
	exec(t, world.legacy, "insert into slack.t (n) values (2)")
	exec(t, world.legacy, "insert into slack.t (n) values (3)")
	if err := s.StopAt(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	same(t)
}

// Statements about accounts stop VReplication, and its message then has the password's
// hash. They mean nothing to the tables, so StopAt and Resume go on behind them.
func TestAccountStatementsPass(t *testing.T) {
	s := emptied(t)
	exec(t, world.legacy, "drop user if exists x1, x2")
	if err := s.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.legacy,
		"insert into slack.t (n) values (1)", "create user x1 identified by '"+secret+"'", "insert into slack.t (n) values (2)", "grant select on slack.* to x1",
		"insert into slack.t (n) values (3)", "use slack", "create user x2 identified by '"+secret+"'", "alter user x1 identified by '2"+secret+"'")
	atAccount := end(t)
	exec(t, world.legacy, "insert into slack.t (n) values (4)", "revoke select on slack.* from x1", "drop user x1")
	if err := s.StopAt(within(t, time.Minute), atAccount); err != nil {
		t.Fatalf("StopAt behind an account statement: %v", err)
	}
	var n int
	if err := world.landing.QueryRow("select count(*) from slack.t").Scan(&n); err != nil || n != 3 {
		t.Errorf("stopped behind the third row, but the landing has %d, %v", n, err)
	}
	if err := s.StopAt(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	same(t)
	// Without anybody who waits, the stream stands until it is resumed, and says so.
	if err := s.Resume(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.legacy, "drop user x2", "insert into slack.t (n) values (5)")
	st := until(t, s, "stopped at DROP USER", func(st stream.Status) bool { return st.State == stream.Stopped })
	if st.Blocked != "" || !strings.Contains(st.Message, "DROP USER") {
		t.Errorf("status %+v, expected one that tells of DROP USER and is not blocked", st)
	}
	if err := s.Resume(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.StopAt(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	same(t)
}

// At a DDL the saved position is already behind it: to resume would skip it.
func TestDDLBlocks(t *testing.T) {
	s := emptied(t)
	from := end(t)
	if err := s.Start(within(t, time.Minute), from); err != nil {
		t.Fatal(err)
	}
	before := end(t)
	exec(t, world.legacy, "insert into slack.t (n) values (1)", "alter table slack.t add column late int", "insert into slack.t (n) values (2)")
	st := until(t, s, "is blocked", func(st stream.Status) bool { return st.Blocked != "" })
	if st.State != stream.Failed || st.Blocked != "ALTER TABLE" || strings.Contains(st.Message, "late") {
		t.Errorf("status %+v", st)
	}
	if c, err := position.Compare(st.Position, before); err != nil || c <= 0 {
		t.Errorf("the stream stands at %s, %v; this test rests on its being behind %s", st.Position, err, before)
	}
	refused := func(when string) {
		t.Helper()
		for name, err := range map[string]error{
			"Resume": s.Resume(within(t, time.Minute)), "StopAt": s.StopAt(within(t, time.Minute), end(t)), "Start": s.Start(within(t, time.Minute), from),
		} {
			if !errors.Is(err, stream.ErrBlocked) || !strings.Contains(err.Error(), "ALTER TABLE") {
				t.Errorf("%s %s: %v, expected ErrBlocked that names ALTER TABLE", name, when, err)
			}
		}
	}
	refused("of a blocked stream")
	if err := s.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	refused("after a Stop")
	if err := world.tablet.Restart(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	refused("after a restart of the tablet")

	// A stop that runs into one on its way.
	s = emptied(t)
	if err := s.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.legacy, "truncate table slack.t", "insert into slack.t (n) values (1)")
	if err := s.StopAt(within(t, time.Minute), end(t)); !errors.Is(err, stream.ErrBlocked) {
		t.Errorf("StopAt behind a TRUNCATE: %v, expected ErrBlocked", err)
	}
	if kind := status(t, s).Blocked; kind != "TRUNCATE TABLE" {
		t.Errorf("blocked by %q, expected TRUNCATE TABLE", kind)
	}
}

// The tablets' name for a server may lead to another shard's, to the other side, or to
// nowhere: nothing of it must be applied.
func TestWrongServerBehindTheConnection(t *testing.T) {
	s := emptied(t)
	exec(t, world.legacy, "insert into slack.t (n) values (1)", "insert into slack.t (n) values (2)")
	at := end(t)
	if err := s.Verify(within(t, time.Minute)); err != nil {
		t.Fatalf("the right server: %v", err)
	}
	for i, connection := range []string{"legacy_4567_a", "legacy_0123_b", "nowhere", "unknown"} {
		t.Run(connection, func(t *testing.T) {
			t.Parallel()
			wrong := New(world.tablet.Landing, shardid.ID(900+i), connection, database, world.uuidA, WithSource(tcp(world.a, "vifl")))
			err := wrong.Start(within(t, time.Minute), at)
			if !errors.Is(err, stream.ErrWrongServer) || !strings.Contains(err.Error(), world.uuidA) || !strings.Contains(err.Error(), connection) {
				t.Errorf("Start: %v, expected ErrWrongServer that names the connection and the server", err)
			}
			if st := status(t, wrong); st.State != stream.Absent {
				t.Errorf("a stream is there: %+v", st)
			}
			probe := *wrong
			probe.workflow += "_probe"
			if st := status(t, &probe); st.State != stream.Absent {
				t.Errorf("the probe is still there: %+v", st)
			}
		})
	}
	t.Run("source", func(t *testing.T) {
		// The address in vifl.yaml leads elsewhere than the identity that was recorded.
		wrong := New(world.tablet.Landing, 910, "legacy_4567_a", database, world.uuidA, WithSource(tcp(world.other, "vifl")))
		if err := wrong.Start(within(t, time.Minute), at); !errors.Is(err, stream.ErrWrongServer) {
			t.Errorf("Start: %v, expected ErrWrongServer", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		blind := New(world.tablet.Landing, 911, "legacy_0123_a", database, world.uuidA)
		if err := blind.Start(within(t, time.Minute), at); err == nil {
			t.Error("a stream was started whose server nobody could verify")
		}
	})
}

// VReplication takes binlog.1000000 as passed while it is at binlog.999999.
func TestNamesThatSortTheOtherWay(t *testing.T) {
	s := shard0123()
	at := &row{state: "Running", pos: position.FilePos{Server: world.uuidA, File: "binlog.999999", Pos: 900}}
	err := s.canStop(within(t, time.Minute), at, position.FilePos{Server: world.uuidA, File: "binlog.1000000", Pos: 400})
	if err == nil || !strings.Contains(err.Error(), "sorts behind") {
		t.Errorf("found %v, expected a refusal", err)
	}
}

func TestTwoRowsAreNobodys(t *testing.T) {
	s := emptied(t)
	if err := s.Start(within(t, time.Minute), end(t)); err != nil {
		t.Fatal(err)
	}
	exec(t, world.landing, "insert into _vt.vreplication (workflow, db_name, source, pos, max_tps, max_replication_lag, time_updated, transaction_timestamp, state, options) select workflow, db_name, source, pos, 1, 1, 0, 0, 'Stopped', '{}' from _vt.vreplication where workflow = 'vifl_0123'")
	if _, err := s.Status(within(t, time.Minute)); !errors.Is(err, stream.ErrOther) {
		t.Errorf("found %v, expected ErrOther", err)
	}
}

func TestScrub(t *testing.T) {
	for message, want := range map[string]string{
		"": "",
		"Stopped at DDL CREATE USER 'x'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$hash'":                       "Stopped at DDL (CREATE USER)",
		"Stopped at DDL /* x */ alter table t add column secret int":                                                        "Stopped at DDL (ALTER TABLE)",
		"error applying event: Duplicate entry 'a@b.c' for key 'users.mail' (errno 1062) during query: insert into users …": "error applying event: Duplicate entry …",
		`unexpected statement type UNKNOWN in row-based replication: "XA START X'31'"`:                                      "unexpected statement type UNKNOWN …",
		"vttablet: rpc error: connection refused":                                                                           "vttablet: rpc error: connection refused",
	} {
		if got := scrub(message); got != want {
			t.Errorf("scrub(%q) = %q, expected %q", message, got, want)
		}
	}
}
