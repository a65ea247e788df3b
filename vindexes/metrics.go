package vindexes

import (
	"strings"
	"sync"
	"sync/atomic"

	"vitess.io/vitess/go/stats"
)

// What the vindexes count, in Vitess' own registry (/debug/vars, /metrics). docs/vindexes.md
// lists them. Vindex is the name that the vschema gives the vindex.
var (
	refusedValues = stats.NewCountersWithMultiLabels("ViflVindexRefused",
		"values that a vindex does not take, such as words where ids are expected", []string{"Vindex"})
	lookupCounts = stats.NewCountersWithMultiLabels("ViflLegacyShardLookups",
		"teams that were not in the cache, by what came of it", []string{"Vindex", "Outcome"})
	lookupTimes = stats.NewMultiTimings("ViflLegacyShardLookupTimes",
		"how long mains took to answer a look-up", []string{"Vindex"})
	_ = stats.NewCountersFuncWithMultiLabels("ViflLegacyShardHits",
		"teams that were found in the cache", []string{"Vindex"}, hitCounts.all)
	mapTeams = stats.NewGaugesWithMultiLabels("ViflTeamMapTeams",
		"teams in the loaded team map", []string{"File"})
	mapCreated = stats.NewGaugesWithMultiLabels("ViflTeamMapCreated",
		"when mains was read for the loaded team map, in seconds since 1970", []string{"File"})
	mapLoads = stats.NewCountersWithMultiLabels("ViflTeamMapLoads",
		"how often a team map was read, by what came of it", []string{"File", "Outcome"})
)

// Outcomes of a team that was not in the cache.
const (
	outcomeFound     = "found"     // mains was asked and knows the team
	outcomeUnknown   = "unknown"   // mains was asked and does not know the team
	outcomeError     = "error"     // mains could not be asked, or its answer makes no sense
	outcomeShared    = "shared"    // another query was asking already; its answer was used
	outcomeAbandoned = "abandoned" // the query that asked was given up by its client
	outcomeKept      = "kept"      // an early refresh failed; the cached answer is still good
)

// hits counts, for each vindex, without the vindexes' goroutines waiting for one another.
type hits struct {
	mu     sync.Mutex
	byName map[string]*stripes
}

var hitCounts = hits{byName: map[string]*stripes{}}

// stripes are counters far enough apart to be in cache lines of their own.
type stripes [16]struct {
	n atomic.Int64
	_ [56]byte
}

func (h *hits) of(name string) *stripes {
	name = strings.ReplaceAll(name, ".", "_") // the registry parts labels by dots
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.byName[name]
	if !ok {
		s = new(stripes)
		h.byName[name] = s
	}
	return s
}

// add counts n hits; spread is anything that differs between queries.
func (s *stripes) add(spread uint64, n int64) { s[spread%uint64(len(s))].n.Add(n) }

func (s *stripes) sum() int64 {
	var n int64
	for i := range s {
		n += s[i].n.Load()
	}
	return n
}

func (h *hits) all() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[string]int64, len(h.byName))
	for name, s := range h.byName {
		counts[name] = s.sum()
	}
	return counts
}
