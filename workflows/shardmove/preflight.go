package shardmove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream/vreplication"
	"github.com/vifl/vifl/workflows/engine"
)

// PreflightReport is what preflight found.
type PreflightReport struct {
	Shard    string          `json:"shard"`
	Findings []guard.Finding `json:"findings"`
	OK       int             `json:"ok"`
	Warnings int             `json:"warnings"`
	Refused  int             `json:"refused"`
	Stream   string          `json:"stream"`
	Why      string          `json:"why"`
}

// Preflight looks whether the shard can be moved. It changes nothing on any server.
//
// want is the stream to move it by: state.VReplication, state.Binlog, or "" to have it
// picked. The seed and the stream go by what came of it.
func (m *Move) Preflight(ctx context.Context, want string) (*PreflightReport, error) {
	var report *PreflightReport
	err := m.locked(ctx, engine.Preflight, func(ctx context.Context, lease *state.Lease) (string, error) {
		var err error
		report, err = m.preflight(ctx, engine.Preflight, want)
		if report != nil {
			uerr := lease.Update(ctx, func(d *state.Shard) {
				d.Preflight = &state.Preflight{At: time.Now().UTC(), Stream: report.Stream, Why: report.Why, Warnings: report.Warnings, Refused: report.Refused}
			})
			err = errors.Join(err, uerr)
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d ok, %d warnings", report.OK, report.Warnings), nil
	})
	return report, err
}

// preflight runs the checks for a verb that rests on them.
func (m *Move) preflight(ctx context.Context, verb engine.Verb, want string) (*PreflightReport, error) {
	defer m.atWork("asking both sides and mains")()
	facts, err := guard.Gather(ctx, m.cfg, m.shard, m.cfg.Legacy.StreamAccount)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	for _, side := range facts.Sides {
		if side.Schema != nil {
			side.Lost, side.Risky = vreplication.Unfit(side.Schema)
		}
	}
	if doc, _, err := m.store.Load(ctx, m.id, m.keyspace); err != nil {
		facts.AuditErr = err
	} else {
		facts.Audit = doc.Audit
	}
	why := "chosen by the operator"
	if facts.Stream = want; want == "" {
		facts.Stream, why = guard.PickStream(facts)
	}
	r := &PreflightReport{Shard: m.show, Findings: guard.Preflight(facts), Stream: facts.Stream, Why: why}
	for _, f := range r.Findings {
		switch f.Level {
		case guard.OK:
			r.OK++
		case guard.Warning:
			r.Warnings++
		default:
			r.Refused++
		}
	}
	if r.Refused > 0 {
		return r, &Refused{Verb: verb, Shard: m.show, Findings: guard.Refused(r.Findings)}
	}
	return r, nil
}
