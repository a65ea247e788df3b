package shardmove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// DiffReport is the outcome of a diff.
type DiffReport struct {
	Shard    string `json:"shard"`
	Position string `json:"position"`
	Equal    bool   `json:"equal"`
	// BlockedMillis is how long writes on side a were blocked by the cut.
	BlockedMillis float64  `json:"blocked_ms"`
	Tables        int      `json:"tables"`
	Rows          uint64   `json:"rows"`
	RowsPerSecond float64  `json:"rows_per_second"`
	Seconds       float64  `json:"seconds"`
	Tablets       []string `json:"tablets"`
	// Different counts the differing rows of all tablets and of side b.
	Different uint64 `json:"different"`
	// Targets says of each tablet and of side b how many rows differ and how many are listed.
	Targets     []DiffTarget `json:"targets"`
	Differences []DiffEntry  `json:"differences,omitempty"`
	// Accepted are rows of side b that differ as somebody accepted them; they are not counted.
	Accepted []DiffEntry `json:"accepted,omitempty"`
	// Unkeyed are tables without a key, which are compared with the tablets and not between the
	// sides. With any there is no certificate.
	Unkeyed []string `json:"unkeyed,omitempty"`
	// Repair is there when it was asked for and rows differ: one entry for each target with
	// differences.
	Repair []DiffRepair `json:"repair,omitempty"`
	// Refusals say why there is no certificate although nothing differs; absent where there is one.
	Refusals []guard.Finding `json:"refusals,omitempty"`
	// MaxRows is the most rows that are listed of each target; more are only counted.
	MaxRows int    `json:"max_rows"`
	Digest  string `json:"certificate,omitempty"`
}

// DiffTarget is how one tablet, or side b, compares with side a.
type DiffTarget struct {
	Target string `json:"target"`
	// Different counts all differing rows, Listed those among the report's differences.
	Different uint64 `json:"different"`
	Listed    uint64 `json:"listed"`
	// AtLeast: Different and ByTable are lower bounds. Only where a table without a key has more
	// differing rows than are listed.
	AtLeast bool `json:"at_least,omitempty"`
	// ByTable counts all differing rows of each table that has some.
	ByTable map[string]uint64 `json:"by_table,omitempty"`
}

// DiffEntry is one differing row.
type DiffEntry struct {
	Target string `json:"target"` // a tablet, or side b
	Table  string `json:"table"`
	Key    string `json:"key"`  // in the form that Explain takes
	Kind   string `json:"kind"` // missing: on side a only; extra: on the target only; changed
	// Copies is how many times more the one side has the row, of a table without a key; 0 else.
	Copies uint64 `json:"copies,omitempty"`
	// Columns are those that differ, with side a's value (source) and the target's; of a
	// missing or extra row all, with the one value.
	Columns []diff.ColumnDifference `json:"columns"`
	// Newer is the side, a or b, that the column NewerBy says was written last. Only of side
	// b's rows, and empty where no column tells.
	Newer   string `json:"newer,omitempty"`
	NewerBy string `json:"newer_by,omitempty"`
}

// DiffRepair is what would make one target equal to side a, or did where AppliedAt is set.
type DiffRepair struct {
	Target string `json:"target"`
	// Statements are whole but for their semicolons, and are to be run in order on one
	// connection with the landing's database. Values are those of the cut.
	Statements []string `json:"statements,omitempty"`
	// Unlisted counts differing rows that have no statement because they are not listed.
	Unlisted uint64 `json:"unlisted,omitempty"`
	// Problem says why there are no statements.
	Problem string `json:"problem,omitempty"`
	// AppliedAt is side a's position at which the statements were run, and whose values they
	// have; empty when nothing was run. Applied counts the rows that still differed there.
	AppliedAt string `json:"applied_at,omitempty"`
	Applied   uint64 `json:"applied,omitempty"`
}

// DiffOptions say what a diff reports.
type DiffOptions struct {
	// MaxRows bounds the listed rows of each target; 0 is DefaultMaxRows.
	MaxRows int
	// Repair asks for the statements that would make the landing equal to side a.
	Repair bool
	// Apply runs them on the landing's primary, with the values of a new cut.
	Apply bool
	// MaxRowsPerSecond bounds how fast side a is read; 0 is the configuration's
	// limits.diff_rows_per_second.
	MaxRowsPerSecond int
}

// DefaultMaxRows is how many differing rows of each target are listed. More help nobody, and
// each takes up to some kilobytes of memory.
const DefaultMaxRows = 10_000

// Diff compares side a with every tablet of the landing at one cut, and with side b. When
// nothing differs it writes a certificate.
func (m *Move) Diff(ctx context.Context, o DiffOptions) (*DiffReport, error) {
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.MaxRowsPerSecond <= 0 {
		o.MaxRowsPerSecond = m.cfg.Limits.DiffRowsPerSecond
	}
	var report *DiffReport
	err := m.locked(ctx, engine.Diff, func(ctx context.Context, lease *state.Lease) (string, error) {
		// Whatever comes of this one, an older certificate must not outlive a newer look.
		if err := lease.Update(ctx, func(d *state.Shard) {
			if d.Certificate != nil {
				d.CertificateVoid = "a newer diff was begun"
			}
			d.Phase = state.Syncing
		}); err != nil {
			return "", err
		}
		var err error
		report, err = m.diff(ctx, lease, o)
		m.keep(ctx, engine.Diff, report)
		if err != nil {
			return "", err
		}
		if !report.Equal {
			what := fmt.Sprintf("%d row(s) differ at %s", report.Different, report.Position)
			for _, r := range report.Repair {
				if r.AppliedAt != "" {
					what += fmt.Sprintf("; %d repaired on %s at %s", r.Applied, r.Target, r.AppliedAt)
				}
			}
			return what, &Different{Shard: m.show, Rows: int64(report.Different)}
		}
		return fmt.Sprintf("equal at %s, %d rows", report.Position, report.Rows), nil
	})
	return report, err
}

func (m *Move) diff(ctx context.Context, lease *state.Lease, o DiffOptions) (*DiffReport, error) {
	doc := lease.Doc()
	if err := m.sameSource(ctx, &doc); err != nil {
		return nil, err
	}
	if err := m.checkSeedRecords(ctx, &doc); err != nil {
		return nil, err
	}
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, err
	}
	s := m.stream(&doc)
	if err := m.running(ctx, &doc, s); err != nil {
		return nil, err
	}
	if o.Apply {
		if err := m.mayRepair(ctx); err != nil {
			return nil, err
		}
	}
	tablets, err := m.openTablets(ctx)
	if err != nil {
		return nil, err
	}
	defer tablets.close()
	tables, err := m.sameSchemas(ctx, a, b, tablets)
	if err != nil {
		return nil, err
	}
	reader, err := m.inspect(ctx, lease)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	mark, err := a.Beat(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.waitStream(ctx, s, mark); err != nil {
		return nil, err
	}
	if err := reader.wait(ctx, mark); err != nil {
		return nil, err
	}

	options := diff.Options{MaxListed: o.MaxRows, MaxRowsPerSecond: o.MaxRowsPerSecond, Watch: m.watch(a, b)}
	if options.Watch != nil {
		// A source that keeps too much already must not get snapshots on top.
		if _, err := options.Watch(ctx); err != nil {
			return nil, fmt.Errorf("shard %s: %w", m.show, err)
		}
	}
	start := time.Now()
	cut, targets, err := m.cut(ctx, a, s, tablets)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cut.Close() }()
	if err := reader.wait(ctx, cut.Position); err != nil {
		return nil, err
	}
	source := diff.Side{Name: a.Name(), Database: m.shard.Database, Conns: cut.Snapshots}
	result, err := diff.Compare(ctx, source, targets, tables, options, m.showDiff("diff of the landing"))
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	drift, err := m.drift(ctx, a, b, tables, options, doc.AcceptedDrift)
	if err != nil {
		return nil, err
	}
	report := m.diffReport(cut, tablets, result, drift, time.Since(start))
	report.MaxRows = o.MaxRows
	if o.Repair && !report.Equal {
		report.Repair = repairs(ctx, source, tables, tablets, result, drift)
		if o.Apply {
			if err := m.applyRepairs(ctx, a, s, tablets, tables, result, report.Repair); err != nil {
				return report, err // what differs is known all the same
			}
		}
	}
	m.pause(engine.Diff, "compared")
	if !report.Equal {
		return report, nil
	}
	if len(report.Unkeyed) > 0 {
		// Preflight lets no such table into a move, but a key may have been dropped since, on all
		// servers. No stream can carry what is written to it from here on, so that the tables are
		// equal at this instant is no reason to cut over.
		refused := m.noKeys(report.Unkeyed)
		report.Refusals = refused.Findings
		return report, refused
	}
	certificate, err := m.certify(ctx, &doc, cut, start, tablets, tables, result, drift)
	if err != nil {
		return nil, err
	}
	report.Digest = certificate.Digest
	return report, lease.Update(ctx, func(d *state.Shard) { d.Certificate, d.CertificateVoid = certificate, "" })
}

// noKeys refuses what needs every row to have a key of its own.
func (m *Move) noKeys(tables []string) *Refused {
	return &Refused{Verb: engine.Diff, Shard: m.show, Findings: []guard.Finding{{
		ID: guard.KeysID, Name: guard.KeysName, Level: guard.Refuse, Server: m.show, Found: "no primary key, nor a visible unique key of whole columns that are NOT NULL: " + strings.Join(tables, ", "),
		Expected: "one of them on every table", Remedy: fmt.Sprintf("the rows are equal now, but no stream can carry what is written to these tables, so there is no certificate: vifl abort %s, ALTER TABLE … ADD PRIMARY KEY, seed again", m.id),
	}}}
}

// openTablet is a tablet with vifl's connection to its server.
type openTablet struct {
	vitess.Tablet
	db *sql.DB
}

type openTablets []openTablet

func (ts openTablets) close() {
	for _, t := range ts {
		_ = t.db.Close()
	}
}

// primary is the tablet that the stream writes to.
func (ts openTablets) primary() *openTablet {
	for i := range ts {
		if ts[i].Type == "PRIMARY" {
			return &ts[i]
		}
	}
	return nil
}

// openTablets connects to every tablet of the landing: the first failover may promote any,
// so a diff that leaves one out proves nothing about it.
func (m *Move) openTablets(ctx context.Context) (openTablets, error) {
	list, err := m.landing.Tablets(ctx)
	if err != nil {
		return nil, err
	}
	acc, err := m.landingAccount()
	if err != nil {
		return nil, err
	}
	var open openTablets
	for _, t := range list {
		if t.Problem != "" {
			open.close()
			return nil, fmt.Errorf("landing %s: tablet %s does not answer: %s: every tablet must be compared; repair it, or remove its record", m.keyspace, t.Alias, t.Problem)
		}
		db, err := m.landing.Connect(ctx, t, acc, m.shard.Database)
		if err != nil {
			open.close()
			return nil, err
		}
		open = append(open, openTablet{Tablet: t, db: db})
	}
	if open.primary() == nil {
		open.close()
		return nil, fmt.Errorf("landing %s: found no primary among its %d tablet(s)", m.keyspace, len(list))
	}
	return open, nil
}

// sameSchemas reads the tables everywhere and refuses differences: rows cannot be compared
// across them.
func (m *Move) sameSchemas(ctx context.Context, a, b *legacy.Server, tablets openTablets) (*schema.Schema, error) {
	tables, err := schema.Read(ctx, a.DB(), m.shard.Database)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name(), err)
	}
	remedy := fmt.Sprintf(" vifl abort %s and seed again", m.id)
	if err := m.sameTables(ctx, tables, a.Name(), b.Name(), b.DB(), remedy); err != nil {
		return nil, err
	}
	for _, t := range tablets {
		if err := m.sameTables(ctx, tables, a.Name(), "tablet "+t.Alias, t.db, remedy); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// sameTables refuses a server whose tables are not those of another.
func (m *Move) sameTables(ctx context.Context, tables *schema.Schema, of, name string, q schema.Queryer, remedy string) error {
	other, err := schema.Read(ctx, q, m.shard.Database)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if d := schema.Differences(tables, other); len(d) > 0 {
		return fmt.Errorf("shard %s: the tables of %s and %s differ in %d place(s): %s: was there a DDL?%s", m.show, of, name, len(d), d[0], remedy)
	}
	return nil
}

// cut makes the instant at which everything is read: snapshots of side a at one position,
// and snapshots of every tablet with the stream stopped exactly there. The stream is halted
// before the position is known, or it would be past it by the time it is told to stop; it
// goes on as soon as the snapshots are open, so the copy never waits for the comparison.
func (m *Move) cut(ctx context.Context, a *legacy.Server, s stopper, tablets openTablets) (cut *legacy.Cut, sides []diff.Side, err error) {
	halted := time.Now()
	if err := s.Stop(ctx); err != nil {
		return nil, nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	m.pause(engine.Diff, "stream stopped")
	defer func() {
		resume(ctx, s, &err)
		m.reporter.Note("the stream stood still for %d ms", time.Since(halted).Milliseconds())
	}()
	cut, err = a.Cut(ctx, m.cfg.Limits.DiffParallelism, m.cfg.Limits.LockTimeout)
	if err != nil {
		return nil, nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	m.reporter.Note("cut at %s: writes blocked %.1f ms, %d attempt(s)", cut.Position, float64(cut.Blocked.Microseconds())/1000, cut.Attempts)
	if sides, err = m.snapshotTablets(ctx, s, tablets, cut.Position); err != nil {
		_ = cut.Close()
		return nil, nil, err
	}
	return cut, sides, nil
}

// snapshotTablets brings the landing to a position and opens snapshots on every tablet.
func (m *Move) snapshotTablets(ctx context.Context, s stopper, tablets openTablets, at position.FilePos) ([]diff.Side, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Limits.CatchUpTimeout)
	defer cancel()
	if err := s.StopAt(ctx, at); err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	gtid, err := vitess.GTIDExecuted(ctx, tablets.primary().db)
	if err != nil {
		return nil, fmt.Errorf("landing %s: %w", m.keyspace, err)
	}
	var sides []diff.Side
	for i := range tablets {
		t := &tablets[i]
		if err := vitess.WaitGTID(ctx, t.db, gtid); err != nil {
			return nil, fmt.Errorf("landing %s: tablet %s: %w", m.keyspace, t.Alias, err)
		}
		side := diff.Side{Name: "tablet " + t.Alias, Database: m.shard.Database}
		for range m.cfg.Limits.DiffParallelism {
			conn, err := snapshot(ctx, t.db)
			if err != nil {
				return nil, fmt.Errorf("landing %s: tablet %s: %w", m.keyspace, t.Alias, err)
			}
			side.Conns = append(side.Conns, conn)
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// stopper is what a diff needs of a stream.
type stopper interface {
	Stop(ctx context.Context) error
	StopAt(ctx context.Context, p position.FilePos) error
	Resume(ctx context.Context) error
}

// resume lets a stream go on that was stopped for a look, also behind an interrupt, and joins
// the error.
func resume(ctx context.Context, s stopper, err *error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	*err = errors.Join(*err, s.Resume(detached))
}

// snapshot is a connection inside a transaction that sees the server as it is now. It ends
// with the pool.
func snapshot(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, stmt := range []string{
		"SET SESSION transaction_isolation = 'REPEATABLE-READ', SESSION wait_timeout = 86400, SESSION max_execution_time = 0",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if _, err := conn.ExecContext(ctx, stmt); err != nil {
			return nil, fmt.Errorf("open a snapshot: %w", err)
		}
	}
	return conn, nil
}

// drift compares side b with side a while both take writes: rows that differ are read again
// after each side has applied the other's later writes, and what still differs is drift.
func (m *Move) drift(ctx context.Context, a, b *legacy.Server, tables *schema.Schema, o diff.Options, accepted []cert.AcceptedRow) (*diff.Report, error) {
	settle := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, m.cfg.Limits.CatchUpTimeout)
		defer cancel()
		return m.levelled(ctx, a, b)
	}
	o.Accepted = pairsOf(accepted)
	report, err := diff.Drift(ctx,
		m.pool(a), m.pool(b), tables, m.cfg.Limits.DiffParallelism, o, settle, m.showDiff("diff of side b"))
	if err != nil {
		return nil, fmt.Errorf("shard %s: side b against side a: %w", m.show, err)
	}
	return report, nil
}

// levelled returns when each side has applied what the other had written when it was called.
func (m *Move) levelled(ctx context.Context, a, b *legacy.Server) error {
	fromA, err := a.Beat(ctx)
	if err != nil {
		return err
	}
	fromB, err := b.Beat(ctx)
	if err != nil {
		return err
	}
	if err := legacy.WaitApplied(ctx, b, a, fromA); err != nil {
		return err
	}
	return legacy.WaitApplied(ctx, a, b, fromB)
}

// showDiff shows one of the two comparisons of a diff by its name: the second begins at
// nothing again.
func (m *Move) showDiff(what string) func(diff.Progress) {
	return func(p diff.Progress) {
		paused := ""
		if p.Paused != "" {
			paused = "; paused: " + p.Paused
		}
		m.reporter.Progress(Progress{What: what, Done: float64(p.TablesDone), Total: float64(p.Tables), Detail: fmt.Sprintf("%d of %d tables, %d rows, %.0f rows/s, %d differ", p.TablesDone, p.Tables, p.Rows, p.RowsPerSecond, p.Differing) + paused})
	}
}

func (m *Move) diffReport(cut *legacy.Cut, tablets openTablets, result, drift *diff.Report, took time.Duration) *DiffReport {
	r := &DiffReport{
		Shard: m.show, Position: cut.Position.String(), BlockedMillis: float64(cut.Blocked.Microseconds()) / 1000,
		Tables: len(result.Tables), Rows: result.Rows, Seconds: took.Seconds(), RowsPerSecond: float64(result.Rows) / max(result.Elapsed.Seconds(), 0.001),
		Different: result.Differing() + drift.Differing(),
	}
	r.Equal = r.Different == 0
	r.Unkeyed = drift.NotCompared
	for _, t := range tablets {
		r.Tablets = append(r.Tablets, t.Alias)
	}
	for _, part := range []*diff.Report{result, drift} {
		for _, target := range part.Targets {
			r.Targets = append(r.Targets, DiffTarget{Target: target.Name, Different: target.Differing, Listed: target.Listed(), AtLeast: target.AtLeast, ByTable: target.ByTable})
			for _, d := range target.Differences {
				r.Differences = append(r.Differences, diffEntry(target.Name, d))
			}
		}
	}
	for _, d := range drift.Accepted {
		r.Accepted = append(r.Accepted, diffEntry(drift.Targets[0].Name, d))
	}
	return r
}

func diffEntry(target string, d diff.Difference) DiffEntry {
	return DiffEntry{Target: target, Table: d.Table, Key: d.KeyText(), Kind: string(d.Kind), Copies: d.Copies, Columns: d.Columns, Newer: sideLetter(d.Newer), NewerBy: d.NewerBy}
}

// repairs writes the statements for the landing's primary. Its replicas follow it, so one
// that differs by itself cannot be repaired by statements; and of two sides that drifted it
// is not for vifl to say which is right.
func repairs(ctx context.Context, source diff.Side, tables *schema.Schema, tablets openTablets, result, drift *diff.Report) []DiffRepair {
	var out []DiffRepair
	for i := range result.Targets {
		t := &result.Targets[i]
		if t.Differing == 0 {
			continue
		}
		r := DiffRepair{Target: t.Name, Unlisted: t.Differing - t.Listed()}
		if t.Name != "tablet "+tablets.primary().Alias {
			r.Problem = "not the primary: it follows the primary's repair; if it differs by itself, let it restore from the backup again"
		} else if statements, err := diff.Repair(ctx, source, tables, t); err != nil {
			r.Problem = err.Error()
		} else {
			r.Statements = statements
		}
		out = append(out, r)
	}
	for _, t := range drift.Targets {
		if t.Differing > 0 {
			out = append(out, DiffRepair{Target: t.Name, Unlisted: t.Differing, Problem: "the sides of the legacy drifted apart: decide row by row which side is right, and change the other there"})
		}
	}
	return out
}
