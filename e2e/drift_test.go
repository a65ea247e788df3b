package e2e

import (
	"database/sql"
	"strings"
	"testing"
	"time"
)

// driftReport is what the tests read of a diff.
type driftReport struct {
	Equal       bool                                 `json:"equal"`
	Different   int                                  `json:"different"`
	Differences []struct{ Table, Key, Newer string } `json:"differences"`
	Accepted    []struct{ Table, Key string }        `json:"accepted"`
	Certificate string                               `json:"certificate"`
}

// acceptDrift makes two rows of shard 0123 differ between the sides, behind the binlog's back,
// and takes them through report, acceptance, change, withdrawal and repair. One stays accepted,
// so that rehearsal and cutover meet it inside the freeze.
func acceptDrift(t *testing.T, a *sql.DB) {
	diff := func(code int) driftReport {
		t.Helper()
		r := vifl(t, "--output", "json", "diff", "0123")
		if r.code != code {
			t.Fatalf("expected exit code %d: %s", code, r)
		}
		return decode[driftReport](t, r)
	}
	list := func(want ...string) {
		t.Helper()
		var got []string
		for _, row := range decode[struct {
			Rows []struct{ Key, Status, Who string } `json:"rows"`
		}](t, must(t, "--output", "json", "diff", "0123", "--accepted-drift")).Rows {
			got = append(got, row.Key+" "+row.Status)
			if !strings.Contains(row.Who, "@") {
				t.Errorf("accepted by %q", row.Who)
			}
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("accepted %q, expected %q", got, want)
		}
	}
	team := query1(t, a, "SELECT MIN(team_id) FROM slack.teams")
	logged, err := root(t, 123, "a").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer logged.Close()
	for _, stmt := range []string{
		"SET SESSION sql_log_bin = 1",
		"INSERT INTO team_settings VALUES (" + team + ", 'drift_one', '1', NULL, '2024-01-01 00:00:00'), (" + team + ", 'drift_two', '1', NULL, '2024-01-01 00:00:00')",
	} {
		if _, err := logged.ExecContext(t.Context(), stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	b := root(t, 123, "b")
	for deadline := time.Now().Add(time.Minute); query1(t, b, "SELECT COUNT(*) FROM team_settings WHERE name LIKE 'drift%'") != "2"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("side b does not have side a's rows")
		}
	}
	one, two := team+", drift_one", team+", drift_two"

	if r := vifl(t, "diff", "0123", "--accept-drift", "team_settings", one); r.code != 2 || !strings.Contains(r.stderr, "the same on both sides") {
		t.Errorf("accepting a row that is the same: %s", r)
	}
	exec1(t, b, "UPDATE team_settings SET value = '2', updated_at = '2024-01-02 00:00:00' WHERE name = 'drift_one'")
	exec1(t, b, "UPDATE team_settings SET value = '2' WHERE name = 'drift_two'")
	d := diff(4)
	if d.Different != 2 || len(d.Differences) != 2 || d.Certificate != "" {
		t.Fatalf("%+v", d)
	}
	if d.Differences[0].Key != one || d.Differences[0].Newer != "b" || d.Differences[1].Key != two || d.Differences[1].Newer != "" {
		t.Errorf("%+v", d.Differences)
	}
	if r := vifl(t, "cutover", "0123", "--confirm", "0123", "--one-way"); r.code != 3 {
		t.Errorf("a cutover with drift: %s", r)
	}

	must(t, "diff", "0123", "--accept-drift", "team_settings", one, "--why", "side b is a test's")
	if d := diff(4); d.Different != 1 || d.Differences[0].Key != two || len(d.Accepted) != 1 || d.Accepted[0].Key != one {
		t.Errorf("%+v", d)
	}
	must(t, "diff", "0123", "--accept-drift", "team_settings", two)
	list(one+" holds", two+" holds")
	if d := diff(0); !d.Equal || len(d.Accepted) != 2 || d.Certificate == "" {
		t.Errorf("%+v", d)
	}
	if r := must(t, "cert", "show", "0123"); !strings.Contains(r.stdout, one) || !strings.Contains(r.stdout, two) {
		t.Errorf("the certificate does not name the accepted rows: %s", r)
	}

	// Inside a freeze too: what was accepted must still be what it was.
	exec1(t, b, "UPDATE team_settings SET value = '3' WHERE name = 'drift_two'")
	list(one+" holds", two+" void")
	if r := vifl(t, "rehearse", "0123"); r.code != 1 || !strings.Contains(r.stderr, two) {
		t.Errorf("a rehearsal with an accepted row that has changed since: %s", r)
	}
	if d := diff(4); d.Different != 1 || d.Differences[0].Key != two {
		t.Errorf("%+v", d)
	}
	exec1(t, b, "UPDATE team_settings SET value = '1' WHERE name = 'drift_two'")
	list(one+" holds", two+" over")
	if d := diff(0); !d.Equal || len(d.Accepted) != 1 {
		t.Errorf("%+v", d)
	}
	must(t, "diff", "0123", "--withdraw-drift", "team_settings", two)
	list(one + " holds")

	must(t, "diff", "0123", "--withdraw-drift", "team_settings", one)
	if r := vifl(t, "cutover", "0123", "--confirm", "0123", "--one-way"); r.code != 3 || !strings.Contains(r.stdout, "R01") || !strings.Contains(r.stdout, one) {
		t.Errorf("a cutover whose acceptance was withdrawn: %s", r)
	}
	must(t, "diff", "0123", "--accept-drift", "team_settings", one)
	if d := diff(0); !d.Equal || len(d.Accepted) != 1 {
		t.Errorf("%+v", d)
	}
}
