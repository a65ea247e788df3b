package vindexes

import (
	"bytes"
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/teammap"
)

func init() { vtvindexes.Register("legacy_shard", newLegacyShard) }

var (
	_ vtvindexes.SingleColumn    = (*legacyShard)(nil)
	_ vtvindexes.ParamValidating = (*legacyShard)(nil)
)

// The parameters of legacy_shard: docs/vindexes.md.
const (
	paramShards    = "shards"
	paramTable     = "table"
	paramFrom      = "from"
	paramTo        = "to"
	paramFile      = "file"
	paramStaleness = "staleness"
	paramTimeout   = "timeout"
	paramCacheSize = "cache_size"
	paramUnknown   = "unknown"
	paramMaxAge    = "file_max_age"
)

var legacyShardParams = []string{
	paramShards, paramTable, paramFrom, paramTo, paramFile, paramStaleness, paramTimeout, paramCacheSize, paramUnknown, paramMaxAge,
}

const (
	// defaultStaleness is how long a vtgate may go on after mains was changed.
	defaultStaleness = 30 * time.Second
	// defaultTimeout bounds a look-up: one took half a millisecond where it was measured, and
	// a client that waits for more than a second has mostly gone.
	defaultTimeout = time.Second
	// defaultCacheSize is in teams: 32 MB when it is full.
	defaultCacheSize = 1 << 20
	maxCacheSize     = 1 << 26
	// respiteTimeouts is for how many timeouts nobody asks early again after an early refresh
	// failed: a mains that hangs should make few queries wait while the cache is still good.
	respiteTimeouts = 5
)

// prefixSize is the length of the legacy shard's number in a keyspace id.
const prefixSize = 2

// teamExpected says what legacy_shard takes, in errors.
const teamExpected = "the id of a team, from 0 to 18446744073709551615 in decimal digits"

// legacyShard maps a team to the legacy shard that it lives on: the keyspace id is the
// shard's number (2 bytes, big-endian) and then the 8 bytes that Vitess' vindex xxhash gives
// the team's id in decimal. So each legacy shard is a key range of its own, and can be split.
//
// Where a team lives is asked of mains through vtgate (parameters table, from, to), and
// remembered; or read from a team map (parameter file), which needs no vtgate. With both,
// vtgate asks and tablets read.
//
// Leading zeros of a team are padding: MySQL takes '0001' for 1 where the column is a number.
type legacyShard struct {
	name    string
	served  *shardSet
	lookup  *lookup   // nil: mains cannot be asked
	file    *teamFile // nil: there is no team map
	maxAge  time.Duration
	ignore  bool // unknown teams have no rows
	unknown []string
}

func newLegacyShard(name string, params map[string]string) (vtvindexes.Vindex, error) {
	wrong := func(format string, args ...any) (vtvindexes.Vindex, error) {
		return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "vindex %s: "+format, append([]any{name}, args...)...)
	}
	v := &legacyShard{name: name, unknown: vtvindexes.FindUnknownParams(params, legacyShardParams)}
	if params[paramShards] == "" {
		return wrong("%s is missing: expected the legacy shards that this keyspace serves, such as 0123,0200-0299; a team on any other would be routed to a neighbour of it", paramShards)
	}
	var err error
	if v.served, err = parseShards(params[paramShards]); err != nil {
		return wrong("%s: %v", paramShards, err)
	}
	switch params[paramUnknown] {
	case "", "error":
	case "none":
		v.ignore = true
	default:
		return wrong("%s: found %q, expected error or none", paramUnknown, params[paramUnknown])
	}
	if v.maxAge, err = duration(params, paramMaxAge, 0); err != nil {
		return wrong("%v", err)
	}
	if path := params[paramFile]; path != "" {
		v.file = teamFileAt(path)
	} else if v.maxAge != 0 {
		return wrong("%s is given without %s", paramMaxAge, paramFile)
	}
	p, err := parseLookup(name, params)
	if err != nil {
		return wrong("%v", err)
	}
	if p == nil && v.file == nil {
		return wrong("neither %s nor %s is given: expected where to learn the teams' shards", paramTable, paramFile)
	}
	if p != nil {
		p.servedSet = v.served
		v.lookup = lookupOf(*p)
	}
	return v, nil
}

// parseLookup reads the parameters of a look-up; nil when there is none.
func parseLookup(name string, params map[string]string) (*lookupParams, error) {
	p := &lookupParams{vindex: name, served: params[paramShards], from: params[paramFrom], to: params[paramTo], entries: defaultCacheSize}
	var err error
	if p.staleness, err = duration(params, paramStaleness, defaultStaleness); err != nil {
		return nil, err
	}
	if p.timeout, err = duration(params, paramTimeout, defaultTimeout); err != nil {
		return nil, err
	}
	if s, given := params[paramCacheSize]; given {
		if p.entries, err = strconv.Atoi(s); err != nil || p.entries < 1 || p.entries > maxCacheSize {
			return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "%s: found %q, expected a number of teams from 1 to %d", paramCacheSize, s, maxCacheSize)
		}
	}
	p.refreshAge, p.respite = p.staleness/2, respiteTimeouts*p.timeout
	table := params[paramTable]
	if table == "" && p.from == "" && p.to == "" {
		return nil, nil
	}
	if table == "" || p.from == "" || p.to == "" {
		return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "%s, %s and %s: found %q, %q and %q, expected all of them", paramTable, paramFrom, paramTo, table, p.from, p.to)
	}
	// A table without its keyspace would be looked for in the one of the client's session.
	var ok bool
	if p.keyspace, p.table, ok = strings.Cut(table, "."); !ok || p.keyspace == "" || p.table == "" || strings.Contains(p.table, ".") {
		return nil, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "%s: found %q, expected keyspace.table, such as mains.teams", paramTable, table)
	}
	return p, nil
}

// duration is a parameter such as 500ms, above 0.
func duration(params map[string]string, name string, otherwise time.Duration) (time.Duration, error) {
	s, given := params[name]
	if !given {
		return otherwise, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, vterrors.Errorf(vtrpcpb.Code_INVALID_ARGUMENT, "%s: found %q, expected a time above 0, such as 30s", name, s)
	}
	return d, nil
}

// String is the name that the vschema gives the vindex.
func (v *legacyShard) String() string { return v.name }

// Cost is that of a look-up.
func (v *legacyShard) Cost() int { return 2 }

// IsUnique: a team lives on one legacy shard.
func (v *legacyShard) IsUnique() bool { return true }

// NeedsVCursor is true without a team map. With one it is false, which lets VReplication use
// the vindex; vtgate passes its cursor all the same.
func (v *legacyShard) NeedsVCursor() bool { return v.file == nil }

// UnknownParams are the parameters that were given and mean nothing.
func (v *legacyShard) UnknownParams() []string { return v.unknown }

// open is a team that is not cached, or should be refreshed, and where in the list of values
// it is.
type open struct {
	team uint64
	at   int
}

// Map is the keyspace id of each team; NULL has none, and an unknown team is an error or,
// with unknown=none, has none.
func (v *legacyShard) Map(ctx context.Context, vcursor vtvindexes.VCursor, ids []sqltypes.Value) ([]key.ShardDestination, error) {
	switch {
	case vcursor != nil && v.lookup != nil:
		return v.mapByLookup(ctx, vcursor, ids)
	case v.file != nil:
		return v.mapByFile(ctx, ids)
	}
	return nil, vterrors.Errorf(vtrpcpb.Code_FAILED_PRECONDITION, "vindex %s: there is no vtgate here to ask %s.%s through, and no team map: give the vindex the parameter %s", v.name, v.lookup.p.keyspace, v.lookup.p.table, paramFile)
}

// Verify reports of each team whether the keyspace id is its own.
func (v *legacyShard) Verify(ctx context.Context, vcursor vtvindexes.VCursor, ids []sqltypes.Value, ksids [][]byte) ([]bool, error) {
	if err := checkKsids(v.name, ids, ksids); err != nil {
		return nil, err
	}
	destinations, err := v.Map(ctx, vcursor, ids)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(ids))
	for i, d := range destinations {
		own, ok := d.(key.DestinationKeyspaceID)
		out[i] = ok && bytes.Equal(own, ksids[i])
	}
	return out, nil
}

// teamOf is the team that a value that is not NULL stands for.
func (v *legacyShard) teamOf(id sqltypes.Value) (uint64, error) {
	if t := id.Type(); t == sqltypes.Int64 || kindOf(t) != refused {
		if team, ok := parseDecimal(id.Raw()); ok {
			return team, nil
		}
	}
	return 0, refuse(v.name, id, teamExpected)
}

// ksidSize is the length of a keyspace id.
const ksidSize = prefixSize + hashSize

// destination writes the keyspace id of a team, which text may say, on a legacy shard.
func destination(ksid []byte, shard shardid.ID, team uint64, text []byte) key.ShardDestination {
	binary.BigEndian.PutUint16(ksid, uint16(shard))
	// A number without leading zeros is hashed as it stands.
	if len(text) > 0 && (text[0] != '0' || len(text) == 1) {
		putHash(ksid[prefixSize:], text)
	} else {
		var buf [decimalDigits]byte
		putHash(ksid[prefixSize:], strconv.AppendUint(buf[:0], team, 10))
	}
	return key.DestinationKeyspaceID(ksid)
}

// noSuch is the answer for a team that nobody knows.
func (v *legacyShard) noSuch(team uint64, where string) (key.ShardDestination, error) {
	if v.ignore {
		return key.DestinationNone{}, nil
	}
	return nil, vterrors.Errorf(vtrpcpb.Code_NOT_FOUND, "vindex %s: team %d is not in %s", v.name, team, where)
}

func (v *legacyShard) mapByLookup(ctx context.Context, vcursor vtvindexes.VCursor, ids []sqltypes.Value) ([]key.ShardDestination, error) {
	s := v.lookup.storeFor(vcursor)
	now := s.now()
	out, ksids := results(len(ids), ksidSize)
	var rest []open
	var aging map[uint64]answer
	var missing []uint64
	var hits int64
	for i, id := range ids {
		if id.IsNull() {
			out[i] = key.DestinationNone{}
			continue
		}
		team, err := v.teamOf(id)
		if err != nil {
			return nil, err
		}
		a, ok, old := s.cached(team, now)
		if ok {
			out[i] = destination(ksidAt(ksids, i, ksidSize), a.shard, team, id.Raw())
			hits++
			if !old {
				continue
			}
			if aging == nil {
				aging = map[uint64]answer{}
			}
			aging[team] = a
		} else {
			missing = append(missing, team)
		}
		rest = append(rest, open{team: team, at: i})
	}
	if hits > 0 {
		s.hits.add(uint64(now), hits)
	}
	if len(rest) == 0 {
		return out, nil
	}
	found, err := s.resolve(ctx, vcursor, missing, aging)
	if err != nil {
		return nil, err
	}
	for _, r := range rest {
		if a, ok := found[r.team]; ok {
			out[r.at] = destination(ksidAt(ksids, r.at, ksidSize), a.shard, r.team, nil)
		} else if out[r.at], err = v.noSuch(r.team, v.lookup.p.keyspace+"."+v.lookup.p.table); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (v *legacyShard) mapByFile(ctx context.Context, ids []sqltypes.Value) ([]key.ShardDestination, error) {
	m, err := v.file.get(ctx)
	if err != nil {
		return nil, vterrors.Wrapf(err, "vindex %s", v.name)
	}
	if age := v.tooOld(m); age > 0 {
		return nil, vterrors.Errorf(vtrpcpb.Code_FAILED_PRECONDITION, "vindex %s: the team map %s is %s old, expected %s or less (parameter %s): write it again with vifl mains export", v.name, v.file.path, age.Round(time.Second), v.maxAge, paramMaxAge)
	}
	out, ksids := results(len(ids), ksidSize)
	for i, id := range ids {
		if id.IsNull() {
			out[i] = key.DestinationNone{}
			continue
		}
		team, err := v.teamOf(id)
		if err != nil {
			return nil, err
		}
		shard, ok := m.Lookup(team)
		if !ok {
			if out[i], err = v.noSuch(team, "the team map "+v.file.path); err != nil {
				return nil, err
			}
			continue
		}
		if !v.served.has(shard) {
			return nil, vterrors.Errorf(vtrpcpb.Code_FAILED_PRECONDITION, "vindex %s: the team map %s says that team %d is on shard %s, which this keyspace does not serve: correct mains and export it, or add the shard to the parameter %s", v.name, v.file.path, team, shard, paramShards)
		}
		out[i] = destination(ksidAt(ksids, i, ksidSize), shard, team, id.Raw())
	}
	return out, nil
}

// tooOld is the map's age when it is above what the vschema allows, else 0.
func (v *legacyShard) tooOld(m *teammap.Map) time.Duration {
	if v.maxAge == 0 {
		return 0
	}
	if age := time.Since(m.Created()); age > v.maxAge {
		return age
	}
	return 0
}
