package load

import (
	"fmt"

	"github.com/vifl/vifl/pkg/load/ledger"
	"github.com/vifl/vifl/pkg/shardid"
)

// state is what a row is like.
type state struct {
	present bool
	version uint32
	digest  uint64
}

func (s state) String() string {
	if !s.present {
		return "no row"
	}
	return fmt.Sprintf("version %d, digest %016x", s.version, s.digest)
}

// entry is what the ledger says about one row: the state after the last write that had or
// may have had an effect, and what the legacy servers were left with.
type entry struct {
	key string
	now state
	// before is the state that the row is in if the last write, whose outcome is unknown,
	// was not committed. Equal to now when the outcome is known.
	before state
	// legacy is the state after the last write that a legacy server acknowledged. Meaningful
	// when the last write went elsewhere.
	legacy    state
	unknown   bool
	onVitess  bool // where the last write went
	rolled    bool // the last thing tried on it was rolled back or refused
	id        uint64
	lastAcked string // endpoint, for messages
}

// group is one table of one shard.
type group struct {
	shard shardid.ID
	table *table
}

// book is a whole ledger, replayed: one entry per key.
type book struct {
	where func(shardid.ID, string) (kind placeKind, known bool)

	entries map[group]map[string]*entry
	ids     map[group][]uint64 // AUTO_INCREMENT values acknowledged
	pending map[int]*ledger.Attempt
	// servers are the server_uuids that answered at each endpoint.
	servers map[string]map[string]bool
	counts  LedgerCounts
	strange []Problem
}

// LedgerCounts is what a ledger holds. All but Runs count writes of single rows.
type LedgerCounts struct {
	Runs       int `json:"runs"`
	Acked      int `json:"acked"`
	Legacy     int `json:"acked_by_legacy"`
	Vitess     int `json:"acked_by_vitess"`
	Unknown    int `json:"unknown"`
	Refused    int `json:"refused"`
	RolledBack int `json:"rolled_back"`
	// Keys are the rows that were written or tried to.
	Keys int `json:"keys"`
}

type placeKind int

const (
	onLegacy placeKind = iota
	onVitess
)

func newBook(where func(shardid.ID, string) (placeKind, bool)) *book {
	return &book{
		where: where, entries: map[group]map[string]*entry{}, ids: map[group][]uint64{}, pending: map[int]*ledger.Attempt{}, servers: map[string]map[string]bool{},
	}
}

// read replays a ledger file.
func (b *book) read(path string) error {
	if err := ledger.Read(path, b.record); err != nil {
		return err
	}
	if b.counts.Runs == 0 {
		return fmt.Errorf("ledger %s: found no run in it", path)
	}
	return b.cutOff()
}

func (b *book) record(r ledger.Record) error {
	switch {
	case r.Run != nil:
		b.counts.Runs++
		return b.cutOff() // the run before died
	case r.Begin != nil:
		if b.pending[r.Begin.Writer] != nil {
			return fmt.Errorf("writer %d begins attempt %d before its last one ended", r.Begin.Writer, r.Begin.N)
		}
		b.pending[r.Begin.Writer] = r.Begin
		return nil
	}
	a := b.pending[r.End.Writer]
	if a == nil || a.N != r.End.N {
		return fmt.Errorf("writer %d ends attempt %d, which it has not begun", r.End.Writer, r.End.N)
	}
	delete(b.pending, r.End.Writer)
	return b.apply(a, r.End.Outcome, r.End.IDs)
}

// cutOff takes attempts that never ended as unknown.
func (b *book) cutOff() error {
	for w, a := range b.pending {
		delete(b.pending, w)
		outcome := ledger.Unknown
		if a.Rollback {
			outcome = ledger.Refused // no COMMIT was to be sent
		}
		if err := b.apply(a, outcome, nil); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) apply(a *ledger.Attempt, outcome ledger.Outcome, ids []uint64) error {
	kind, known := b.where(a.Shard, a.Endpoint)
	effective := outcome == ledger.Acked || outcome == ledger.Unknown
	if !known && effective {
		b.strange = append(b.strange, Problem{
			Kind: WrongPlace, Shard: a.Shard, Server: a.Endpoint, Key: fmt.Sprintf("team %d", a.Team),
			Found: fmt.Sprintf("a write (%s) at %s", outcome, a.Endpoint), Expected: "writes at the servers of this shard only",
		})
	}
	if b.servers[a.Endpoint] == nil {
		b.servers[a.Endpoint] = map[string]bool{}
	}
	b.servers[a.Endpoint][a.Server] = true
	for i, fx := range a.Effects {
		t := tableNamed(fx.Table)
		if t == nil {
			return fmt.Errorf("found table %q, which the load does not write to", fx.Table)
		}
		g := group{a.Shard, t}
		if b.entries[g] == nil {
			b.entries[g] = map[string]*entry{}
		}
		e := b.entries[g][fx.Key]
		if e == nil {
			e = &entry{key: fx.Key}
			b.entries[g][fx.Key] = e
			b.counts.Keys++
		}
		if e.unknown {
			return fmt.Errorf("%s %s is written again after a write of unknown outcome", fx.Table, fx.Key)
		}
		b.count(outcome, kind)
		e.rolled = !effective
		if !effective {
			continue
		}
		e.before, e.now = e.now, state{fx.Act != ledger.Delete, fx.Version, fx.Digest}
		e.unknown = outcome == ledger.Unknown
		if !e.unknown {
			e.before = e.now
		}
		e.onVitess, e.lastAcked = kind == onVitess, a.Endpoint
		if kind == onLegacy {
			e.legacy = e.now
		}
		if i < len(ids) && ids[i] != 0 {
			e.id = ids[i]
			// The id of a write whose reply was lost was not acknowledged: where a failover lost
			// the write, the next primary gives it again.
			if outcome == ledger.Acked {
				b.ids[g] = append(b.ids[g], ids[i])
			}
		}
	}
	return nil
}

func (b *book) count(outcome ledger.Outcome, kind placeKind) {
	switch outcome {
	case ledger.Acked:
		b.counts.Acked++
		if kind == onVitess {
			b.counts.Vitess++
		} else {
			b.counts.Legacy++
		}
	case ledger.Unknown:
		b.counts.Unknown++
	case ledger.Refused:
		b.counts.Refused++
	case ledger.RolledBack:
		b.counts.RolledBack++
	}
}
