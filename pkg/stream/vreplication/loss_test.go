package vreplication

import (
	"context"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/inspect"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// What the inspector taints is really lost, or really stops the stream for good, while the
// stream says nothing of it: each case runs through a real VReplication with the inspector
// beside it. When Vitess learns one of them, its case fails here, and the taint can go.
func TestWhatTheInspectorTaintsIsReallyLost(t *testing.T) {
	const document = `insert into slack.t (n, v, j) values (1, 'one', '{"a": 1, "long": "0123456789012345678901234567890123456789"}')`
	const insert = "insert into slack.t (n) values (2)"
	for _, c := range []struct {
		name string
		kind inspect.Kind // empty: it is not tainted, and nothing is lost
		// stuck: the stream never gets past it. Otherwise it stops at the end and, unless
		// kept, lacks something.
		stuck, kept bool
		run         []string
	}{
		{"compressed transaction", inspect.Compressed, false, false, []string{"set binlog_transaction_compression=on", insert}},
		{"partial JSON", inspect.PartialUpdate, false, false, []string{"set binlog_row_value_options=partial_json", "update slack.t set j = json_set(j, '$.a', 2)"}},
		{"statement", inspect.Logged, false, false, []string{"set binlog_format=statement", insert}},
		{"statement from another database", inspect.Logged, false, false, []string{"set binlog_format=statement", "use elsewhere", insert}},
		// The stream's position moves on as if nothing had been; here the rows still fit.
		{"DDL from another database", inspect.DDL, false, true, []string{"use elsewhere", "alter table slack.t modify v varchar(200)"}},
		{"minimal image", inspect.PartialImage, true, false, []string{"set binlog_row_image=minimal", "update slack.t set n = n + 1"}},
		{"two rows query events", inspect.Foreign, true, false, []string{"set binlog_rows_query_log_events=on", "begin", insert, insert, "commit"}},
		{"XA", inspect.Distributed, true, false, []string{"xa start 'x'", insert, "xa end 'x'", "xa prepare 'x'", "xa commit 'x'"}},
		{"savepoints", "", false, true, []string{"begin", insert, "savepoint a", insert, "rollback to a", "commit"}},
		{"temporary table", "", false, true, []string{"use slack", "create temporary table tmp (id int)", "insert into tmp values (1)", "drop temporary table tmp"}},
		{"flush and analyze", "", false, true, []string{"flush privileges", "analyze table slack.t"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := emptied(t)
			exec(t, world.legacy, "create database if not exists elsewhere")
			from := end(t)
			i, err := inspect.New(tcp(world.a, "vifl"), world.uuidA, database, from)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); _ = i.Run(ctx) }()
			defer func() { cancel(); <-done }()
			if err := s.Start(within(t, time.Minute), from); err != nil {
				t.Fatal(err)
			}
			exec(t, world.legacy, document)
			exec(t, world.legacy, c.run...)
			exec(t, world.legacy, "insert into slack.t (id, n) values (1000, 99)")
			taints, err := i.Wait(within(t, time.Minute), end(t))
			if err != nil {
				t.Fatal(err)
			}
			if c.kind == "" && len(taints) > 0 || c.kind != "" && (len(taints) == 0 || taints[0].Kind != c.kind) {
				t.Errorf("the inspector found %v, expected %q", taints, c.kind)
			}
			patience := time.Minute
			if c.stuck {
				patience = 2 * time.Second
			}
			err = s.StopAt(within(t, patience), end(t))
			if (err != nil) != c.stuck {
				t.Fatalf("StopAt the end: %v, expected stuck %v", err, c.stuck)
			}
			if st := status(t, s); st.State == stream.Failed {
				t.Errorf("the stream says itself that it failed: %+v; a taint is not needed for that", st)
			}
			want, err := streamtest.Dump(within(t, time.Minute), world.legacy, database)
			if err != nil {
				t.Fatal(err)
			}
			got, err := streamtest.Dump(within(t, time.Minute), world.landing, database)
			if err != nil {
				t.Fatal(err)
			}
			if (got == want) != c.kept {
				t.Errorf("the landing has\n%s\nthe legacy\n%s\nexpected equal %v", got, want, c.kept)
			}
		})
	}
}
