package e2e

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/devcluster"
	"github.com/vifl/vifl/pkg/mysqlconn"
)

// primaryOf connects to the server of a landing's primary as its owner does.
func primaryOf(t *testing.T, keyspace string) *sql.DB {
	t.Helper()
	for _, p := range processes(t) {
		if p.Landing != keyspace || p.Socket == "" {
			continue
		}
		db := connect(t, mysqlconn.Target{Name: p.Name, Socket: p.Socket, Account: mysqlconn.Account{User: "vt_dba"}, Database: devcluster.Database})
		if query1(t, db, "SELECT @@GLOBAL.super_read_only") == "0" {
			return db
		}
	}
	t.Fatalf("the fleet has no writable server of %s", keyspace)
	return nil
}

// repairLanding changes rows of the landing behind the stream's back, has them reported,
// explained and repaired, and the landing compared again.
func repairLanding(t *testing.T, a *sql.DB) {
	landing := primaryOf(t, "legacy_0123")
	team := query1(t, a, "SELECT MIN(team_id) FROM slack.teams")
	// The rows exist since the seed, in a table of every odd type, and nobody writes to them.
	if n := query1(t, landing, "SELECT COUNT(*) FROM billing WHERE team_id = "+team); n == "0" || n == "1" {
		t.Fatalf("found %s rows of billing, expected some", n)
	}
	key := query1(t, landing, "SELECT CONCAT_WS(', ', team_id, period, quarter) FROM billing WHERE team_id = "+team+" ORDER BY 1 LIMIT 1")
	where := " WHERE CONCAT_WS(', ', team_id, period, quarter) = '" + key + "'"
	exec1(t, landing, "UPDATE billing SET rate = rate + 1, flags = flags ^ 1, paid_at = '11:22:33.444'"+where)
	exec1(t, landing, "INSERT INTO billing (team_id, period, quarter, amount, rate, tax) VALUES ("+team+", 2155, 4, 1.5, 2.5, 3.5)")

	type report struct {
		Equal  bool `json:"equal"`
		Repair []struct {
			Target, Problem string
			Statements      []string
			AppliedAt       string `json:"applied_at"`
			Applied         int
		} `json:"repair"`
		Differences []struct{ Target, Table, Key, Kind string } `json:"differences"`
	}
	if r := vifl(t, "diff", "0123", "--explain", "billing", key); r.code != 4 || !strings.Contains(r.stdout, "flags") || !strings.Contains(r.stdout, "11:22:33.444") || strings.Contains(r.stdout, "amount") {
		t.Errorf("explain of a row that differs: %s", r)
	}
	r := vifl(t, "--output", "json", "diff", "0123", "--repair")
	if r.code != 4 {
		t.Fatalf("a diff of a changed landing: %s", r)
	}
	d := decode[report](t, r)
	// Three tablets with two rows each; statements for the primary only.
	statements := 0
	for _, p := range d.Repair {
		if p.AppliedAt != "" {
			t.Errorf("it ran without --apply: %+v", p)
		}
		statements += len(p.Statements)
	}
	if len(d.Differences) != 6 || len(d.Repair) != 3 || statements < 5 {
		t.Errorf("%+v", d)
	}
	// The report can be read again, from the landing, as it was printed.
	last := vifl(t, "--output", "json", "diff", "0123", "--last")
	if kept := decode[report](t, last); last.code != 4 || kept.Equal || !slices.Equal(kept.Differences, d.Differences) {
		t.Errorf("--last: %s", last)
	}
	if r := vifl(t, "diff", "0123", "--last"); r.code != 4 || !strings.Contains(r.stdout, "11:22:33.444") || !strings.Contains(r.stdout, "6 row(s) differ") {
		t.Errorf("--last as text: %s", r)
	}
	// The same table as one that is spread over servers: side a and the landing's primary only,
	// so each row is named once.
	spread := []string{"--output", "json", "diff", "--from", "0123", "--to", "legacy_0123", "--table", "billing", "--settle", "3s"}
	type spreadReport struct {
		Differences []struct {
			Key      []string
			Kind     string
			From, To []string
		} `json:"differences"`
	}
	r = vifl(t, spread...)
	found := decode[spreadReport](t, r).Differences
	if r.code != 4 || len(found) != 2 || !strings.Contains(r.stdout, `"legacy_0123:0"`) || !strings.Contains(r.stdout, `"0123 side a"`) {
		t.Errorf("--from 0123 --to legacy_0123: %s", r)
	}
	for _, d := range found {
		if d.Kind != "extra" && (d.Kind != "changed" || strings.Join(d.Key, ", ") != key) || len(d.To) != 1 {
			t.Errorf("--from 0123 --to legacy_0123: %+v", d)
		}
	}
	if n := query1(t, landing, "SELECT COUNT(*) FROM billing WHERE period = 2155"); n != "1" {
		t.Errorf("--repair without --apply changed the landing: %s rows", n)
	}
	r = vifl(t, "--output", "json", "diff", "0123", "--repair", "--apply")
	if r.code != 4 {
		t.Fatalf("a diff with a repair: %s", r)
	}
	applied := 0
	for _, p := range decode[report](t, r).Repair {
		if p.AppliedAt != "" {
			applied += p.Applied
		}
	}
	if applied != 2 {
		t.Errorf("%d rows were repaired, expected 2: %s", applied, r)
	}
	if r := must(t, "--output", "json", "diff", "0123"); !decode[report](t, r).Equal {
		t.Errorf("behind the repair: %s", r)
	}
	if r := vifl(t, "diff", "0123", "--last"); r.code != 0 || !strings.Contains(r.stdout, "certificate") {
		t.Errorf("--last behind an equal diff: %s", r)
	}
	must(t, spread...)
	if r := must(t, "diff", "0123", "--explain", "billing", key); !strings.Contains(r.stdout, "the same on all") {
		t.Errorf("explain of a repaired row: %s", r)
	}

	// A diff ends before it begins where the source keeps too much already.
	snapshot, err := root(t, 123, "a").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	for _, stmt := range []string{"SET SESSION transaction_isolation = 'REPEATABLE-READ'", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := snapshot.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	strict := changedConfig(t, "limits:\n", "limits:\n  diff_history: 1\n")
	for tries := 0; ; tries++ {
		r := viflWith(t, strict, nil, "diff", "0123")
		if r.code == 1 && strings.Contains(r.stderr, "history list") && strings.Contains(r.stderr, "0123 side a") {
			break
		}
		if tries == 5 {
			t.Fatalf("a diff with a bound of the history list: %s", r)
		}
	}
	must(t, "diff", "0123")
}
