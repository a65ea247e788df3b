package vindexes

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

// Against a plain map: what is found is what was put last, and nothing is found that was
// removed. What was put may be missing once the bound was reached.
func TestCacheAgreesWithAMap(t *testing.T) {
	for _, most := range []int{1, 2, 50, 1000, 1 << 20} {
		c, want := newCache(most), map[uint64]answer{}
		random := rand.New(rand.NewPCG(1, uint64(most)))
		missing := 0
		for i := range 20000 {
			team := random.Uint64N(3000) * (1 << random.UintN(3) * 20)
			switch random.UintN(4) {
			case 0:
				c.remove(team)
				delete(want, team)
			case 1, 2:
				a := answer{shard: shardid.ID(random.Uint32()), asked: time.Duration(i) * time.Millisecond}
				c.put(team, a)
				want[team] = a
				if found, ok := c.get(team); !ok || found != a {
					t.Fatalf("at most %d: team %d: found %v (%v), expected %v, which was just put", most, team, found, ok, a)
				}
			}
			found, ok := c.get(team)
			a, known := want[team]
			if ok && (!known || found != a) {
				t.Fatalf("at most %d: team %d: found %v, expected %v (%v)", most, team, found, a, known)
			}
			if known && !ok {
				missing++
			}
			if c.count > most {
				t.Fatalf("found %d teams, expected %d at most", c.count, most)
			}
		}
		if most == 1<<20 && missing > 0 {
			t.Errorf("found %d answers missing although there was room", missing)
		}
	}
}

// Readers beside a writer find a team's own answer or none, also while the table is renewed.
func TestCacheReadersNeverFindAnothersAnswer(t *testing.T) {
	c := newCache(500)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for g := range 4 {
		readers.Go(func() {
			for team := uint64(g); ; team = (team + 1) % 2000 {
				if a, ok := c.get(team); ok && a.shard != shardid.ID(team) {
					t.Errorf("team %d: found shard %s", team, a.shard)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range uint64(50000) {
		team := i * 7 % 2000
		c.put(team, answer{shard: shardid.ID(team), asked: time.Duration(i) * time.Millisecond})
		if i%3 == 0 {
			c.remove(team)
		}
	}
	close(done)
	readers.Wait()
}
