package vindexes

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

// answer is what mains said of a team.
type answer struct {
	shard shardid.ID
	// asked is when the look-up began, since the cache was made. The answer is no younger:
	// mains may have changed right behind the read, while the reply was on its way.
	asked time.Duration
}

// cache keeps a bounded number of teams' answers, 21 bytes a team. Reads take no lock and
// write nothing, so that goroutines that ask for the same team do not slow each other down,
// and touch one cache line. Writes need a lock of the caller's.
type cache struct {
	sets  []cacheSet
	shift uint
}

// ways is how many teams share a set: as many as fit in a cache line beside the version. A
// set that is full loses its oldest.
const ways = 3

// cacheSet is a cache line. Its version is odd while the set is written: a reader that finds
// it odd, or changed since it began, reads again. Comparing the team before and after would
// not do: it may have been replaced and have come back, with another's answer in between.
type cacheSet struct {
	version atomic.Uint64
	slots   [ways]struct {
		team  atomic.Uint64
		value atomic.Uint64 // 0: empty; else the milliseconds of asked, plus one, and 16 bits of shard
	}
	_ uint64
}

// newCache makes a cache for at least that many teams.
func newCache(teams int) *cache {
	sets := 1
	for sets*ways < teams {
		sets *= 2
	}
	return &cache{sets: make([]cacheSet, sets), shift: uint(64 - bits.Len(uint(sets-1)))}
}

// set is where a team's answer can be. The multiplier (2^64 over the golden ratio) spreads
// ids that follow one another.
func (c *cache) set(team uint64) *cacheSet {
	return &c.sets[team*0x9e3779b97f4a7c15>>c.shift]
}

// get is the answer for a team; false when there is none.
func (c *cache) get(team uint64) (answer, bool) {
	set := c.set(team)
	for {
		version := set.version.Load()
		var value uint64
		for i := range set.slots {
			if set.slots[i].team.Load() == team {
				if value = set.slots[i].value.Load(); value != 0 {
					break
				}
			}
		}
		if version&1 == 0 && set.version.Load() == version {
			// Rounded down: an answer may be taken for older than it is, not for younger.
			return answer{shard: shardid.ID(value), asked: (time.Duration(value>>16) - 1) * time.Millisecond}, value != 0
		}
	}
}

// put replaces the team's answer, or fills an empty slot, or replaces the oldest of its set.
func (c *cache) put(team uint64, a answer) {
	set := c.set(team)
	victim := -1
	for i := range set.slots {
		value := set.slots[i].value.Load()
		if value != 0 && set.slots[i].team.Load() == team {
			victim = i
			break
		}
		if victim < 0 || value>>16 < set.slots[victim].value.Load()>>16 {
			victim = i
		}
	}
	set.version.Add(1)
	set.slots[victim].team.Store(team)
	set.slots[victim].value.Store(uint64(a.asked/time.Millisecond+1)<<16 | uint64(a.shard))
	set.version.Add(1)
}

// remove forgets a team.
func (c *cache) remove(team uint64) {
	set := c.set(team)
	for i := range set.slots {
		if set.slots[i].team.Load() == team {
			set.version.Add(1)
			set.slots[i].value.Store(0)
			set.version.Add(1)
		}
	}
}
