package shardmove

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/seed/clone"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// Version is this vifl's own, written into seeds and certificates.
const Version = "0.1.0"

// Seed fills the landing: keyspace with its fence, scratch server, backup, tablets that
// restore it, a primary.
func (m *Move) Seed(ctx context.Context, method string) (*state.Seed, error) {
	var out *state.Seed
	err := m.locked(ctx, engine.Seed, func(ctx context.Context, lease *state.Lease) (string, error) {
		// Hours may lie between the preflight and now; a wrong server is found here, not
		// after its data was copied.
		doc := lease.Doc()
		if _, err := m.preflight(ctx, engine.Seed, streamKind(&doc)); err != nil {
			return "", err
		}
		// What is needed behind the copy is looked for before it.
		if err := m.hooksExist(); err != nil {
			return "", err
		}
		a, b, err := m.pair(ctx)
		if err != nil {
			return "", err
		}
		spec, err := m.seedSpec(ctx, method, a, b)
		if err != nil {
			return "", err
		}
		if err := m.clonable(ctx, spec, a); err != nil {
			return "", err
		}
		if err := m.emptyLanding(ctx); err != nil {
			return "", err
		}
		for _, side := range []*legacy.Server{a, b} {
			if err := prepareLegacy(ctx, lease, side); err != nil {
				return "", err
			}
		}
		m.pause(engine.Seed, "legacy prepared")
		start := time.Now()
		result, err := seed.Run(ctx, spec, m.showSeed)
		if err != nil {
			return "", err
		}
		out = &state.Seed{
			At: start.UTC(), Method: method, SourceA: server(spec.A), SourceB: server(spec.B), StreamSide: streamSide, Database: m.shard.Database,
			Position: result.Position, SchemaDigest: result.SchemaDigest, Backup: result.BackupName, Bytes: int64(result.Bytes), Rows: int64(result.Rows),
		}
		m.reporter.Note("backup %s: %.1f MB, position %s", result.BackupName, float64(result.BackupBytes)/1e6, result.Position)
		for _, name := range result.LeftOut {
			m.reporter.Note("left out: %s", name)
		}
		m.pause(engine.Seed, "backup made")
		if err := m.hook(ctx, "provision", m.cfg.Hooks.Provision); err != nil {
			return "", err
		}
		m.pause(engine.Seed, "tablets started")
		if err := m.raiseTablets(ctx, out); err != nil {
			return "", err
		}
		out.Seconds = time.Since(start).Seconds()
		return fmt.Sprintf("%s from side %s at %s: %s, %d bytes", method, streamSide, out.Position, RowsText(out), out.Bytes), lease.Update(ctx, func(d *state.Shard) {
			d.Seed, d.Stream, d.Certificate, d.CertificateVoid = out, nil, nil, ""
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// clonable refuses a seed by clone from a server that cannot be cloned from.
func (m *Move) clonable(ctx context.Context, spec seed.Spec, donor *legacy.Server) error {
	if spec.Method != seed.MethodClone {
		return nil
	}
	err := seed.CheckClone(ctx, spec, donor)
	var refused *clone.Refused
	if !errors.As(err, &refused) {
		return err
	}
	return &Refused{Verb: engine.Seed, Shard: m.show, Findings: []guard.Finding{{
		ID: guard.CloneID, Name: guard.CloneName, Level: guard.Refuse, Server: donor.Target().String(),
		Found: strings.Join(refused.Why, "; "), Expected: "a server that MySQL's CLONE can copy", Remedy: fmt.Sprintf("as each says, or vifl seed %s --method copy", m.id),
	}}}
}

// RowsText is how many rows a seed brought, in words: a clone copies files and counts none.
func RowsText(s *state.Seed) string {
	if s.Method == "clone" && s.Rows == 0 {
		return "rows not counted"
	}
	return fmt.Sprintf("%d rows", s.Rows)
}

// emptyLanding makes the landing's keyspace with its fence on. What an interrupted seed left
// is removed first: its tablets hold another snapshot.
func (m *Move) emptyLanding(ctx context.Context) error {
	exists, err := m.landing.Exists(ctx)
	if err != nil {
		return err
	}
	if exists {
		tablets, err := m.landing.Tablets(ctx)
		if err != nil {
			return err
		}
		fenced, err := m.landing.Fenced(ctx)
		if err != nil {
			return err
		}
		if !fenced {
			return fmt.Errorf("landing %s: it has %d tablet(s) and is not fenced, expected nothing there yet: this is somebody else's keyspace, or a shard that has been moved; nothing was changed", m.keyspace, len(tablets))
		}
		// Also without a tablet: the shard's record may name a primary of the last try,
		// and a new tablet would look for it.
		m.reporter.Note("removing what a seed that did not end left: %d tablet(s)", len(tablets))
		if err := m.hook(ctx, "deprovision", m.cfg.Hooks.Deprovision); err != nil {
			return err
		}
		if err := m.landing.Delete(ctx); err != nil {
			return err
		}
	}
	return m.landing.Create(ctx, m.cfg.Landing.Durability)
}

func (m *Move) seedSpec(ctx context.Context, method string, a, b *legacy.Server) (seed.Spec, error) {
	spec := seed.Spec{
		Shard: m.id, Keyspace: m.keyspace, Database: m.shard.Database, Method: method, StreamSide: streamSide,
		MySQLRoot: m.cfg.Tools.MySQLRoot, RunAs: m.cfg.Tools.RunAs, WorkDir: m.cfg.WorkDir, BackupRoot: m.cfg.Backup.Root,
		Parallelism: m.cfg.Limits.SeedParallelism, LockTimeout: m.cfg.Limits.LockTimeout, Version: Version,
		// The phase says that no finished seed of ours is there to be kept.
		Replace: true,
		Source:  m.source,
	}
	var err error
	if spec.A, err = a.Identity(ctx); err != nil {
		return spec, err
	}
	if spec.B, err = b.Identity(ctx); err != nil {
		return spec, err
	}
	if spec.Landing, err = m.landingAccount(); err != nil {
		return spec, err
	}
	for _, dir := range []*string{&spec.WorkDir, &spec.BackupRoot} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return spec, fmt.Errorf("shard %s: %w", m.show, err)
		}
	}
	return spec, nil
}

func (m *Move) showSeed(e seed.Event) {
	m.reporter.Progress(Progress{What: "seed: " + e.Phase, Done: float64(e.BytesDone), Total: float64(e.BytesTotal), Detail: seedDetail(e)})
}

// seedDetail says how far a seed is with what its event knows: a clone counts no rows, and a
// fill that has just begun neither rows nor bytes.
func seedDetail(e seed.Event) string {
	var parts []string
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if e.BytesDone > 0 {
		mb := float64(e.BytesDone) / 1e6
		parts = append(parts, fmt.Sprintf("%.1f MB", mb))
		if e.Elapsed > 0 {
			parts = append(parts, fmt.Sprintf("%.1f MB/s", mb/e.Elapsed.Seconds()))
		}
	}
	if e.RowsDone > 0 {
		parts = append(parts, fmt.Sprintf("%d rows", e.RowsDone))
	}
	if e.Phase == seed.PhaseFill && !e.Position.IsZero() {
		parts = append(parts, "from "+e.Position.String())
	}
	return strings.Join(parts, ", ")
}

// raiseTablets waits for the tablets that the provision hook started, checks what they
// restored before anything else, and elects a primary.
func (m *Move) raiseTablets(ctx context.Context, want *state.Seed) error {
	limit := m.cfg.Limits.TabletTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n := m.cfg.Landing.Tablets
	var tablets []vitess.Tablet
	var missing string
	for start := time.Now(); ; {
		var err error
		if tablets, err = m.landing.Tablets(ctx); err != nil {
			return err
		}
		ready := 0
		missing = ""
		for _, t := range tablets {
			if t.Problem == "" && (t.Type == "REPLICA" || t.Type == "PRIMARY") {
				ready++
			} else {
				missing += fmt.Sprintf("; %s is %s %s", t.Alias, t.Type, t.Problem)
			}
		}
		m.reporter.Progress(Progress{What: "tablets", Done: float64(ready), Total: float64(n), Detail: fmt.Sprintf("%d of %d restored, %.0f s", ready, n, time.Since(start).Seconds()), Final: ready >= n})
		if ready >= n {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("landing %s: found %d of %d tablets up after %s (tablet_timeout)%s: look at their logs, then run the seed again", m.keyspace, ready, n, limit, missing)
		case <-time.After(500 * time.Millisecond):
		}
	}
	for _, t := range tablets {
		if err := m.checkRecord(ctx, t, want); err != nil {
			return err
		}
	}
	if err := m.landing.Elect(ctx, tablets[0].Alias); err != nil {
		return err
	}
	return m.waitReplicas(ctx)
}

// waitReplicas waits until the primary has the semi-sync replicas that its durability
// policy needs: before that its first write would hang.
func (m *Move) waitReplicas(ctx context.Context) error {
	for {
		have, need, err := m.landing.SemiSyncReady(ctx)
		if err == nil && have >= need {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("landing %s: found %d semi-sync replicas, expected %d: %w", m.keyspace, have, need, errors.Join(err, ctx.Err()))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// checkSeedRecords proves that every tablet of the landing carries the record of the seed
// that the state knows.
func (m *Move) checkSeedRecords(ctx context.Context, doc *state.Shard) error {
	tablets, err := m.landing.Tablets(ctx)
	if err != nil {
		return err
	}
	if len(tablets) == 0 {
		return fmt.Errorf("landing %s has no tablets: start them, or vifl abort %s and seed again", m.keyspace, m.id)
	}
	for _, t := range tablets {
		if err := m.checkRecord(ctx, t, doc.Seed); err != nil {
			return err
		}
	}
	return nil
}

func (m *Move) checkRecord(ctx context.Context, t vitess.Tablet, want *state.Seed) error {
	r, err := m.readRecord(ctx, t)
	if errors.Is(err, seed.ErrNoRecord) {
		return fmt.Errorf("landing %s: tablet %s has no _vifl.seed: it came up empty, not from the seed's backup: check its --restore-from-backup and its backup storage", m.keyspace, t.Alias)
	}
	if err != nil {
		return err
	}
	if r.Shard != m.id || r.ServerA.ServerUUID != want.SourceA.ServerUUID || r.Position != want.Position {
		return fmt.Errorf("landing %s: tablet %s was restored from a seed of shard %s, server %s, at %s; expected shard %s, server %s, at %s", m.keyspace, t.Alias, r.Shard, r.ServerA.ServerUUID, r.Position, m.id, want.SourceA.ServerUUID, want.Position)
	}
	return nil
}

func (m *Move) readRecord(ctx context.Context, t vitess.Tablet) (*seed.Record, error) {
	acc, err := m.landingAccount()
	if err != nil {
		return nil, err
	}
	db, err := m.landing.Connect(ctx, t, acc, "")
	if err != nil {
		return nil, fmt.Errorf("landing %s: tablet %s: %w", m.keyspace, t.Alias, err)
	}
	defer func() { _ = db.Close() }()
	return seed.ReadRecord(ctx, db)
}

// server is a legacy server's identity as certificates keep it.
func server(i legacy.Identity) cert.Server { return cert.Server(i) }
