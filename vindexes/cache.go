package vindexes

import (
	"math/bits"
	"slices"
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

// cache keeps a bounded number of teams' answers, in 22 to 43 bytes each. Reads take no lock
// and write nothing, so that goroutines that ask for the same team do not slow each other
// down, and mostly touch one cache line. Writes need a lock of the caller's.
type cache struct {
	table atomic.Pointer[table]
	most  int // teams
	count int // slots taken, also by teams that were forgotten
}

// table is a hash table with linear probing. A slot that has a team keeps it: only a new
// table leaves teams out. So whoever finds the team reads an answer for that team, although
// team and value are two words.
type table struct {
	slots []slot
	shift uint
}

type slot struct {
	team atomic.Uint64
	// value is 0 while the slot is empty, forgotten for a team that has no answer any more,
	// else the milliseconds of asked, plus one, and 16 bits of shard. It is written behind the
	// team: who sees it sees the team.
	value atomic.Uint64
}

const (
	forgotten = 1
	// firstSlots is what a cache begins with: one that is used by few stays small.
	firstSlots = 1 << 10
)

func newTable(slots int) *table {
	return &table{slots: make([]slot, slots), shift: uint(64 - bits.Len(uint(slots-1)))}
}

// newCache makes a cache for that many teams at most.
func newCache(most int) *cache {
	c := &cache{most: most}
	c.table.Store(newTable(firstSlots))
	return c
}

// home is where the search for a team begins. The multiplier (2^64 over the golden ratio)
// spreads ids that follow one another.
func (t *table) home(team uint64) int { return int(team * 0x9e3779b97f4a7c15 >> t.shift) }

// find is the team's slot, or the empty one that it would get, and the value there. There is
// always an empty one: tables are never more than three quarters full.
func (t *table) find(team uint64) (*slot, uint64) {
	for at := t.home(team); ; at = (at + 1) & (len(t.slots) - 1) {
		s := &t.slots[at]
		value := s.value.Load()
		if value == 0 || s.team.Load() == team {
			return s, value
		}
	}
}

// get is the answer for a team; false when there is none.
func (c *cache) get(team uint64) (answer, bool) {
	_, value := c.table.Load().find(team)
	if value <= forgotten {
		return answer{}, false
	}
	// Rounded down: an answer may be taken for older than it is, not for younger.
	return answer{shard: shardid.ID(value), asked: time.Duration(value>>16-1) * time.Millisecond}, true
}

// put keeps the team's answer.
func (c *cache) put(team uint64, a answer) {
	t := c.table.Load()
	if (c.count+1)*4 > len(t.slots)*3 || c.count >= c.most {
		t = c.renew(t)
	}
	s, old := t.find(team)
	if old == 0 {
		s.team.Store(team)
		c.count++
	}
	s.value.Store(uint64(a.asked/time.Millisecond+1)<<16 | uint64(a.shard))
}

// remove forgets a team.
func (c *cache) remove(team uint64) {
	if s, value := c.table.Load().find(team); value != 0 {
		s.value.Store(forgotten)
	}
}

// renew makes a table with room: a larger one, or, at the bound, one without the older half
// of the answers.
func (c *cache) renew(old *table) *table {
	oldest := uint64(0)
	if c.count >= c.most {
		oldest = old.median()
	}
	size := len(old.slots)
	if c.count < c.most {
		size *= 2
	}
	t := newTable(size)
	c.count = 0
	for i := range old.slots {
		value := old.slots[i].value.Load()
		if value <= forgotten || value>>16 <= oldest {
			continue
		}
		s, _ := t.find(old.slots[i].team.Load())
		s.team.Store(old.slots[i].team.Load())
		s.value.Store(value)
		c.count++
	}
	c.table.Store(t)
	return t
}

// median is the middle time of asking, of a sample. When all were asked at one time, nothing
// is younger than it: the cache begins anew.
func (t *table) median() uint64 {
	const sample = 1024
	var asked []uint64
	step := max(1, len(t.slots)/(2*sample))
	for i := 0; i < len(t.slots); i += step {
		if value := t.slots[i].value.Load(); value > forgotten {
			asked = append(asked, value>>16)
		}
	}
	if len(asked) == 0 {
		return 0
	}
	slices.Sort(asked)
	return asked[len(asked)/2]
}
