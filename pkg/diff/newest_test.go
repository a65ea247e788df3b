package diff

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// testNewest: what differs among the newest rows is found, once, whatever the two sides'
// windows of newest rows hold.
func testNewest(t *testing.T, s servers) {
	s.fresh(t, "newest")
	var tables []string
	for i := range 20 {
		tables = append(tables, fmt.Sprintf("CREATE TABLE t%02d (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))", i), fmt.Sprintf(numbers, fmt.Sprintf("t%02d", i), 1000, "i, i"))
	}
	tables = append(tables, "CREATE TABLE byname (name VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, n INT NOT NULL AUTO_INCREMENT, v INT, PRIMARY KEY (name), KEY (n))", fmt.Sprintf(numbers, "byname", 1000, "LEFT(SHA2(i, 224), 20), i, i"))
	tables = append(tables, "CREATE TABLE unikey (v INT, n INT NOT NULL AUTO_INCREMENT, k VARCHAR(20) NOT NULL, UNIQUE KEY name (k DESC), KEY (n))", fmt.Sprintf(numbers, "unikey", 1000, "i, i, LPAD(i, 5, '0')"))
	s.both(t, "newest", tables...)
	script(t, s.b, "newest", []string{
		"UPDATE t03 SET v = 'x' WHERE id = 950", "UPDATE t03 SET v = 'x' WHERE id = 5", // the second is not among the newest
		"DELETE FROM t04 WHERE id = 1000", "INSERT INTO t05 VALUES (2000, 'more'), (2001, 'more')", "DELETE FROM t06 WHERE id = 901",
		"UPDATE byname SET v = 0 WHERE n = 990",
		// The last by the key, and the last by the counter; 500 is neither.
		"UPDATE unikey SET v = 0 WHERE k = '00030'", "UPDATE unikey SET v = 0 WHERE n = 930", "UPDATE unikey SET v = 0 WHERE n = 500", "DELETE FROM unikey WHERE n = 950",
	})
	pool := func(srv int) Pool {
		return Pool{Name: s.at(srv).Name(), Database: "newest", DB: mysqldtest.Open(t, s.at(srv))}
	}
	a, b := pool(0), pool(1)
	side := plainSide(t, s.a, "newest", 1)
	sch := readSchema(t, side.Conns[0], "newest")
	start := time.Now()
	r, err := Newest(context.Background(), a, []Pool{b, a}, sch, 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("newest 100 rows of 22 tables, two targets: %s", time.Since(start))
	var name string
	if err := a.DB.QueryRow("SELECT name FROM newest.byname WHERE n = 990").Scan(&name); err != nil {
		t.Fatal(err)
	}
	want(t, r.Targets[0], "t03 950 changed", "t04 1000 missing", "t05 2000 extra", "t05 2001 extra", "t06 901 missing", "byname "+name+" changed",
		"unikey 00030 changed", "unikey 00930 changed", "unikey 00950 missing")
	want(t, r.Targets[1])
	if r.Rows < 2100 {
		t.Errorf("only %d rows were looked at", r.Rows)
	}
}
