package position

import (
	"errors"
	"testing"
)

func TestCompareFileNumbersAsNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"binlog.000001:4", "binlog.000001:4", 0},
		{"binlog.000001:5", "binlog.000001:40", -1},
		{"binlog.999999:900", "binlog.1000000:4", -1}, // as text the other way round
		{"binlog.000010:4", "binlog.000009:900", 1},
		{"host-a.bin.000002:4", "host-a.bin.000001:4", 1},
	} {
		a, err := Parse("u", c.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse("u", "FilePos/"+c.b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Compare(a, b); err != nil || got != c.want {
			t.Errorf("Compare(%s, %s) = %d, %v, want %d", a, b, got, err, c.want)
		}
	}
}

func TestCompareRefusesOtherServersAndBasenames(t *testing.T) {
	a := FilePos{"u1", "binlog.000001", 4}
	for _, b := range []FilePos{{"u2", "binlog.000001", 4}, {"u1", "mysql-bin.000001", 4}} {
		if _, err := Compare(a, b); !errors.Is(err, ErrNotComparable) {
			t.Errorf("Compare(%v, %v): %v, want ErrNotComparable", a, b, err)
		}
	}
}

func TestParseRefusesHalfPositions(t *testing.T) {
	for _, s := range []string{"", "binlog.000001", ":4", "binlog:4", "binlog.000001:", "binlog.000001:-1", "binlog.x:4"} {
		if p, err := Parse("u", s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, p)
		}
	}
}
