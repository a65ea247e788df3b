package shardmove

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/workflows/engine"
)

// DiffBack compares the legacy, behind a cutover, with the landing at one instant: a replica
// of the landing is pinned for some milliseconds, which no client notices, and the legacy
// is brought to exactly there by the stream back. The other tablets are not looked at: they
// follow the same primary.
func (m *Move) DiffBack(ctx context.Context, o DiffOptions) (*DiffReport, error) {
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	var report *DiffReport
	err := m.locked(ctx, engine.DiffBack, func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		if !backwards(&doc) {
			return "", fmt.Errorf("shard %s: it has no stream back (the cutover was --one-way, or vifl complete has ended it): the legacy stands still, and there is nothing to compare it with", m.show)
		}
		if err := m.sameSource(ctx, &doc); err != nil {
			return "", err
		}
		if err := m.backReady(ctx); err != nil {
			return "", err
		}
		var tablet string
		var err error
		if report, tablet, err = m.diffBack(ctx, &doc, o); err != nil {
			return "", err
		}
		m.keep(ctx, engine.DiffBack, report)
		if err := lease.Update(ctx, func(d *state.Shard) {
			next := *d.Reverse
			next.Diff = &state.ReverseDiff{At: time.Now().UTC(), Tablet: tablet, Position: report.Position, Tables: report.Tables, Rows: report.Rows, Differing: report.Different}
			d.Reverse = &next
		}); err != nil {
			return "", err
		}
		if !report.Equal {
			return fmt.Sprintf("%d row(s) of the legacy differ at %s of %s", report.Different, report.Position, tablet), &Different{Shard: m.show, Rows: int64(report.Different)}
		}
		return fmt.Sprintf("the legacy equals the landing at %s of %s, %d rows", report.Position, tablet, report.Rows), nil
	})
	return report, err
}

func (m *Move) diffBack(ctx context.Context, doc *state.Shard, o DiffOptions) (report *DiffReport, tablet string, err error) {
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, "", err
	}
	replica, tablet, err := m.readTablet(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = replica.Close() }()
	tables, err := schema.Read(ctx, replica.DB(), m.shard.Database)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", replica.Name(), err)
	}
	for _, side := range []*legacy.Server{a, b} {
		if err := m.sameTables(ctx, tables, replica.Name(), side.Name(), side.DB(), ""); err != nil {
			return nil, "", err
		}
	}
	start := time.Now()
	cut, sides, err := m.cutBack(ctx, replica, a, b)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = cut.Close() }()
	defer endSnapshots(sides)
	source := diff.Side{Name: "tablet " + tablet, Database: m.shard.Database, Conns: cut.Snapshots}
	result, err := diff.Compare(ctx, source, sides, tables, diff.Options{MaxListed: o.MaxRows}, m.showDiff("diff of the legacy"))
	if err != nil {
		return nil, "", fmt.Errorf("shard %s: %w", m.show, err)
	}
	if err := m.letThroughBack(ctx, doc, result, a, b, tables); err != nil {
		return nil, "", fmt.Errorf("shard %s: %w", m.show, err)
	}
	report = m.diffReport(cut, nil, result, &diff.Report{}, time.Since(start))
	for _, d := range result.Accepted {
		report.Accepted = append(report.Accepted, diffEntry(b.Name(), d))
	}
	report.MaxRows, report.Tablets = o.MaxRows, []string{tablet}
	return report, tablet, nil
}

// readTablet connects to the tablet that the stream back reads.
func (m *Move) readTablet(ctx context.Context) (*legacy.Server, string, error) {
	st, err := m.back().Status(ctx)
	if err != nil {
		return nil, "", err
	}
	tablets, err := m.landing.Tablets(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, t := range tablets {
		if t.Problem == "" && t.ServerUUID == st.Position.Server {
			s, err := m.tabletServer(ctx, t)
			return s, t.Alias, err
		}
	}
	return nil, "", fmt.Errorf("shard %s: the stream back reads server %s, which is none of the landing's %d tablet(s) that answer: wait until it goes on at another, and try again", m.show, st.Position.Server, len(tablets))
}

// cutBack pins the replica, brings side a exactly there and side b to side a, opens snapshots
// of all, and lets the stream go on.
func (m *Move) cutBack(ctx context.Context, replica, a, b *legacy.Server) (cut *legacy.Cut, sides []diff.Side, err error) {
	back := m.back()
	halted := time.Now()
	if err := back.Stop(ctx); err != nil {
		return nil, nil, err
	}
	m.pause(engine.DiffBack, "stream stopped")
	defer func() {
		resume(ctx, back, &err)
		m.reporter.Note("the stream back stood still for %d ms", time.Since(halted).Milliseconds())
	}()
	n := m.cfg.Limits.DiffParallelism
	if cut, err = replica.CutReplica(ctx, n, m.cfg.Limits.LockTimeout); err != nil {
		return nil, nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	defer func() {
		if err != nil {
			endSnapshots(sides)
			_ = cut.Close()
		}
	}()
	m.reporter.Note("cut at %s of %s: its replication blocked %.1f ms", cut.Position, replica.Name(), float64(cut.Blocked.Microseconds())/1000)
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Limits.CatchUpTimeout)
	defer cancel()
	if err := back.StopAt(ctx, cut.Position); err != nil {
		if errors.Is(err, stream.ErrPassed) {
			err = fmt.Errorf("%w: try again", err)
		}
		return nil, nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	end, err := a.Position(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := legacy.WaitApplied(ctx, b, a, end); err != nil {
		return nil, nil, err
	}
	for i, server := range []*legacy.Server{a, b} {
		sides = append(sides, diff.Side{Name: server.Name(), Database: m.shard.Database})
		for range n {
			conn, err := snapshot(ctx, server.DB())
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", server.Name(), err)
			}
			sides[i].Conns = append(sides[i].Conns, conn)
		}
	}
	return cut, sides, nil
}

// endSnapshots ends connections whose pool lives on. They must not go back into it: each has
// a transaction open.
func endSnapshots(sides []diff.Side) {
	for _, s := range sides {
		for _, c := range s.Conns {
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
			_ = c.Close()
		}
	}
}
