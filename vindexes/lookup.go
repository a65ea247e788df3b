package vindexes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"vitess.io/vitess/go/sqlescape"
	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vtgatepb "vitess.io/vitess/go/vt/proto/vtgate"
	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/shardid"
)

// teamsAQuery bounds the list of one look-up: a tablet refuses results of more than 10,000
// rows by default, and a statement of that length holds others up.
const teamsAQuery = 1000

// lookupParams are the parameters of a look-up. They are its identity: vindexes that are
// built anew with the same ones find the cache that the last one filled.
type lookupParams struct {
	vindex              string // its name in the vschema
	keyspace, table     string
	from, to            string
	staleness, timeout  time.Duration
	entries             int
	served              string // as given
	servedSet           *shardSet
	refreshAge, respite time.Duration
}

// key is the identity; what is derived from the rest is left out.
func (p lookupParams) key() lookupParams {
	p.servedSet = nil
	return p
}

// lookups are the look-ups in use, by parameters. The vindexes hold them; when the last one
// that does is gone (a vschema with other parameters took its place) the cache goes too.
var lookups = struct {
	sync.Mutex
	byParams map[lookupParams]weak.Pointer[lookup]
}{byParams: map[lookupParams]weak.Pointer[lookup]{}}

func lookupOf(p lookupParams) *lookup {
	lookups.Lock()
	defer lookups.Unlock()
	for params, w := range lookups.byParams {
		if w.Value() == nil {
			delete(lookups.byParams, params)
		}
	}
	if l := lookups.byParams[p.key()].Value(); l != nil {
		return l
	}
	l := &lookup{p: p}
	lookups.byParams[p.key()] = weak.Make(l)
	return l
}

// lookup asks mains for the shards of teams and remembers the answers.
type lookup struct {
	p lookupParams
	// A session's look-ups go to the kind of tablet that its other reads go to: what a
	// session on @replica gets may be behind mains by its replicas' lag. Sessions on the
	// primary must not get it from the cache.
	primary, replica atomic.Pointer[store]
}

// store is the memory for one kind of session.
type store struct {
	p     *lookupParams
	query string
	made  time.Time
	hits  *stripes
	cache *cache
	// noRefreshUntil is the time, since made, before which nobody refreshes early.
	noRefreshUntil atomic.Int64

	mu sync.Mutex // for writing to cache, and for flights
	// flights are the look-ups on their way, by team.
	flights map[uint64]*flight
}

// flight is one query to mains for some teams, each once. The fields behind done are written
// before done is closed.
type flight struct {
	teams   []uint64
	done    chan struct{}
	answers map[uint64]answer // a team that is not in it is unknown to mains
	err     error
	// abandoned: the client that asked went away, or may not ask. That says nothing of
	// mains, so those who waited ask for themselves, each with its own session.
	abandoned bool
}

// tableted is what vtgate's own cursor can say beyond the interface.
type tableted interface{ TabletType() topodatapb.TabletType }

// storeFor is the memory for the cursor's session.
func (l *lookup) storeFor(vcursor vtvindexes.VCursor) *store {
	at := &l.primary
	if t, ok := vcursor.(tableted); ok && t.TabletType() != topodatapb.TabletType_PRIMARY {
		at = &l.replica
	}
	if s := at.Load(); s != nil {
		return s
	}
	from, to := sqlescape.EscapeID(l.p.from), sqlescape.EscapeID(l.p.to)
	at.CompareAndSwap(nil, &store{
		p: &l.p, made: time.Now(), hits: hitCounts.of(l.p.vindex), cache: newCache(l.p.entries), flights: map[uint64]*flight{},
		query: fmt.Sprintf("select %s, %s from %s.%s where %s in ::teams", from, to, sqlescape.EscapeID(l.p.keyspace), sqlescape.EscapeID(l.p.table), from),
	})
	return at.Load()
}

// now is the time since the store was made, by the clock that nobody sets.
func (s *store) now() time.Duration { return time.Since(s.made) }

// cached is the answer for a team that is young enough; aging when it should be asked for
// again, so that a mains that is away for a moment is not noticed.
func (s *store) cached(team uint64, now time.Duration) (a answer, ok, aging bool) {
	a, ok = s.cache.get(team)
	if !ok || now-a.asked >= s.p.staleness {
		return answer{}, false, false
	}
	return a, true, now-a.asked >= s.p.refreshAge && int64(now) >= s.noRefreshUntil.Load()
}

// resolve gets the answers for teams: missing ones, which are needed, and aging ones, whose
// cached answers do as long as they are young enough. A team that mains does not know is not
// in the result; an aging one that was not refreshed has its cached answer.
func (s *store) resolve(ctx context.Context, vcursor vtvindexes.VCursor, missing []uint64, aging map[uint64]answer) (map[uint64]answer, error) {
	got := make(map[uint64]answer, len(missing)+len(aging))
	pending := missing
	for {
		mine, theirs := s.claim(pending, aging, got)
		var failed error
		if mine != nil {
			failed = s.fly(ctx, vcursor, mine)
			if failed == nil {
				maps.Copy(got, mine.answers)
			}
		}
		if failed != nil {
			if !mine.abandoned {
				s.noRefreshUntil.Store(int64(s.now() + s.p.respite))
			}
			return got, s.keepAging(failed, missing, aging, got)
		}
		aging = nil // asked for once; those of other flights are not waited for
		pending = pending[:0:0]
		for team, f := range theirs {
			if err := s.wait(ctx, f); err != nil {
				return nil, err
			}
			switch {
			case f.abandoned:
				pending = append(pending, team)
			case f.err != nil:
				return nil, f.err
			default:
				lookupCounts.Add([]string{s.p.vindex, outcomeShared}, 1)
				if a, ok := f.answers[team]; ok {
					got[team] = a
				}
			}
		}
		if len(pending) == 0 {
			return got, nil
		}
	}
}

// keepAging turns the failure of a look-up that was not necessary yet into none: the cached
// answers are used.
func (s *store) keepAging(failed error, missing []uint64, aging, got map[uint64]answer) error {
	if len(missing) > 0 {
		return failed
	}
	now := s.now()
	for team, a := range aging {
		if now-a.asked >= s.p.staleness {
			return failed // it took so long to fail that the answer is too old now
		}
		got[team] = a
	}
	lookupCounts.Add([]string{s.p.vindex, outcomeKept}, int64(len(aging)))
	return nil
}

// claim takes the teams that nobody asks for yet into a flight of the caller's own, and
// finds the flights of the others. It puts into got what is in the cache by now.
func (s *store) claim(pending []uint64, aging, got map[uint64]answer) (mine *flight, theirs map[uint64]*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := func(team uint64) {
		if mine == nil {
			mine = &flight{done: make(chan struct{})}
		}
		mine.teams = append(mine.teams, team)
		s.flights[team] = mine
	}
	now := s.now()
	for _, team := range pending {
		if f := s.flights[team]; f == mine && mine != nil {
			continue // twice in one list
		} else if f != nil {
			if theirs == nil {
				theirs = map[uint64]*flight{}
			}
			theirs[team] = f
		} else if a, ok, _ := s.cached(team, now); ok {
			got[team] = a // somebody's flight landed since
		} else {
			own(team)
		}
	}
	for team, a := range aging {
		if s.flights[team] == nil {
			own(team)
		} else {
			got[team] = a // somebody refreshes it already
		}
	}
	return mine, theirs
}

// fly asks mains for the flight's teams and lands it: whatever happens, also a panic in
// vtgate, those who wait are let go.
func (s *store) fly(ctx context.Context, vcursor vtvindexes.VCursor, f *flight) error {
	landed := flight{abandoned: true}
	defer func() {
		s.mu.Lock()
		for _, team := range f.teams {
			delete(s.flights, team)
			if landed.err != nil || landed.abandoned {
				continue
			}
			if a, ok := landed.answers[team]; ok {
				s.cache.put(team, a)
			} else {
				s.cache.remove(team)
			}
		}
		s.mu.Unlock()
		f.answers, f.err, f.abandoned = landed.answers, landed.err, landed.abandoned
		close(f.done)
	}()
	answers, err := s.ask(ctx, vcursor, f.teams)
	landed = flight{answers: answers, err: err, abandoned: err != nil && s.onlyTheirs(ctx, err)}
	count := func(outcome string, n int) {
		if n > 0 {
			lookupCounts.Add([]string{s.p.vindex, outcome}, int64(n))
		}
	}
	switch {
	case landed.abandoned:
		count(outcomeAbandoned, len(f.teams))
	case err != nil:
		count(outcomeError, len(f.teams))
	default:
		count(outcomeFound, len(answers))
		count(outcomeUnknown, len(f.teams)-len(answers))
	}
	return err
}

// errTooSlow: mains did not answer in the look-up's own time.
var errTooSlow = errors.New("mains is too slow")

// onlyTheirs reports whether a failure is of the client that asked, not of mains: it went
// away, its own deadline was nearer than ours, or it may not read mains.
func (s *store) onlyTheirs(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	switch vterrors.Code(err) {
	case vtrpcpb.Code_CANCELED, vtrpcpb.Code_PERMISSION_DENIED, vtrpcpb.Code_UNAUTHENTICATED, vtrpcpb.Code_ABORTED:
		return true
	case vtrpcpb.Code_DEADLINE_EXCEEDED:
		// The client's deadline, which a server noticed before our context did.
		return !errors.Is(err, errTooSlow)
	}
	return false
}

// ask asks mains for the teams, as the session of the cursor but outside its transaction.
// The answers are checked: a team that was not asked for, one with two shards, and a shard
// that the keyspace does not serve are errors. A wrong shard would be somebody else's.
func (s *store) ask(ctx context.Context, vcursor vtvindexes.VCursor, teams []uint64) (map[uint64]answer, error) {
	began := time.Now()
	asked := s.now()
	bounded, cancel := context.WithTimeoutCause(ctx, s.p.timeout, errTooSlow)
	defer cancel()
	answers := make(map[uint64]answer, len(teams))
	wanted := make(map[uint64]struct{}, len(teams))
	for _, team := range teams {
		wanted[team] = struct{}{}
	}
	for len(teams) > 0 {
		part := teams[:min(len(teams), teamsAQuery)]
		teams = teams[len(part):]
		result, err := vcursor.Execute(bounded, "VindexLookup", s.query, map[string]*querypb.BindVariable{"teams": bindTeams(part)}, false, vtgatepb.CommitOrder_AUTOCOMMIT)
		if err != nil {
			lookupTimes.Record([]string{s.p.vindex}, began)
			// A server may notice the deadline before our own timer does.
			noticed := vterrors.Code(err) == vtrpcpb.Code_DEADLINE_EXCEEDED && !endsBefore(ctx, began.Add(s.p.timeout))
			if ctx.Err() == nil && (noticed || context.Cause(bounded) == errTooSlow) {
				return nil, s.tooSlow(part, err)
			}
			return nil, vterrors.Wrapf(err, "vindex %s: looking up %s in %s.%s", s.p.vindex, showTeams(part), s.p.keyspace, s.p.table)
		}
		for _, row := range result.Rows {
			if err := s.take(row, wanted, answers, asked); err != nil {
				return nil, err
			}
		}
	}
	lookupTimes.Record([]string{s.p.vindex}, began)
	return answers, nil
}

// slowError is errTooSlow with Vitess' code for it.
type slowError struct{ error }

func (e slowError) Unwrap() error           { return errTooSlow }
func (e slowError) ErrorCode() vtrpcpb.Code { return vtrpcpb.Code_DEADLINE_EXCEEDED }

func (s *store) tooSlow(teams []uint64, err error) error {
	return slowError{fmt.Errorf("vindex %s: looking up %s in %s.%s: found no answer within %s (parameter %s): look at the tablets of %s: %w", s.p.vindex, showTeams(teams), s.p.keyspace, s.p.table, s.p.timeout, paramTimeout, s.p.keyspace, err)}
}

// endsBefore reports whether the context has a deadline before that time.
func endsBefore(ctx context.Context, t time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Before(t)
}

// take checks a row of mains' answer and keeps it.
func (s *store) take(row []sqltypes.Value, wanted map[uint64]struct{}, answers map[uint64]answer, asked time.Duration) error {
	wrong := func(format string, args ...any) error {
		return vterrors.Errorf(vtrpcpb.Code_FAILED_PRECONDITION, "vindex %s: the answer of %s.%s is wrong: "+format, append([]any{s.p.vindex, s.p.keyspace, s.p.table}, args...)...)
	}
	if len(row) != 2 {
		return wrong("found %d columns, expected %s and %s", len(row), s.p.from, s.p.to)
	}
	team, ok := parseDecimal(row[0].Raw())
	if _, asked := wanted[team]; !ok || !asked {
		return wrong("found %s %q, expected one that was asked for", s.p.from, row[0].ToString())
	}
	shard, err := shardid.Parse(row[1].ToString())
	if err != nil {
		return wrong("team %d: %s: %v", team, s.p.to, err)
	}
	if !s.p.servedSet.has(shard) {
		return wrong("team %d is on shard %s, which this keyspace does not serve: correct mains, or add the shard to the parameter %s", team, shard, paramShards)
	}
	if other, twice := answers[team]; twice && other.shard != shard {
		return wrong("team %d is on two shards, %s and %s", team, other.shard, shard)
	}
	answers[team] = answer{shard: shard, asked: asked}
	return nil
}

// wait waits for somebody else's flight, no longer than it may take.
func (s *store) wait(ctx context.Context, f *flight) error {
	timer := time.NewTimer(s.p.timeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return vterrors.Wrapf(ctx.Err(), "vindex %s: waiting for another query's look-up in %s.%s", s.p.vindex, s.p.keyspace, s.p.table)
	case <-timer.C:
		return s.tooSlow(nil, errTooSlow)
	}
}

// bindTeams is a list of ids, with the type that MySQL would give each.
func bindTeams(teams []uint64) *querypb.BindVariable {
	list := &querypb.BindVariable{Type: querypb.Type_TUPLE, Values: make([]*querypb.Value, len(teams))}
	for i, team := range teams {
		v := sqltypes.NewUint64(team)
		if int64(team) >= 0 {
			v = sqltypes.NewInt64(int64(team))
		}
		list.Values[i] = sqltypes.ValueToProto(v)
	}
	return list
}

func showTeams(teams []uint64) string {
	switch len(teams) {
	case 0:
		return "a team"
	case 1:
		return fmt.Sprintf("team %d", teams[0])
	}
	return fmt.Sprintf("team %d and %d more", teams[0], len(teams)-1)
}
