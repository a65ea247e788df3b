package diff

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema"
)

// TestDrift compares the two sides of a real pair while writers change rows on both.
func TestDrift(t *testing.T) {
	t.Parallel()
	a, b := mysqldtest.Pair(t, mysqldtest.Options{Extra: []string{"max_allowed_packet = 4M"}})
	mysqldtest.Exec(t, a, "CREATE DATABASE d")
	script(t, a, "d", []string{
		"SET SESSION cte_max_recursion_depth = 100000",
		"CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v BIGINT NOT NULL, s VARCHAR(60))",
		fmt.Sprintf(numbers, "t", 20000, "i, i, SHA2(i,224)"),
		"CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
		"INSERT INTO names VALUES ('alpha', 1), ('beta', 2), ('gamma', 3)",
		"CREATE TABLE quiet (id INT PRIMARY KEY)", "INSERT INTO quiet VALUES (1), (2)",
		"CREATE TABLE stamped (id INT PRIMARY KEY, v LONGTEXT, date_update INT UNSIGNED)", "INSERT INTO stamped VALUES (1, 'one', 1700000000), (2, 'two', 1700000000), (3, 'three', 1700000000)",
	})
	mysqldtest.CaughtUp(t, b, a)
	pools := []Pool{{"a", "d", mysqldtest.Open(t, a)}, {"b", "d", mysqldtest.Open(t, b)}}
	side := plainSide(t, a, "d", 1)
	sch := readSchema(t, side.Conns[0], "d")
	settled := 0
	settle := func(context.Context) error {
		settled++
		mysqldtest.CaughtUp(t, b, a)
		mysqldtest.CaughtUp(t, a, b)
		return nil
	}
	compare := func(o Options) *Report {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		r, err := Drift(ctx, pools[0], pools[1], sch, 2, o, settle, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	stop := writers(t, a, b)
	for _, o := range []Options{chunked(100), {}} {
		r := compare(o)
		if !r.Equal() {
			t.Errorf("%+v: nothing drifted, and %d rows are reported: %v", o, r.Differing(), r.Targets[0].Differences)
		}
		t.Logf("%d keys were read again, %d settles", r.Rechecked, settled)
	}
	// What happened on one side only, without a trace in its binlog.
	script(t, b, "d", []string{"SET SESSION sql_log_bin = 0", "UPDATE t SET s = 'drifted' WHERE id = 19000", "DELETE FROM t WHERE id = 19001", "INSERT INTO t VALUES (9000000, 1, '')",
		"UPDATE names SET k = 'BETA' WHERE k = 'beta'", "DELETE FROM quiet WHERE id = 2",
		"UPDATE t SET s = 'hot, and drifted' WHERE id = 3"})
	// Row 3 heals by itself: with full row images an update on a brings the whole row to b.
	for deadline := time.Now().Add(testTime); ; time.Sleep(10 * time.Millisecond) {
		var text string
		if err := pools[1].DB.QueryRow("SELECT s FROM d.t WHERE id = 3").Scan(&text); err != nil || time.Now().After(deadline) {
			t.Fatalf("row 3 on b is %q: %v", text, err)
		}
		if text != "hot, and drifted" {
			break
		}
	}
	for _, o := range []Options{chunked(100), {}} {
		r := compare(o)
		want(t, r.Targets[0], "t 19000 changed", "t 19001 missing", "t 9000000 extra", "names beta changed", "quiet 2 missing")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	testAccepted(t, a, b, pools, sch, settle)

	failing := func(context.Context) error { return errors.New("side b does not apply") }
	if _, err := Drift(context.Background(), pools[0], pools[1], sch, 2, Options{}, failing, nil); err == nil || !strings.Contains(err.Error(), "side b does not apply") {
		t.Errorf("settling failed: %v", err)
	}
}

// testAccepted: what was accepted is let through as long as both rows are what they were, and
// nothing else is.
func testAccepted(t *testing.T, a, b *mysqld.Server, pools []Pool, sch *schema.Schema, settle func(context.Context) error) {
	ctx := context.Background()
	unlogged := func(srv *mysqld.Server, statements ...string) {
		script(t, srv, "d", append([]string{"SET SESSION sql_log_bin = 0"}, statements...))
	}
	// Row 2 does not fit into a packet when it is hashed: its digest has another form, which
	// must not depend on the rows that are read beside it.
	long := fmt.Sprintf("UPDATE stamped SET v = REPEAT('x', %d), date_update = 1700000005 WHERE id = 2", maxPacket(t, pools[1].DB)-10)
	unlogged(b, "UPDATE stamped SET v = 'b was here', date_update = 1700000009 WHERE id = 1", long)
	unlogged(a, "UPDATE stamped SET date_update = 1700000001 WHERE id = 3")
	drifted, err := DriftOf(ctx, pools[0], pools[1], sch, "stamped", []string{"1", "2", "3"}, settle)
	if err != nil || len(drifted) != 3 {
		t.Fatalf("%v, %v", drifted, err)
	}
	for i, side := range []string{"target", "target", "source"} {
		if d := drifted[i]; d.Newer != side || d.NewerBy != "date_update" || d.Pair.Same() || d.Pair.Source == "" || d.Pair.Target == "" {
			t.Errorf("%s: newer on %q by %q, %+v", d, d.Newer, d.NewerBy, d.Pair)
		}
	}
	names, err := DriftOf(ctx, pools[0], pools[1], sch, "names", []string{"BeTa"}, settle)
	if err != nil || len(names) != 1 || names[0].Pair.Key != "beta" || names[0].Newer != "" {
		t.Errorf("%+v, %v", names, err)
	}
	gone, err := DriftOf(ctx, pools[0], pools[1], sch, "quiet", []string{"2"}, settle)
	if err != nil || len(gone) != 1 || gone[0].Kind != Missing || gone[0].Pair.Target != "" || gone[0].Pair.Source == "" {
		t.Errorf("%+v, %v", gone, err)
	}
	for key, expected := range map[string]error{"1": ErrSame, "99": ErrKey, "x": ErrKey} {
		if _, err := DriftOf(ctx, pools[0], pools[1], sch, "quiet", []string{"2", key}, settle); !errors.Is(err, expected) {
			t.Errorf("quiet %s: %v", key, err)
		}
	}
	accepted := []Pair{names[0].Pair, gone[0].Pair}
	for _, d := range drifted {
		accepted = append(accepted, d.Pair)
	}
	check := func(wantAccepted int, lines ...string) {
		t.Helper()
		for _, o := range []Options{chunked(100), {}, {MaxListed: 1}} {
			o.Accepted = accepted
			r, err := Drift(ctx, pools[0], pools[1], sch, 2, o, settle, nil)
			if err != nil {
				t.Fatal(err)
			}
			if o.MaxListed != 1 {
				want(t, r.Targets[0], lines...)
			}
			if len(r.Accepted) != wantAccepted || r.Differing() != uint64(len(lines)) {
				t.Errorf("accepted %v, %d others", r.Accepted, r.Differing())
			}
		}
		now, err := PairsNow(ctx, pools[0], pools[1], sch, accepted)
		if err != nil {
			t.Fatal(err)
		}
		holding := 0
		for i := range now {
			if now[i] == accepted[i] {
				holding++
			}
		}
		if holding != wantAccepted {
			t.Errorf("%d of the accepted pairs are as they were, expected %d: %+v", holding, wantAccepted, now)
		}
	}
	rest := []string{"t 19000 changed", "t 19001 missing", "t 9000000 extra"}
	check(5, rest...)
	// Either side's next change ends an acceptance; a row that heals is no drift at all.
	unlogged(b, "UPDATE stamped SET v = 'and again' WHERE id = 1", "INSERT INTO quiet VALUES (2)")
	unlogged(a, "UPDATE stamped SET v = 'a too' WHERE id = 3")
	check(2, append(rest, "stamped 1 changed", "stamped 3 changed")...)
	unlogged(a, "UPDATE stamped SET v = 'three' WHERE id = 3")
	check(3, append(rest, "stamped 1 changed")...)
}

func maxPacket(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT @@GLOBAL.max_allowed_packet").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writers change hot rows and add and delete rows on both sides until stop is called.
func writers(t *testing.T, a, b *mysqld.Server) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for n, srv := range []*mysqld.Server{a, b} {
		db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/d", srv.Port()))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer func() { _ = db.Close() }()
			var last int64
			for i := 0; ctx.Err() == nil; i++ {
				var err error
				var res sql.Result
				id := 1 + n + 2*(i%20) // the sides' rows do not overlap: an asynchronous pair would drift
				switch i % 4 {
				case 0, 1:
					_, err = db.Exec("UPDATE t SET v = v + 1 WHERE id = ?", id)
				case 2:
					if res, err = db.Exec("INSERT INTO t (v, s) VALUES (?, 'new')", i); err == nil {
						last, err = res.LastInsertId()
					}
				case 3:
					_, err = db.Exec("DELETE FROM t WHERE id = ?", last)
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	// One row is written faster than it can be read in turns: no two reads of the two sides see it alike but
	// by luck.
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/d", a.Port()))
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		defer func() { _ = db.Close() }()
		for ctx.Err() == nil {
			time.Sleep(2 * time.Millisecond)
			if _, err := db.Exec("UPDATE t SET v = v + 1 WHERE id = 10001"); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
		}
	})
	return func() error {
		cancel()
		wg.Wait()
		return failed
	}
}
