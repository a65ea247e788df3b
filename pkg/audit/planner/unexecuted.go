package planner

import (
	"context"
	"errors"

	"vitess.io/vitess/go/sqltypes"
	binlogdatapb "vitess.io/vitess/go/vt/proto/binlogdata"
	querypb "vitess.io/vitess/go/vt/proto/query"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"
	"vitess.io/vitess/go/vt/sqlparser"
	"vitess.io/vitess/go/vt/srvtopo"
	"vitess.io/vitess/go/vt/topo"
	"vitess.io/vitess/go/vt/vtenv"
	"vitess.io/vitess/go/vt/vtgate/engine"
	"vitess.io/vitess/go/vt/vtgate/executorcontext"
	"vitess.io/vitess/go/vt/vtgate/vindexes"
	"vitess.io/vitess/go/vt/vtgate/vtgateservice"
)

// errNotExecuted is the answer to everything that would reach a tablet: here queries are
// planned, never run.
var errNotExecuted = errors.New("queries are only planned here")

// unexecuted is what vtgate's vcursor asks of an executor. Planning asks for the environment
// and the vschema only; whatever runs a query is refused.
type unexecuted struct {
	env     *vtenv.Environment
	vschema *vindexes.VSchema
	srv     *vschemapb.SrvVSchema
	// prepared plans the statement that a PREPARE names.
	prepared func(ctx context.Context, query string) (*engine.Plan, error)
}

func (u *unexecuted) Environment() *vtenv.Environment             { return u.env }
func (u *unexecuted) VSchema() *vindexes.VSchema                  { return u.vschema }
func (u *unexecuted) GetCurrentSrvVschema() *vschemapb.SrvVSchema { return u.srv }
func (u *unexecuted) AddWarningCount(string, int64)               {}
func (u *unexecuted) ReleaseLock(context.Context, *executorcontext.SafeSession) error {
	return errNotExecuted
}
func (u *unexecuted) Commit(context.Context, *executorcontext.SafeSession) error {
	return errNotExecuted
}

func (u *unexecuted) UpdateVSchema(context.Context, *topo.KeyspaceVSchemaInfo, *vschemapb.SrvVSchema) error {
	return errNotExecuted
}

func (u *unexecuted) Execute(context.Context, vtgateservice.MySQLConnection, string, *executorcontext.SafeSession, string, map[string]*querypb.BindVariable, bool) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) ExecuteMultiShard(context.Context, engine.Primitive, []*srvtopo.ResolvedShard, []*querypb.BoundQuery, *executorcontext.SafeSession, bool, bool, executorcontext.ResultsObserver, bool) (*sqltypes.Result, []error) {
	return nil, []error{errNotExecuted}
}

func (u *unexecuted) StreamExecuteMulti(context.Context, engine.Primitive, string, []*srvtopo.ResolvedShard, []map[string]*querypb.BindVariable, *executorcontext.SafeSession, bool, func(*sqltypes.Result) error, executorcontext.ResultsObserver, bool) []error {
	return []error{errNotExecuted}
}

func (u *unexecuted) ExecuteLock(context.Context, *srvtopo.ResolvedShard, *querypb.BoundQuery, *executorcontext.SafeSession, sqlparser.LockingFuncType) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) ExecuteMessageStream(context.Context, []*srvtopo.ResolvedShard, string, func(*sqltypes.Result) error) error {
	return errNotExecuted
}

func (u *unexecuted) ExecuteVStream(context.Context, []*srvtopo.ResolvedShard, *binlogdatapb.Filter, string, func([]*binlogdatapb.VEvent) error) error {
	return errNotExecuted
}

func (u *unexecuted) ShowVitessReplicationStatus(context.Context, *sqlparser.ShowFilter) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) ShowShards(context.Context, *sqlparser.ShowFilter, topodatapb.TabletType) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) ShowTablets(*sqlparser.ShowFilter) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) ShowVitessMetadata(context.Context, *sqlparser.ShowFilter) (*sqltypes.Result, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) SetVitessMetadata(context.Context, string, string) error { return errNotExecuted }

func (u *unexecuted) PlanPrepareStmt(ctx context.Context, _ *executorcontext.SafeSession, query string) (*engine.Plan, error) {
	return u.prepared(ctx, query)
}

func (u *unexecuted) ReadTransaction(context.Context, string) (*querypb.TransactionMetadata, error) {
	return nil, errNotExecuted
}

func (u *unexecuted) UnresolvedTransactions(context.Context, []*querypb.Target) ([]*querypb.TransactionMetadata, error) {
	return nil, errNotExecuted
}
