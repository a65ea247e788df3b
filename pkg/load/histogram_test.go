package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsHoldWhatTheirCeilingSays(t *testing.T) {
	for us := range int64(100_000) {
		d := time.Duration(us) * time.Microsecond
		b := bucket(d)
		if c := ceiling(b); c < d || (b > 0 && ceiling(b-1) >= d) {
			t.Fatalf("%v is in bucket %d up to %v, the one before goes to %v", d, b, c, ceiling(b-1))
		}
	}
	if b := bucket(1 << 62); b >= len(histogram{}.buckets) {
		t.Fatalf("bucket %d", b)
	}
}

func TestQuantilesAreAtMostASixteenthTooHigh(t *testing.T) {
	var h histogram
	var all []time.Duration
	for range 5000 {
		d := time.Duration(rand.ExpFloat64()*5e6) * time.Nanosecond
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		exact := all[min(int(q*5000), 4999)]
		if got := h.quantile(q); got < exact-time.Microsecond || got > exact+exact/16+time.Microsecond {
			t.Errorf("quantile %v = %v, exactly %v", q, got, exact)
		}
	}
	if h.quantile(1) != all[4999] || (&histogram{}).quantile(0.5) != 0 {
		t.Error("the longest, or the quantile of nothing")
	}
}
