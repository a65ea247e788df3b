package vreplication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/inspect"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// TestCases runs the rows and the changes of each case through Vitess' stream with the reader
// beside it. What the stream carries over must be equal, compared by queries that share
// nothing with it; what it does not must stop it, or taint it: never pass in silence.
func TestCases(t *testing.T) {
	outcomes := map[string]string{}
	for _, c := range streamtest.Cases(t) {
		t.Run(c.Name, func(t *testing.T) { outcomes[c.Name] = runCase(t, c) })
	}
	if !t.Failed() {
		streamtest.Outcomes(t, "vreplication", outcomes)
	}
}

func root(s *mysqld.Server) mysqlconn.Target { return s.Target(s.Name()) }

func runCase(t *testing.T, c streamtest.Case) (outcome string) {
	s := shard0123()
	if err := s.Delete(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			st, err := s.Status(context.Background())
			t.Logf("the stream: %+v, %v", st, err)
		}
		if err := s.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	legacy, landing := root(world.a), root(world.tablet.MySQL)
	for _, target := range []mysqlconn.Target{legacy, landing} {
		streamtest.Script(t, target, "", "DROP DATABASE IF EXISTS "+database, "CREATE DATABASE "+database+" DEFAULT CHARACTER SET utf8mb4")
		streamtest.Script(t, target, database, c.Sections["schema"]...)
	}
	if why := refused(t); why != "" {
		return "refused (" + why + ")"
	}
	from := end(t)
	reader, err := inspect.New(tcp(world.a, "vifl"), world.uuidA, database, from)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = reader.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := s.Start(within(t, time.Minute), from); err != nil {
		t.Fatal(err)
	}
	lost, risky := unfit(t)
	streamtest.Script(t, legacy, database, c.Sections["rows"]...)
	streamtest.Script(t, legacy, database, c.Sections["changes"]...)
	to := end(t)
	taints, err := reader.Wait(within(t, time.Minute), to)
	if err != nil {
		t.Fatal(err)
	}
	if len(taints) > 0 {
		return "tainted: " + string(taints[0].Kind)
	}
	// One that stands still at something does not say so: it tries for ever. No case is known where it
	// does, so the time is for rows of many megabytes on a machine that does other things too.
	const patience = 3 * time.Minute
	err = s.StopAt(within(t, patience), to)
	switch st, serr := s.Status(within(t, time.Minute)); {
	case serr != nil:
		t.Fatal(serr)
	case errors.Is(err, stream.ErrBlocked):
		return "stops: " + st.Blocked
	case err != nil:
		t.Logf("StopAt: %v; status %+v", err, st)
		return "stops"
	}
	if d := streamtest.Unequal(t, legacy, landing, database); len(d) > 0 {
		if len(risky) == 0 {
			t.Errorf("nothing stopped or tainted the stream, preflight said nothing, and it lost something:\n%s", strings.Join(d, "\n"))
		}
		return "**differs**; preflight warns (P46)"
	}
	if len(lost) > 0 {
		t.Errorf("it carried over what preflight refuses: %v", lost)
	}
	if a, b := streamtest.Script(t, legacy, database, c.Sections["check"]...), streamtest.Script(t, landing, database, c.Sections["check"]...); !slices.Equal(a, b) {
		t.Errorf("the check found\n%.1000q on the landing, expected\n%.1000q", b, a)
	}
	if c.Refuse != "" {
		t.Errorf("expected a refusal that says %q", c.Refuse)
	}
	return "equal"
}

func unfit(t *testing.T) (lost, risky []string) {
	t.Helper()
	tables, err := schema.Read(within(t, time.Minute), world.legacy, database)
	if err != nil {
		t.Fatal(err)
	}
	return Unfit(tables)
}

// refused says which of preflight's checks turns the case's tables down, empty for none.
// These checks have tests of their own.
func refused(t *testing.T) string {
	t.Helper()
	tables, err := schema.Read(within(t, time.Minute), world.legacy, database)
	if err != nil {
		t.Fatal(err)
	}
	if len(tables.Triggers) > 0 {
		return "P32"
	}
	if lost, _ := Unfit(tables); len(lost) > 0 {
		return "P46"
	}
	for _, table := range tables.Tables {
		_, key := table.RowKey()
		if len(key) == 0 {
			return "P30"
		}
		for _, part := range key {
			if c := table.Column(part.Column); c != nil && c.Generated != "" {
				return "P30"
			}
		}
		if !strings.EqualFold(table.Engine, "InnoDB") {
			return "P29"
		}
		for _, k := range table.ForeignKeys {
			// SET NULL, SET DEFAULT
			if rules := fmt.Sprint(k.DeleteRule, k.UpdateRule); strings.Contains(rules, "CASCADE") || strings.Contains(rules, "SET") {
				return "P31"
			}
		}
	}
	return ""
}
