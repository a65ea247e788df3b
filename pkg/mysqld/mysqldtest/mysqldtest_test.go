package mysqldtest

import (
	"testing"
)

// TestPairReplicatesBothWays: what either side writes arrives at the other, and ids that
// both hand out never meet.
func TestPairReplicatesBothWays(t *testing.T) {
	t.Parallel()
	a, b := Pair(t, Options{})
	Exec(t, a, "CREATE DATABASE d", "CREATE TABLE d.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, side CHAR(1))")
	CaughtUp(t, b, a)
	Exec(t, a, "INSERT INTO d.t (side) VALUES ('a'), ('a')")
	Exec(t, b, "INSERT INTO d.t (side) VALUES ('b'), ('b')")
	CaughtUp(t, b, a)
	CaughtUp(t, a, b)
	for _, s := range []string{"a", "b"} {
		srv := a
		if s == "b" {
			srv = b
		}
		var got string
		q := "SELECT GROUP_CONCAT(side ORDER BY id) FROM d.t WHERE (id % 2 = 1) = (side = 'a')"
		if err := Open(t, srv).QueryRow(q).Scan(&got); err != nil || len(got) != 7 {
			t.Errorf("side %s: found rows %q, %v; expected four, odd ids from a and even ones from b", s, got, err)
		}
		var gtid, format string
		if err := Open(t, srv).QueryRow("SELECT @@gtid_mode, @@binlog_format").Scan(&gtid, &format); err != nil || gtid != "OFF" || format != "ROW" {
			t.Errorf("side %s: found gtid_mode %s, binlog_format %s, %v", s, gtid, format, err)
		}
	}
}
