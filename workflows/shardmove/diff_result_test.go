package shardmove

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/workflows/engine"
)

// TestKeptDiff: the report that is kept reads back as it was, replaces the last one of its
// kind and no other, and is of no landing that has none.
func TestKeptDiff(t *testing.T) {
	t.Parallel()
	s := mysqldtest.Start(t, mysqldtest.Options{Name: "landing"})
	db := mysqldtest.Open(t, s)
	mysqldtest.Exec(t, s, "CREATE DATABASE `_vifl`")
	ctx := context.Background()
	if _, err := readDiff(ctx, db, engine.Diff); !errors.Is(err, ErrNoDiff) {
		t.Fatalf("nothing is kept: %v", err)
	}
	first := &DiffReport{Shard: "0123 (legacy_0123)", Position: "binlog.000001:4711", Tables: 2, Rows: 3, Tablets: []string{"zone1-101"}, Different: 3001, MaxRows: 10_000,
		Targets: []DiffTarget{{Target: "tablet zone1-101", Different: 3001, Listed: 3001, ByTable: map[string]uint64{"t": 3001}}}}
	for i := range 3000 {
		first.Differences = append(first.Differences, DiffEntry{Target: "tablet zone1-101", Table: "t", Key: fmt.Sprint(i), Kind: "changed", Columns: []diff.ColumnDifference{
			{Column: "v", Source: &diff.Value{Text: "it's \\ 😀", Quoted: true, Bytes: 12}, Target: &diff.Value{Null: true}}}})
	}
	first.Differences = append(first.Differences, DiffEntry{Target: "tablet zone1-101", Table: "t", Key: `"` + strings.Repeat("k", 100_000) + `"`, Kind: "extra", Columns: []diff.ColumnDifference{}})
	first.Accepted = []DiffEntry{{Target: "0123 side b", Table: "t", Key: "7", Kind: "missing", Columns: []diff.ColumnDifference{}, Newer: "a", NewerBy: "updated_at"}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	back := &DiffReport{Shard: first.Shard, Position: "other", Equal: true}
	for _, r := range []struct {
		verb   engine.Verb
		report *DiffReport
	}{{engine.Diff, &DiffReport{Different: 1, Differences: []DiffEntry{{Table: "gone"}}}}, {engine.Diff, first}, {engine.DiffBack, back}} {
		if err := storeDiff(ctx, db, r.verb, at, r.report); err != nil {
			t.Fatal(err)
		}
	}
	for verb, want := range map[engine.Verb]*DiffReport{engine.Diff: first, engine.DiffBack: back} {
		got, err := readDiff(ctx, db, verb)
		if err != nil {
			t.Fatal(err)
		}
		if !got.At.Equal(at) || got.Verb != verb || !reflect.DeepEqual(got.DiffReport, *want) {
			t.Errorf("%s: found %+v, expected %+v", verb, got, want)
		}
	}
	// As an operator reads it.
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM _vifl.diff_row WHERE verb = ? AND table_name = 't' AND kind = 'changed' AND row_key = '42' AND NOT accepted", engine.Diff).Scan(&n); err != nil || n != 1 {
		t.Errorf("found %d rows, %v", n, err)
	}
	if line := first.Differences[0].Columns[0].String(); !strings.Contains(line, `"it's \\ 😀" -> NULL`) {
		t.Errorf("printed as %s", line)
	}
}
