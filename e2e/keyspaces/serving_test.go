package keyspaces_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

const (
	// partial is a scatter that would rather have some rows soon than all of them or an error.
	partial = "SELECT /*vt+ ALLOW_SCATTER SCATTER_ERRORS_AS_WARNINGS QUERY_TIMEOUT_MS=500 */ user_id FROM user_channels WHERE team_id = 77"
	// whole is the same without the hints that make it partial.
	whole = "SELECT /*vt+ ALLOW_SCATTER QUERY_TIMEOUT_MS=500 */ user_id FROM user_channels WHERE team_id = 77"
	// single is a read of one shard.
	single = "SELECT /*vt+ QUERY_TIMEOUT_MS=500 */ user_id FROM user_channels WHERE user_id = %d"
)

// answer is what one query came to.
type answer struct {
	rows     int
	warnings int
	err      error
	took     time.Duration
}

// ask runs a query and asks for its warnings in the same session.
func ask(ctx context.Context, conn *sql.Conn, query string) (a answer) {
	began := time.Now()
	count := func(query string) (n int, err error) {
		rows, err := conn.QueryContext(ctx, query)
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
			n++
		}
		return n, rows.Err()
	}
	a.rows, a.err = count(query)
	a.took = time.Since(began)
	if a.err == nil {
		a.warnings, a.err = count("SHOW WARNINGS")
	}
	return a
}

// testServing takes one shard away, once by a kill and once by a stall, and looks at what is served
// meanwhile. Times are printed; only what came is asserted.
func (c *cluster) testServing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	var values []string
	for user := 1; user <= 60; user++ {
		values = append(values, fmt.Sprintf("(%d, 1, 77, NOW(6))", user))
	}
	if _, err := c.safe.ExecContext(ctx, "INSERT /*vt+ MULTI_SHARD_AUTOCOMMIT=1 */ IGNORE INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES "+strings.Join(values, ", ")); err != nil {
		t.Fatal(err)
	}
	healthy, gone := c.tablets["membership_by_user"][0], c.tablets["membership_by_user"][1]
	count := func(tablet *vitesstest.Tablet) (n, user int) {
		t.Helper()
		if err := c.direct[tablet].QueryRowContext(ctx, "SELECT COUNT(*), MIN(user_id) FROM user_channels WHERE team_id = 77").Scan(&n, &user); err != nil {
			t.Fatal(err)
		}
		return n, user
	}
	here, userHere := count(healthy)
	there, userThere := count(gone)
	if here == 0 || there == 0 {
		t.Fatalf("found %d and %d rows on the two shards, expected some on each", here, there)
	}
	const samples = 40
	// phase asks everything again and again. rows is what a partial scatter must come to.
	phase := func(name string, rows int, all bool) {
		t.Helper()
		conn, err := c.safe.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var scatters, singles []time.Duration
		for range samples {
			a := ask(ctx, conn, partial)
			scatters = append(scatters, a.took)
			if a.err != nil || a.rows != rows || (a.warnings == 0) != all {
				t.Fatalf("%s: scatter: found %d rows, %d warnings, %v; expected %d rows, warnings %t", name, a.rows, a.warnings, a.err, rows, !all)
			}
			a = ask(ctx, conn, fmt.Sprintf(single, userHere))
			singles = append(singles, a.took)
			if a.err != nil || a.rows == 0 {
				t.Fatalf("%s: a read of the shard that is there: found %d rows, %v", name, a.rows, a.err)
			}
		}
		for _, query := range []string{whole, fmt.Sprintf(single, userThere)} {
			if a := ask(ctx, conn, query); (a.err == nil) != all {
				t.Errorf("%s: %s: found %v, expected an error: %t", name, query, a.err, !all)
			}
		}
		t.Logf("%-28s scatter %s; one shard %s", name, quantiles(scatters), quantiles(singles))
	}
	// back waits until the shard is served again.
	back := func() {
		t.Helper()
		conn, err := c.safe.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		eventually(t, "the shard is served again", func(ctx context.Context) error {
			a := ask(ctx, conn, partial)
			if a.err == nil && (a.rows != here+there || a.warnings > 0) {
				a.err = fmt.Errorf("found %d rows and %d warnings, expected %d and none", a.rows, a.warnings, here+there)
			}
			return a.err
		})
	}
	phase("both shards there:", here+there, true)
	if err := gone.Stall(); err != nil {
		t.Fatal(err)
	}
	phase("one shard stalled:", here, false)
	if err := gone.Resume(); err != nil {
		t.Fatal(err)
	}
	back()
	if err := gone.Kill(); err != nil {
		t.Fatal(err)
	}
	phase("one shard's vttablet killed:", here, false)
	if err := gone.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	back()
	phase("both there again:", here+there, true)
}
