package shardmove

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
)

// Complete is the one-way door: the streams' records go, and what vifl put on the legacy
// except that it stays closed. No legacy data is deleted. Where there is a stream back the
// legacy must have been found equal to the landing not long ago, unless the operator gives
// the way back up as it is (OneWay).
func (m *Move) Complete(ctx context.Context, o CutoverOptions) error {
	if refused := guard.TypedNumber(m.id, o.Confirm); len(refused) > 0 {
		return &Refused{Verb: engine.Complete, Shard: m.show, Findings: refused}
	}
	return m.locked(ctx, engine.Complete, func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		if err := m.sameSource(ctx, &doc); err != nil {
			return "", err
		}
		a, b, err := m.pair(ctx)
		if err != nil {
			return "", err
		}
		receipt := ""
		if doc.Reverse != nil {
			if receipt, err = m.endBack(ctx, lease, o); err != nil {
				return "", err
			}
		}
		if err := m.stream(&doc).Delete(ctx); err != nil {
			return "", err
		}
		// The legacy is super_read_only. Lifting that alone leaves read_only and offline_mode
		// on, under which only administrators write: the application stays out.
		for _, side := range []*legacy.Server{a, b} {
			if err := undoWrites(ctx, lease, side, true); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("the legacy pair stays closed (persisted super_read_only and offline_mode); its data is untouched; switched at %s%s", doc.Switch.Final, receipt), lease.Update(ctx, func(d *state.Shard) { d.Reverse = nil })
	})
}

// endBack ends the stream back, and says what is known of the legacy at its end.
// What it says is noted first: whoever goes on behind a crash finds no stream any more.
func (m *Move) endBack(ctx context.Context, lease *state.Lease, o CutoverOptions) (string, error) {
	doc := lease.Doc()
	receipt := "; the way back was given up without a comparison"
	if doc.Reverse.Ended != "" {
		receipt = doc.Reverse.Ended
	} else if !o.OneWay {
		observed, err := m.observeBack(ctx, &doc, o)
		if err != nil {
			return "", err
		}
		if refused := guard.CompleteRefusals(observed); len(refused) > 0 {
			return "", &Refused{Verb: engine.Complete, Shard: m.show, Findings: refused}
		}
		d := doc.Reverse.Diff
		receipt = fmt.Sprintf("; the legacy was equal to the landing at %s of %s on %s (%d rows)", d.Position, d.Tablet, d.At.Format(time.RFC3339), d.Rows)
	}
	if err := lease.Update(ctx, func(d *state.Shard) {
		next := *d.Reverse
		next.Ended = receipt
		d.Reverse = &next
	}); err != nil {
		return "", err
	}
	if err := m.back().Delete(ctx); err != nil {
		return "", err
	}
	m.pause(engine.Complete, "stream back ended")
	side, err := m.side(ctx, backSide)
	if err != nil {
		return "", err
	}
	return receipt, side.KeepClosed(ctx)
}

// Abort gives the move up before the switch: stream, landing, backup and everything that
// vifl put on the legacy go. The legacy's data and traffic were never touched.
func (m *Move) Abort(ctx context.Context) error {
	return m.locked(ctx, engine.Abort, func(ctx context.Context, lease *state.Lease) (string, error) {
		served, err := m.served(ctx)
		if err != nil {
			return "", err
		}
		if served == route.Vitess {
			return "", fmt.Errorf("shard %s: mains sends the application to vtgate: its landing must not be removed; nothing was changed", m.show)
		}
		doc := lease.Doc()
		exists, err := m.landing.Exists(ctx)
		if err != nil {
			return "", err
		}
		if exists {
			if doc.Stream != nil {
				if err := m.stream(&doc).Delete(ctx); err != nil {
					m.reporter.Note("the stream could not be deleted, it goes with its tablets: %v", err)
				}
			}
			if err := m.hook(ctx, "deprovision", m.cfg.Hooks.Deprovision); err != nil {
				return "", err
			}
			if err := m.landing.Delete(ctx); err != nil {
				return "", err
			}
		}
		if _, err := seed.RemoveBackups(ctx, m.cfg.Backup.Root, m.keyspace); err != nil {
			return "", err
		}
		if len(doc.LegacyWrites) > 0 {
			a, b, err := m.pair(ctx)
			if err != nil {
				return "", err
			}
			for _, side := range []*legacy.Server{a, b} {
				if err := undoWrites(ctx, lease, side, false); err != nil {
					return "", err
				}
			}
		}
		return "stream, landing and backup removed; the legacy is as it was", lease.Update(ctx, func(d *state.Shard) {
			d.Preflight, d.Seed, d.Stream, d.Certificate, d.CertificateVoid, d.LegacyWrites = nil, nil, nil, nil, "", nil
			d.AcceptedDrift = nil // accepted for this move, not for whichever comes next
		})
	})
}

// hooksExist looks for the programs of the hooks: one that is missing must not be noticed
// behind the copy of a whole shard.
func (m *Move) hooksExist() error {
	for _, h := range []struct {
		name    string
		command []string
	}{{"provision", m.cfg.Hooks.Provision}, {"deprovision", m.cfg.Hooks.Deprovision}} {
		if len(h.command) == 0 {
			continue
		}
		if _, err := exec.LookPath(h.command[0]); err != nil {
			return fmt.Errorf("shard %s: hooks.%s in %s: %w, expected a program: nothing was changed", m.show, h.name, m.cfg.Path(), err)
		}
	}
	return nil
}

// atWork shows every two seconds that something without progress of its own (a hook, servers
// that do not answer) is still at work, until the function that it returns is called.
func (m *Move) atWork(what string) (end func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				m.reporter.Progress(Progress{What: what, Detail: fmt.Sprintf("at work for %.0f s", time.Since(start).Seconds())})
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// hook runs a program of the operator's. Its output goes to stderr as it comes.
func (m *Move) hook(ctx context.Context, name string, command []string) error {
	if len(command) == 0 {
		return nil
	}
	limit := m.cfg.Limits.TabletTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s (tablet_timeout)", limit))
	defer cancel()
	defer m.atWork("hook " + name)()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(),
		"VIFL_SHARD="+m.id.String(), "VIFL_KEYSPACE="+m.keyspace, "VIFL_DATABASE="+m.shard.Database,
		"VIFL_SIDE_A="+m.shard.Sides[config.SideA], "VIFL_SIDE_B="+m.shard.Sides[config.SideB])
	if err := cmd.Run(); err != nil {
		// The end of the context kills the program: "signal: killed" would hide who did it.
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return fmt.Errorf("shard %s: the hook hooks.%s (%s): %w", m.show, name, command[0], err)
	}
	return nil
}
