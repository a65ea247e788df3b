package vindexes

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// ways is how many entries share a set of the cache. Four keep a cache that is nearly full
// from throwing out what is used.
const ways = 4

// entry is what mains said of a team. It never changes once it is in the cache.
type entry struct {
	team uint64
	ksid [prefixSize + hashSize]byte
	// asked is when the look-up began, since the cache was made. The answer is no younger:
	// mains may have changed right behind the read, while the reply was on its way.
	asked time.Duration
}

// cache keeps a bounded number of entries. Reads take no lock and write nothing, so that
// goroutines that ask for the same team do not slow each other down. Writes need a lock of
// the caller's.
type cache struct {
	slots []atomic.Pointer[entry] // sets of ways, one behind the other
	shift uint
}

// newCache makes a cache for at least that many entries.
func newCache(entries int) *cache {
	sets := 1
	for sets*ways < entries {
		sets *= 2
	}
	return &cache{slots: make([]atomic.Pointer[entry], sets*ways), shift: uint(64 - bits.Len(uint(sets-1)))}
}

// set is where a team's entry can be. The multiplier (2^64 over the golden ratio) spreads
// ids that follow one another.
func (c *cache) set(team uint64) []atomic.Pointer[entry] {
	at := int(team*0x9e3779b97f4a7c15>>c.shift) * ways
	return c.slots[at : at+ways : at+ways]
}

// get is the entry of a team, nil when there is none.
func (c *cache) get(team uint64) *entry {
	set := c.set(team)
	for i := range set {
		if e := set[i].Load(); e != nil && e.team == team {
			return e
		}
	}
	return nil
}

// put replaces the team's entry, or the oldest of its set.
func (c *cache) put(e *entry) {
	set := c.set(e.team)
	victim := 0
	for i := range set {
		old := set[i].Load()
		if old == nil || old.team == e.team {
			victim = i
			break
		}
		if old.asked < set[victim].Load().asked {
			victim = i
		}
	}
	set[victim].Store(e)
}

// remove forgets a team. What comes behind it in the set moves up: put takes the first empty
// place, and must not find it before the team's own.
func (c *cache) remove(team uint64) {
	set := c.set(team)
	for i := range set {
		if e := set[i].Load(); e != nil && e.team == team {
			for ; i < ways-1; i++ {
				set[i].Store(set[i+1].Load())
			}
			set[ways-1].Store(nil)
			return
		}
	}
}
