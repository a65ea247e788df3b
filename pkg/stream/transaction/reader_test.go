package transaction_test

import "testing"

// TestReader has one server, whose binlog every part of the test reads from where the part
// began: what the others did is other databases' traffic.
func TestReader(t *testing.T) {
	t.Parallel()
	l := startLegacy(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *legacy)
	}{
		{"values", values}, {"passes", passes}, {"blocks", blocks}, {"parts", parts}, {"xa over connections", xaOverConnections}, {"connections", connections},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, l) })
	}
}

// TestGTIDs: events that name transactions mean nothing to a reader by file and position.
func TestGTIDs(t *testing.T) {
	t.Parallel()
	l := startLegacy(t, "enforce_gtid_consistency=ON", "gtid_mode=ON")
	fresh(t, l)
	from := l.end(t)
	l.run(t, insert, "set gtid_next='aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:some_tag:1'", insert, "set gtid_next='aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1'", "begin", "commit", "set gtid_next=automatic",
		"flush binary logs", insert, "set binlog_transaction_compression=on", insert)
	parts, err := l.read(t, l.reader("slack"), from, l.end(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := l.target(t).apply(parts); n != 4 {
		t.Errorf("found %d changes", n)
	}
	l.same(t, "slack")
}
