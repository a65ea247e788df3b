package shardmove

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/workflows/engine"
)

// mayRepair refuses to change a landing that clients can write to. That the shard has not been
// cut over is the state machine's to say, before.
func (m *Move) mayRepair(ctx context.Context) error {
	fenced, err := m.landing.Fenced(ctx)
	if err != nil {
		return err
	}
	if !fenced {
		return &Refused{Verb: engine.Diff, Shard: m.show, Findings: []guard.Finding{{
			ID: "R22", Name: "landing is not fenced", Level: guard.Refuse, Server: "landing " + m.keyspace,
			Found: "a landing that is open for clients", Expected: "a fenced one, which nobody but the stream writes to", Remedy: fmt.Sprintf("find out who opened it; vifl status %s", m.id),
		}}}
	}
	return nil
}

// applyRepairs makes the landing's primary equal to side a in the rows that the report lists.
// What was found at the diff's cut is too old for that: the stream goes on meanwhile. So the
// stream is stopped at a new cut, the rows are read again on both sides there, and those that
// still differ get side a's values of that instant before the stream goes on.
func (m *Move) applyRepairs(ctx context.Context, a *legacy.Server, s stopper, tablets openTablets, tables *schema.Schema, result *diff.Report, repairs []DiffRepair) (err error) {
	primary := tablets.primary()
	name := "tablet " + primary.Alias
	for i := range result.Targets {
		if t := &result.Targets[i]; t.Name == name && len(t.Differences) > 0 {
			for j := range repairs {
				if r := &repairs[j]; r.Target == name && r.Problem == "" {
					return m.applyRepair(ctx, a, s, primary, tables, t, r)
				}
			}
		}
	}
	m.reporter.Note("nothing was repaired: no row of the landing's primary has a statement")
	return nil
}

func (m *Move) applyRepair(ctx context.Context, a *legacy.Server, s stopper, primary *openTablet, tables *schema.Schema, target *diff.TargetReport, r *DiffRepair) (err error) {
	fail := func(err error) error {
		return fmt.Errorf("shard %s: repair of tablet %s: %w", m.show, primary.Alias, err)
	}
	if err := m.mayRepair(ctx); err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return fail(err)
	}
	defer func() { resume(ctx, s, &err) }()
	cut, err := a.Cut(ctx, 1, m.cfg.Limits.LockTimeout)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = cut.Close() }()
	stop, cancel := context.WithTimeout(ctx, m.cfg.Limits.CatchUpTimeout)
	defer cancel()
	if err := s.StopAt(stop, cut.Position); err != nil {
		return fail(err)
	}
	conn, err := primary.db.Conn(ctx)
	if err != nil {
		return fail(err)
	}
	// Its session has settings that nobody else should find in the pool.
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }()
	source := diff.Side{Name: a.Name(), Database: m.shard.Database, Conns: cut.Snapshots}
	still, err := diff.Recheck(ctx, source, diff.Side{Name: r.Target, Database: m.shard.Database, Conns: []*sql.Conn{conn}}, tables, target.Differences)
	if err != nil {
		return fail(err)
	}
	statements, err := diff.Repair(ctx, source, tables, still)
	if err != nil {
		return fail(err)
	}
	if err := runRepair(ctx, conn, statements); err != nil {
		return fail(fmt.Errorf("%w: nothing of it was kept", err))
	}
	r.Statements, r.AppliedAt, r.Applied = statements, cut.Position.String(), still.Differing
	m.reporter.Note("%d row(s) of tablet %s repaired at %s", still.Differing, primary.Alias, cut.Position)
	return nil
}

// runRepair runs what diff.Repair wrote: all of it or nothing. Each row that it deletes or
// inserts must be exactly one.
func runRepair(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, stmt := range statements {
		result, err := conn.ExecContext(ctx, stmt)
		if err == nil && (strings.HasPrefix(stmt, "DELETE ") || strings.HasPrefix(stmt, "INSERT ")) {
			var n int64
			if n, err = result.RowsAffected(); err == nil && n != 1 {
				err = fmt.Errorf("it changed %d rows, expected one", n)
			}
		}
		if err != nil {
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_, rerr := conn.ExecContext(detached, "ROLLBACK")
			return errors.Join(fmt.Errorf("%.200s: %w", stmt, err), rerr)
		}
	}
	return nil
}
