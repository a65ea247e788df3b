package load

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that grow with them: 16 to each doubling, so that
// a quantile is at most 1/16 too high. It takes 4 KB however long the load runs.
type histogram struct {
	buckets [64 * 16]uint32
	count   uint64
	max     time.Duration
}

func bucket(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 16 {
		return int(us)
	}
	shift := bits.Len64(us) - 5
	return (shift+1)<<4 | int(us>>shift&15)
}

// ceiling is the longest duration of a bucket.
func ceiling(b int) time.Duration {
	if b < 16 {
		return time.Duration(b) * time.Microsecond
	}
	shift := b>>4 - 1
	return time.Duration(uint64(16+b&15+1)<<shift-1) * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucket(d)]++
	h.count++
	h.max = max(h.max, d)
}

// quantile is the duration that the share q of all did not exceed, 0 when there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.count))
	var seen uint64
	for b, n := range h.buckets {
		if seen += uint64(n); n > 0 && seen > rank {
			return min(ceiling(b), h.max)
		}
	}
	return h.max
}
