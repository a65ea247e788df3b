package vindexes

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"vitess.io/vitess/go/sqltypes"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vtgatepb "vitess.io/vitess/go/vt/proto/vtgate"

	"github.com/vifl/vifl/pkg/shardid"
)

// fakeMains is a vtgate's cursor in front of a mains of its own. Whatever else is asked of it
// panics: the vindexes may only look up.
type fakeMains struct {
	vtvindexes.VCursor
	calls atomic.Int64

	mu    sync.Mutex
	teams map[uint64]shardid.ID
	// before is run first, with the look-up's context; its error is the look-up's.
	before func(ctx context.Context, teams []uint64) error
	// answer replaces the rows.
	answer *sqltypes.Result
	last   string // query
	most   int    // teams in a query
}

func newMains(teams map[uint64]shardid.ID) *fakeMains { return &fakeMains{teams: maps.Clone(teams)} }

func (m *fakeMains) set(team uint64, shard shardid.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.teams[team] = shard
}

func (m *fakeMains) fail(before func(ctx context.Context, teams []uint64) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = before
}

func (m *fakeMains) Execute(ctx context.Context, method, query string, binds map[string]*querypb.BindVariable, rollback bool, co vtgatepb.CommitOrder) (*sqltypes.Result, error) {
	m.calls.Add(1)
	if method != "VindexLookup" || rollback || co != vtgatepb.CommitOrder_AUTOCOMMIT || len(binds) != 1 || binds["teams"].Type != querypb.Type_TUPLE {
		return nil, errors.New("the look-up is not of the form that was seen to work")
	}
	var teams []uint64
	for _, v := range binds["teams"].Values {
		n, err := strconv.ParseUint(string(v.Value), 10, 64)
		if err != nil {
			return nil, err
		}
		teams = append(teams, n)
	}
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		if err := before(ctx, teams); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.most = query, max(m.most, len(teams))
	if m.answer != nil {
		return m.answer, nil
	}
	result := &sqltypes.Result{}
	for _, n := range teams {
		if shard, ok := m.teams[n]; ok {
			result.Rows = append(result.Rows, []sqltypes.Value{sqltypes.NewUint64(n), sqltypes.NewVarChar(shard.String())})
		}
	}
	return result, nil
}

// session is one more client of the same vtgate, which counts its own look-ups.
type session struct {
	*fakeMains
	own atomic.Int64
}

func (s *session) Execute(ctx context.Context, method, query string, binds map[string]*querypb.BindVariable, rollback bool, co vtgatepb.CommitOrder) (*sqltypes.Result, error) {
	s.own.Add(1)
	return s.fakeMains.Execute(ctx, method, query, binds, rollback, co)
}

// onReplica is a session on @replica, in front of a replica of mains that is behind.
type onReplica struct{ *fakeMains }

func (onReplica) TabletType() topodatapb.TabletType { return topodatapb.TabletType_REPLICA }
