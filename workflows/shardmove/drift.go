package shardmove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
)

// maxAccepted bounds the accepted rows of a shard: they are read again inside the freeze, and
// sides that drifted further apart than this need a repair, not acceptance row by row.
const maxAccepted = 500

// DriftReport is what came of accepting, withdrawing or listing drift.
type DriftReport struct {
	Shard string `json:"shard"`
	// Rows are those that were accepted or withdrawn, or all accepted ones of a list.
	Rows []AcceptedDrift `json:"rows"`
}

// AcceptedDrift is a row of drift that somebody accepted.
type AcceptedDrift struct {
	cert.AcceptedRow
	// Status is what the row is now: "holds" (both sides are as they were accepted), "void"
	// (one has changed, and the row counts as drift again), "over" (both sides are the same).
	// Empty of one that was withdrawn.
	Status string `json:"status,omitempty"`
}

// AcceptDrift records that the named rows of a table, which differ between side a and side
// b, may do so at a cutover: the landing has side a's row, and side b's content of it is
// given up. keys are in the form that a diff prints. It holds for exactly the contents that
// both sides have now. All rows are accepted or none: a row that is the same on both sides is
// an error that wraps diff.ErrSame, one that there is not wraps diff.ErrKey.
//
// A certificate that was given before knows nothing of it; a new diff takes it into account.
func (m *Move) AcceptDrift(ctx context.Context, table string, keys []string, why string) (*DriftReport, error) {
	report := &DriftReport{Shard: m.show}
	err := m.onDrift(ctx, "accept drift", func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		if err := m.sameSource(ctx, &doc); err != nil {
			return "", err
		}
		a, b, tables, err := m.driftSides(ctx)
		if err != nil {
			return "", err
		}
		settle := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, m.cfg.Limits.CatchUpTimeout)
			defer cancel()
			return m.levelled(ctx, a, b)
		}
		drifted, err := diff.DriftOf(ctx, m.pool(a), m.pool(b), tables, table, keys, settle)
		if err != nil {
			return "", fmt.Errorf("shard %s: %w: nothing was accepted", m.show, err)
		}
		now := time.Now().UTC().Round(0)
		var added []cert.AcceptedRow
		for _, d := range drifted {
			row := cert.AcceptedRow{Table: d.Table, Key: d.KeyText(), A: d.Pair.Source, B: d.Pair.Target, Newer: sideLetter(d.Newer), NewerBy: d.NewerBy, Who: state.Whoami(), Why: why, At: now}
			added = append(added, row)
			report.Rows = append(report.Rows, AcceptedDrift{AcceptedRow: row, Status: "holds"})
		}
		accepted := append(withoutRows(doc.AcceptedDrift, added), added...)
		if len(accepted) > maxAccepted {
			return "", fmt.Errorf("shard %s: that would be %d accepted rows, expected at most %d: sides that are so far apart need a repair; nothing was accepted", m.show, len(accepted), maxAccepted)
		}
		return "accepted: " + rowNames(added), lease.Update(ctx, func(d *state.Shard) {
			d.AcceptedDrift = accepted
			m.voidFor(d, added)
		})
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// WithdrawDrift takes acceptances back. A certificate that rests on one of them is void. All
// are withdrawn or none: one that there is not wraps diff.ErrKey.
func (m *Move) WithdrawDrift(ctx context.Context, table string, keys []string, why string) (*DriftReport, error) {
	report := &DriftReport{Shard: m.show}
	err := m.onDrift(ctx, "withdraw drift", func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		var gone []cert.AcceptedRow
		for _, key := range keys {
			i := slices.IndexFunc(doc.AcceptedDrift, func(r cert.AcceptedRow) bool { return r.Table == table && r.Key == key })
			if i < 0 {
				return "", fmt.Errorf("shard %s: %w: no accepted row of table %q has the key %q as it is listed: nothing was withdrawn; vifl diff %s --accepted-drift lists them", m.show, diff.ErrKey, table, key, m.id)
			}
			gone = append(gone, doc.AcceptedDrift[i])
			report.Rows = append(report.Rows, AcceptedDrift{AcceptedRow: doc.AcceptedDrift[i]})
		}
		what := "withdrawn: " + rowNames(gone)
		if why != "" {
			what += ": " + why
		}
		return what, lease.Update(ctx, func(d *state.Shard) {
			d.AcceptedDrift = withoutRows(d.AcceptedDrift, gone)
			m.voidFor(d, gone)
		})
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// AcceptedDrift lists the accepted rows with what they are now. It takes no lease and changes
// nothing; a row that is written meanwhile may seem void for a moment.
func (m *Move) AcceptedDrift(ctx context.Context) (*DriftReport, error) {
	doc, err := m.Document(ctx)
	if err != nil {
		return nil, err
	}
	report := &DriftReport{Shard: m.show, Rows: []AcceptedDrift{}}
	if len(doc.AcceptedDrift) == 0 {
		return report, nil
	}
	a, b, tables, err := m.driftSides(ctx)
	if err != nil {
		return nil, err
	}
	now, err := diff.PairsNow(ctx, m.pool(a), m.pool(b), tables, pairsOf(doc.AcceptedDrift))
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	for i, r := range doc.AcceptedDrift {
		report.Rows = append(report.Rows, AcceptedDrift{AcceptedRow: r, Status: driftStatus(r, now[i])})
	}
	return report, nil
}

func driftStatus(r cert.AcceptedRow, now diff.Pair) string {
	switch {
	case now.Same():
		return "over"
	case now == pairOf(r):
		return "holds"
	}
	return "void"
}

// onDrift changes the accepted rows under the shard's lease. It is allowed where a diff is,
// and does not change the phase.
func (m *Move) onDrift(ctx context.Context, verb string, run func(context.Context, *state.Lease) (string, error)) error {
	lctx, lease, err := m.store.Acquire(ctx, m.id, m.keyspace, verb, leaseWait, func(s string) { m.reporter.Note("%s", s) })
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := m.recoverAttempt(lctx, lease, engine.Diff); err != nil {
		return err
	}
	phase := lease.Doc().Phase
	if _, err := engine.Move(engine.Diff, phase); err != nil {
		return fmt.Errorf("shard %s: %s: %w", m.show, verb, err)
	}
	start := time.Now()
	what, err := run(lctx, lease)
	if err != nil {
		return interrupted(lctx, err)
	}
	return lease.Record(lctx, state.Event{Verb: verb, From: phase, To: phase, What: what, Millis: float64(time.Since(start).Microseconds()) / 1000})
}

// voidFor voids a certificate that names one of the rows as something else than is accepted
// now.
func (m *Move) voidFor(d *state.Shard, rows []cert.AcceptedRow) {
	if d.Certificate == nil || d.CertificateVoid != "" {
		return
	}
	for _, named := range d.Certificate.Drift.Accepted {
		if slices.ContainsFunc(rows, func(r cert.AcceptedRow) bool { return r.Table == named.Table && r.Key == named.Key }) {
			d.CertificateVoid = fmt.Sprintf("what was accepted of %s (%s) has changed", named.Table, named.Key)
			return
		}
	}
}

// driftSides are both sides with their tables.
func (m *Move) driftSides(ctx context.Context) (a, b *legacy.Server, tables *schema.Schema, err error) {
	if a, b, err = m.pair(ctx); err != nil {
		return nil, nil, nil, err
	}
	if tables, err = schema.Read(ctx, a.DB(), m.shard.Database); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", a.Name(), err)
	}
	return a, b, tables, nil
}

func (m *Move) pool(s *legacy.Server) diff.Pool {
	return diff.Pool{Name: s.Name(), Database: m.shard.Database, DB: s.DB()}
}

// letThrough takes the drift that the certificate names as accepted out of what was found of
// the newest rows of side b. Both sides are at rest: a row that is not exactly what was
// accepted, be it among the newest or not, is an error.
func (s *switchover) letThrough(ctx context.Context, report *diff.Report) error {
	doc := s.lease.Doc()
	if doc.Certificate == nil || len(doc.Certificate.Drift.Accepted) == 0 {
		return nil
	}
	accepted := doc.Certificate.Drift.Accepted
	now, err := diff.PairsNow(ctx, s.m.pool(s.a), s.m.pool(s.b), s.schema, pairsOf(accepted))
	if err != nil {
		return err
	}
	for i, r := range accepted {
		if driftStatus(r, now[i]) == "void" {
			return fmt.Errorf("%s and %s: the row %s (%s) differs and is not what was accepted at %s: it has been written since; run vifl diff %s", s.a.Name(), s.b.Name(), r.Table, r.Key, r.At.Format(time.RFC3339), s.m.id)
		}
	}
	takeOut(report, s.b.Name(), accepted)
	return nil
}

// takeOut takes accepted rows out of what was found of one target, and returns what it took.
func takeOut(report *diff.Report, target string, accepted []cert.AcceptedRow) (out []diff.Difference) {
	for i := range report.Targets {
		t := &report.Targets[i]
		if t.Name != target {
			continue
		}
		t.Differences = slices.DeleteFunc(t.Differences, func(d diff.Difference) bool {
			found := slices.ContainsFunc(accepted, func(r cert.AcceptedRow) bool { return r.Table == d.Table && r.Key == d.KeyText() })
			if found {
				t.Differing--
				if t.ByTable[d.Table]--; t.ByTable[d.Table] == 0 {
					delete(t.ByTable, d.Table)
				}
				out = append(out, d)
			}
			return found
		})
	}
	return out
}

// letThroughBack does the same for a comparison of both sides with the landing. An accepted
// row that is no longer what was accepted, on either side, stays among what differs.
func (m *Move) letThroughBack(ctx context.Context, doc *state.Shard, report *diff.Report, a, b *legacy.Server, tables *schema.Schema) error {
	if doc.Certificate == nil || len(doc.Certificate.Drift.Accepted) == 0 {
		return nil
	}
	accepted := doc.Certificate.Drift.Accepted
	now, err := diff.PairsNow(ctx, m.pool(a), m.pool(b), tables, pairsOf(accepted))
	if err != nil {
		return err
	}
	var holds []cert.AcceptedRow
	for i, r := range accepted {
		if driftStatus(r, now[i]) == "holds" {
			holds = append(holds, r)
		}
	}
	report.Accepted = takeOut(report, b.Name(), holds)
	return nil
}

// acceptedRows are the acceptances that a diff let through.
func acceptedRows(doc *state.Shard, drift *diff.Report) []cert.AcceptedRow {
	var out []cert.AcceptedRow
	for _, d := range drift.Accepted {
		if i := slices.IndexFunc(doc.AcceptedDrift, func(r cert.AcceptedRow) bool { return pairOf(r) == d.Pair }); i >= 0 {
			out = append(out, doc.AcceptedDrift[i])
		}
	}
	return out
}

func pairOf(r cert.AcceptedRow) diff.Pair {
	return diff.Pair{Table: r.Table, Key: r.Key, Source: r.A, Target: r.B}
}

func pairsOf(rows []cert.AcceptedRow) []diff.Pair {
	out := make([]diff.Pair, len(rows))
	for i, r := range rows {
		out[i] = pairOf(r)
	}
	return out
}

// withoutRows leaves out those of rows that are of the same table and key as one of gone.
func withoutRows(rows, gone []cert.AcceptedRow) []cert.AcceptedRow {
	var out []cert.AcceptedRow
	for _, r := range rows {
		if !slices.ContainsFunc(gone, func(g cert.AcceptedRow) bool { return g.Table == r.Table && g.Key == r.Key }) {
			out = append(out, r)
		}
	}
	return out
}

func rowNames(rows []cert.AcceptedRow) string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = fmt.Sprintf("%s (%s)", r.Table, r.Key)
	}
	return strings.Join(names, ", ")
}

// sideLetter is the side that a comparison of b with a calls source or target.
func sideLetter(side string) string {
	switch side {
	case "source":
		return config.SideA
	case "target":
		return config.SideB
	}
	return ""
}
