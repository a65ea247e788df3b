package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/schema/schematest"
	"github.com/vifl/vifl/pkg/stream"
)

// randomTable has columns k0, k1, … that are its key, v0, v1, …, and n, by which the test picks
// rows, and which is no unique key.
type randomTable struct {
	name         string
	keys, values []schematest.Kind
	counts       bool // n is AUTO_INCREMENT
	create       string
}

func newRandomTable(r *rand.Rand, cards *schematest.Deck, name string) *randomTable {
	tb := &randomTable{name: name, counts: r.IntN(2) == 0}
	var columns, key []string
	for i := range 1 + r.IntN(3) {
		k := schematest.Kinds[r.IntN(len(schematest.Kinds))]
		for !k.Key {
			k = schematest.Kinds[r.IntN(len(schematest.Kinds))]
		}
		tb.keys = append(tb.keys, k)
		columns = append(columns, fmt.Sprintf("k%d %s NOT NULL", i, strings.TrimSuffix(k.Def, " NULL")))
		key = append(key, fmt.Sprintf("k%d%s", i, []string{"", "", " DESC"}[r.IntN(3)]))
	}
	for i := range 2 + r.IntN(5) {
		k := cards.Deal(r)
		tb.values = append(tb.values, k)
		columns = append(columns, fmt.Sprintf("v%d %s", i, k.Def))
	}
	if !tb.counts && r.IntN(3) == 0 { // none is made of an AUTO_INCREMENT column
		columns = append(columns, "g INT AS (n + 1) "+[]string{"STORED", "VIRTUAL"}[r.IntN(2)])
	}
	indexes := []string{[]string{"PRIMARY", "PRIMARY", "UNIQUE"}[r.IntN(3)] + " KEY (" + strings.Join(key, ",") + ")", "KEY (n)"}
	for i, k := range tb.values {
		if k.Key && r.IntN(3) == 0 {
			indexes = append(indexes, fmt.Sprintf("UNIQUE KEY (v%d)", i))
			break
		}
	}
	n := "n INT NOT NULL"
	if tb.counts {
		n += " AUTO_INCREMENT"
	}
	columns = append(columns, n)
	r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	tb.create = fmt.Sprintf("CREATE TABLE %s (%s)", name, strings.Join(append(columns, indexes...), ", "))
	return tb
}

// rows are tuples for an INSERT, with columns the list of their names.
func (tb *randomTable) rows(r *rand.Rand, many int) (columns, tuples string) {
	var names, out []string
	for i := range tb.keys {
		names = append(names, fmt.Sprintf("k%d", i))
	}
	for i := range tb.values {
		names = append(names, fmt.Sprintf("v%d", i))
	}
	for range many {
		var values []string
		for _, k := range tb.keys {
			values = append(values, k.Value(r))
		}
		for _, k := range tb.values {
			values = append(values, orNull(r, k))
		}
		n := strconv.Itoa(r.IntN(100))
		if tb.counts && r.IntN(2) == 0 {
			n = "NULL"
		}
		out = append(out, "("+strings.Join(append(values, n), ",")+")")
	}
	return strings.Join(append(names, "n"), ","), strings.Join(out, ",")
}

func orNull(r *rand.Rand, k schematest.Kind) string {
	if r.IntN(4) == 0 {
		return "NULL"
	}
	return k.Value(r)
}

// statement changes some rows, or none.
func (tb *randomTable) statement(r *rand.Rand) string {
	where := fmt.Sprintf("n = %d", r.IntN(100))
	if r.IntN(5) == 0 {
		from := r.IntN(100)
		where = fmt.Sprintf("n BETWEEN %d AND %d", from, from+r.IntN(10))
	}
	i := r.IntN(len(tb.values))
	column, k := fmt.Sprintf("v%d", i), tb.values[i]
	switch r.IntN(11) {
	case 0, 1:
		columns, tuples := tb.rows(r, 1+r.IntN(20))
		return fmt.Sprintf("INSERT IGNORE INTO %s (%s) VALUES %s", tb.name, columns, tuples)
	case 2:
		columns, tuples := tb.rows(r, 1+r.IntN(3))
		return fmt.Sprintf("REPLACE INTO %s (%s) VALUES %s", tb.name, columns, tuples)
	case 3:
		columns, tuples := tb.rows(r, 1+r.IntN(3))
		return fmt.Sprintf("INSERT IGNORE INTO %s (%s) VALUES %s ON DUPLICATE KEY UPDATE %s = %s", tb.name, columns, tuples, column, orNull(r, k))
	case 4:
		return fmt.Sprintf("DELETE FROM %s WHERE %s", tb.name, where)
	case 5:
		i := r.IntN(len(tb.keys))
		return fmt.Sprintf("UPDATE IGNORE %s SET k%d = %s WHERE %s", tb.name, i, tb.keys[i].Value(r), where)
	case 6:
		return fmt.Sprintf("UPDATE IGNORE %s SET n = n + 1, %s = %s WHERE %s", tb.name, column, orNull(r, k), where)
	case 7:
		if k.Little != nil {
			return fmt.Sprintf("UPDATE IGNORE %s SET %s = %s WHERE %s", tb.name, column, k.Little(r, column), where)
		}
	case 8:
		return fmt.Sprintf("UPDATE IGNORE %s SET %s = %s ORDER BY n LIMIT %d", tb.name, column, orNull(r, k), r.IntN(30))
	}
	return fmt.Sprintf("UPDATE IGNORE %s SET %s = %s WHERE %s", tb.name, column, orNull(r, k), where)
}

// content is all rows, each as the test's own expressions show what it holds.
func (tb *randomTable) content(t testing.TB, db *sql.DB) []string {
	t.Helper()
	var columns []string
	for i, k := range tb.keys {
		columns = append(columns, k.Exact(fmt.Sprintf("k%d", i)))
	}
	for i, k := range tb.values {
		columns = append(columns, k.Exact(fmt.Sprintf("v%d", i)))
	}
	_, rows := mysqldtest.Rows(t, db, "SELECT "+strings.Join(append(columns, "n"), ",")+" FROM "+database+"."+tb.name)
	var out []string
	for _, values := range rows {
		out = append(out, fmt.Sprint(values))
	}
	slices.Sort(out)
	return out
}

// counter is the table's next AUTO_INCREMENT value.
func (tb *randomTable) counter(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	var name, create string
	if err := db.QueryRowContext(within(t, time.Minute), "SHOW CREATE TABLE "+database+"."+tb.name).Scan(&name, &create); err != nil {
		t.Fatal(err)
	}
	if _, rest, ok := strings.Cut(create, "AUTO_INCREMENT="); ok {
		_, _ = fmt.Sscan(rest, &n)
	}
	return n
}

// greatest is the greatest n.
func (tb *randomTable) greatest(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(within(t, time.Minute), "SELECT IFNULL(MAX(n), 0) FROM "+database+"."+tb.name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// randomWriter commits and takes back random transactions until ctx ends: with savepoints, in
// compressed transactions, with the query in the binlog, as XA, in any sql_mode and time zone.
// It counts the transactions that were committed.
func randomWriter(ctx context.Context, t testing.TB, r *rand.Rand, me int, tables []*randomTable, committed *atomic.Int64) {
	var conn *sql.Conn
	defer func() {
		if conn != nil {
			discard(conn)
		}
	}()
	for x := 0; ctx.Err() == nil; x++ {
		if conn == nil {
			c, err := world.legacy.Conn(ctx)
			if err != nil {
				sleep(ctx, 10*time.Millisecond)
				continue
			}
			conn = c
		}
		xid := fmt.Sprintf("'%d-%d'", me, x)
		begin, end := []string{"BEGIN"}, []string{[]string{"COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[r.IntN(4)]}
		switch r.IntN(6) {
		case 0:
			begin, end = []string{"XA START " + xid}, []string{"XA END " + xid, "XA COMMIT " + xid + " ONE PHASE"}
		case 1:
			begin, end = []string{"XA START " + xid}, []string{"XA END " + xid, "XA PREPARE " + xid, "DO SLEEP(0." + strconv.Itoa(r.IntN(3)) + ")", "XA COMMIT " + xid}
			if r.IntN(3) == 0 {
				end[3] = "XA ROLLBACK " + xid
			}
		case 2:
			begin, end = []string{"SET autocommit = 1"}, nil
		}
		statements := append([]string{"USE " + database,
			"SET SESSION sql_mode = " + []string{"''", "'NO_AUTO_VALUE_ON_ZERO'", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"}[r.IntN(3)],
			"SET SESSION time_zone = " + []string{"'+00:00'", "'+05:30'", "'-11:00'"}[r.IntN(3)],
			fmt.Sprintf("SET SESSION binlog_transaction_compression = %d", r.IntN(2)),
			fmt.Sprintf("SET SESSION binlog_rows_query_log_events = %d", r.IntN(2))}, begin...)
		for i := range 1 + r.IntN(6) {
			statements = append(statements, tables[r.IntN(len(tables))].statement(r))
			if begin[0] == "BEGIN" && r.IntN(8) == 0 {
				statements = append(statements, fmt.Sprintf("SAVEPOINT s%d", i), tables[r.IntN(len(tables))].statement(r), fmt.Sprintf("ROLLBACK TO SAVEPOINT s%d", i))
			}
		}
		for _, q := range append(statements, end...) {
			_, err := conn.ExecContext(context.Background(), q)
			if err == nil {
				continue
			}
			var known bool
			// Values that another sql_mode or time zone refuses, unique keys, deadlocks and the
			// wait for a lock: the statement, or the transaction, did not happen.
			switch mysqlconn.Number(err) {
			case 1048, 1062, 1213, 1205, 1292, 1264, 1265, 1406, 1690, 1366, 1441, 1614, 1402, 1399, 3140, 3156, 1411, 3903:
				known = true
			}
			if !known && !mysqlconn.IsConnectionLost(err) {
				t.Errorf("%.300s: %v", q, err)
			}
			discard(conn)
			conn = nil
			if len(end) == 4 {
				forgetXA(t, xid)
			}
			break
		}
		if conn != nil && (len(end) == 0 || end[0] != "ROLLBACK") {
			committed.Add(1)
		}
	}
}

// forgetXA takes a distributed transaction back that may have been prepared: it would keep its locks.
func forgetXA(t testing.TB, xid string) {
	ctx := within(t, time.Minute)
	for sleep(ctx, 10*time.Millisecond) {
		_, err := world.legacy.ExecContext(ctx, "XA ROLLBACK "+xid)
		const unknown = 1397 // also one that was never prepared
		if err == nil || mysqlconn.Number(err) == unknown {
			return
		}
	}
	t.Errorf("XA ROLLBACK %s did not end", xid)
}

// Random tables, random transactions of four sessions, and kills at random instants of the worker, its
// connections, the target and the source: in the end both sides have the same rows. A handful of
// rounds, or as many as fit into ten minutes with VIFL_TEST_LONG=1; VIFL_STREAM_SEED repeats a run's
// tables and statements, though not its instants.
func TestRandomTablesUnderRandomKills(t *testing.T) {
	seed, rounds, until := rand.Uint64(), 2, time.Now().Add(time.Hour)
	if os.Getenv("VIFL_TEST_LONG") != "" {
		rounds, until = 1_000_000, time.Now().Add(10*time.Minute)
	}
	if s := os.Getenv("VIFL_STREAM_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("VIFL_STREAM_SEED: %v", err)
		}
	}
	var cards schematest.Deck
	var committed atomic.Int64
	found, kills := 0, map[string]int{}
	for round := uint64(0); round < uint64(rounds) && time.Now().Before(until) && !t.Failed(); round++ {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Logf("VIFL_STREAM_SEED=%d", seed)
			r := rand.New(rand.NewPCG(seed, round))
			var tables []*randomTable
			definitions := []string{"SET SESSION sql_mode = ''"}
			for i := range 3 {
				tb := newRandomTable(r, &cards, fmt.Sprintf("t%d", i))
				tables, definitions = append(tables, tb), append(definitions, tb.create)
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(definitions, ";\n"))
				}
			})
			o := options()
			o.Takeover, o.Connections, o.Limit = 150*time.Millisecond, 1+3*r.IntN(2), 100_000
			run := begun(t, o, definitions...)
			run.stop(nil)
			run.faults = true
			run.start()

			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			var writers sync.WaitGroup
			for i := range 4 {
				writers.Go(func() {
					randomWriter(ctx, t, rand.New(rand.NewPCG(seed, round*10+uint64(i)+1000)), i, tables, &committed)
				})
			}
			// Every other round without the servers' restarts, which take most of its time.
			kinds := []string{"worker", "connection", "connection", "stop", "target", "source"}
			if round%2 == 0 {
				kinds = kinds[:4]
			}
			chaos := rand.New(rand.NewPCG(rand.Uint64(), round))
			for ctx.Err() == nil {
				sleep(ctx, time.Duration(chaos.IntN(400))*time.Millisecond)
				what := kinds[chaos.IntN(len(kinds))]
				kills[what]++
				t.Logf("%s %s", time.Now().UTC().Format("15:04:05.000"), what)
				switch what {
				case "worker":
					run.stop(errAbandoned)
					run.start()
				case "connection":
					killConnections(t, chaos)
				case "stop":
					if err := run.stream.StopAt(within(t, time.Minute), end(t)); err != nil {
						if errors.Is(err, stream.ErrPassed) {
							t.Logf("StopAt: %v", err)
						} else {
							t.Errorf("StopAt: %v", err)
						}
					}
					if err := run.stream.Resume(within(t, time.Minute)); err != nil {
						t.Errorf("Resume: %v", err)
					}
				case "target":
					powerCut(t, world.target)
				case "source":
					powerCut(t, world.source)
				}
			}
			writers.Wait()
			run.stopAtEnd()
			for _, tb := range tables {
				want, got := tb.content(t, world.legacy), tb.content(t, world.landing)
				found += len(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s\n%s", tb.create, difference(want, got))
				}
				// The source's own counter is further: ids of rows that were taken back or ignored
				// are in no binlog. A cutover sets the target's past it.
				if greatest := tb.greatest(t, world.legacy); tb.counts && len(want) > 0 && tb.counter(t, world.landing) <= greatest {
					t.Errorf("%s\nthe target's AUTO_INCREMENT is not past %d, which a row has", tb.create, greatest)
				}
			}
		})
	}
	t.Logf("%d transactions committed, %d rows in the end; %v", committed.Load(), found, kills)
	if !t.Failed() && (committed.Load() < 50 || found < 20) {
		t.Errorf("VIFL_STREAM_SEED=%d: %d transactions and %d rows prove too little", seed, committed.Load(), found)
	}
}

func powerCut(t testing.TB, s *mysqld.Server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Errorf("killing %s: %v", s.Name(), err)
	}
	if err := s.Restart(within(t, time.Minute)); err != nil {
		t.Errorf("starting %s again: %v", s.Name(), err)
	}
}

// difference lists what only one of two sorted lists has.
func difference(want, got []string) string {
	var out []string
	for _, s := range want {
		if _, ok := slices.BinarySearch(got, s); !ok {
			out = append(out, "only the source has "+s)
		}
	}
	for _, s := range got {
		if _, ok := slices.BinarySearch(want, s); !ok {
			out = append(out, "only the target has "+s)
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("the source has %d rows, the target %d, all of them alike", len(want), len(got))
	}
	return strings.Join(out[:min(len(out), 6)], "\n")
}
