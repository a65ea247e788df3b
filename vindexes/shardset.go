package vindexes

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/shardid"
)

// shardSet is a set of legacy shards.
type shardSet [1 << 16 / 64]uint64

// parseShards reads numbers and ranges, both ends included: 0123, 0200-0299.
func parseShards(s string) (*shardSet, error) {
	set := new(shardSet)
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		first, err := shardid.Parse(from)
		if err != nil {
			return nil, err
		}
		last, err := shardid.Parse(to)
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("found the range %s-%s, expected the lower number first", first, last)
		}
		for n := int(first); n <= int(last); n++ {
			set[n/64] |= 1 << (n % 64)
		}
	}
	return set, nil
}

func (s *shardSet) has(id shardid.ID) bool { return s[id/64]&(1<<(id%64)) != 0 }
