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
		{"values", values},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, l) })
	}
}
