package shardmove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// SwitchReport is what a rehearsal or a cutover did.
type SwitchReport struct {
	Shard string         `json:"shard"`
	Verb  string         `json:"verb"`
	Final string         `json:"final_position"`
	Steps []state.Timing `json:"steps"`
	// PauseMillis is from the first freeze to the moment writes were possible again: the
	// change of mains, or the thaw of a rehearsal.
	PauseMillis float64 `json:"pause_ms"`
	// Newest is how many rows were compared inside the freeze.
	Newest uint64 `json:"newest_rows_compared"`
	// Killed is how many connections of the application were ended on the legacy.
	Killed int `json:"connections_ended,omitempty"`
}

// CutoverOptions are what the operator says to a cutover.
type CutoverOptions struct {
	// Confirm is the shard number, typed again.
	Confirm string
	// OneWay makes no stream back: what is written behind the cutover cannot be brought back.
	OneWay bool
	// MaxAge and MaxLag override the limits of the configuration when not zero; they are
	// the only refusals that can be argued with.
	MaxAge, MaxLag time.Duration
}

// Rehearse does everything of a cutover up to the point where it would open the landing,
// measures it, and thaws.
func (m *Move) Rehearse(ctx context.Context, o CutoverOptions) (*SwitchReport, error) {
	var report *SwitchReport
	err := m.locked(ctx, engine.Rehearse, func(ctx context.Context, lease *state.Lease) (string, error) {
		o.Confirm, o.OneWay = m.id.String(), true // a rehearsal changes no traffic
		s, err := m.newSwitchover(ctx, lease, engine.Rehearse, o)
		if err != nil {
			return "", err
		}
		defer s.close()
		steps := s.freezeSteps()
		timings, err := engine.Run(ctx, engine.Rehearse, steps, lease.Prove, m.reporter.Step, m.pauses)
		report = s.report(timings)
		if err != nil {
			return "", err
		}
		back, err := engine.Back(ctx, steps, lease.Prove, m.reporter.Step)
		report = s.report(append(timings, back...))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("frozen, equal at %s, thawed after %.0f ms", s.final, report.PauseMillis), nil
	})
	return report, err
}

// Cutover switches the shard's traffic to the landing.
func (m *Move) Cutover(ctx context.Context, o CutoverOptions) (*SwitchReport, error) {
	var report *SwitchReport
	err := m.locked(ctx, engine.Cutover, func(ctx context.Context, lease *state.Lease) (string, error) {
		s, err := m.newSwitchover(ctx, lease, engine.Cutover, o)
		if err != nil {
			return "", err
		}
		defer s.close()
		steps := append(s.freezeSteps(), s.openSteps()...)
		steps = append(steps, s.forwardSteps()...)
		timings, err := engine.Run(ctx, engine.Cutover, steps, lease.Prove, m.reporter.Step, m.pauses)
		report = s.report(timings)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("switched at %s, writes paused %.0f ms", s.final, report.PauseMillis), nil
	})
	if err != nil || report != nil {
		return report, err
	}
	// Recovery brought an interrupted one to its end; what it did is in the state.
	doc, err := m.Document(ctx)
	if err != nil {
		return nil, err
	}
	report = &SwitchReport{Shard: m.show, Verb: string(engine.Cutover)}
	if doc.Switch != nil {
		report.Final, report.PauseMillis = doc.Switch.Final.String(), doc.Switch.PauseMillis
	}
	return report, nil
}

// Refusals lists everything that a cutover would be refused for now, changing nothing.
func (m *Move) Refusals(ctx context.Context, o CutoverOptions) ([]guard.Finding, error) {
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	if err != nil {
		return nil, err
	}
	observed, err := m.observe(ctx, doc, o)
	if err != nil {
		return nil, err
	}
	return guard.Refusals(observed), nil
}

// openSteps open the landing and prove that writes reach it. They can still be undone: the
// application does not know the landing's name yet.
func (s *switchover) openSteps() []engine.Step {
	return []engine.Step{
		{
			Name: "open the landing for writes",
			Do: s.bounded(func(ctx context.Context) (string, error) {
				gtid, err := vitess.GTIDExecuted(ctx, s.target)
				if err != nil {
					return "", err
				}
				if err := s.attempt(ctx, func(a *state.Attempt) { a.FenceOpen, a.LandingGTID = true, gtid }); err != nil {
					return "", err
				}
				return "", s.m.landing.SetFence(s.underLock(ctx), false)
			}),
			Undo: func(ctx context.Context) error { return s.m.landing.SetFence(s.underLock(ctx), true) },
		},
		{
			Name: "probe: write and read through vtgate",
			Do:   s.bounded(func(ctx context.Context) (string, error) { return "", s.m.probe(ctx, s.lease.Epoch()) }),
		},
		{
			Name: "the pause is within its bound",
			Do: s.bounded(func(ctx context.Context) (string, error) {
				return fmt.Sprintf("%.0f of %d ms", float64(time.Since(s.frozenAt).Milliseconds()), s.m.cfg.Limits.MaxPause.Milliseconds()), ctx.Err()
			}),
		},
	}
}

// forwardSteps begin with the point of no undo. Each can be run again by a new owner.
func (s *switchover) forwardSteps() []engine.Step {
	return []engine.Step{
		{Name: "mains sends the application to vtgate", NoUndo: true, Do: func(ctx context.Context) (string, error) {
			if err := s.attempt(ctx, func(a *state.Attempt) { a.NoUndo = true }); err != nil {
				return "", err
			}
			s.m.pause(engine.Cutover, "between the attempt and the change of mains")
			note, err := s.flip(ctx, route.Legacy, route.Vitess)
			s.endPause()
			return note, err
		}},
		{Name: "end the application's connections on the legacy", Do: func(ctx context.Context) (string, error) {
			for _, side := range s.sides() {
				n, err := side.KillApplication(ctx, s.m.cfg.Legacy.Exempt)
				s.killed += n
				if err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("%d ended", s.killed), nil
		}},
		{Name: "keep the legacy closed, over restarts too", Do: func(ctx context.Context) (string, error) {
			for _, side := range s.sides() {
				for _, name := range []string{"super_read_only", "offline_mode"} {
					w := state.LegacyWrite{Server: side.Name(), What: "SET PERSIST " + name + " = ON", Undo: "RESET PERSIST IF EXISTS " + name, Kept: true}
					if err := wrote(ctx, s.lease, w); err != nil {
						return "", err
					}
				}
				if err := side.KeepClosed(ctx); err != nil {
					return "", err
				}
			}
			return "", nil
		}},
		{Name: "start the stream back", Do: s.startBack},
		{Name: "write the switch down", Do: func(ctx context.Context) (string, error) {
			return "", s.lease.Update(ctx, func(d *state.Shard) {
				at := d.Attempt
				d.Reverse = nil
				if !at.OneWay {
					d.Reverse = &state.Reverse{Start: at.LandingGTID, Side: backSide}
				}
				d.Switch = &state.Switch{At: time.Now().UTC(), Final: at.Final, LandingGTID: at.LandingGTID, Frozen: at.Frozen, PauseMillis: s.pauseMillis()}
				d.Attempt = nil
				d.Phase = state.Switched
			})
		}},
	}
}

// flipAttempts bounds asking mains again after replies that were lost.
const flipAttempts = 5

// flip changes mains. A lost reply is neither success nor failure: mains is read, and when
// it still sends the application to where it did the change is tried again.
func (s *switchover) flip(ctx context.Context, from, to route.Traffic) (string, error) {
	sw, err := s.m.route(ctx)
	if err != nil {
		return "", err
	}
	var last error
	for attempt := range flipAttempts {
		if attempt > 0 {
			time.Sleep(200 * time.Millisecond)
		}
		served, err := sw.Served(ctx, s.m.id)
		if err == nil && served == to {
			if attempt == 0 {
				return "mains was there already", nil
			}
			return "the reply was lost, but mains has changed", nil
		}
		if err == nil && served != from {
			return "", fmt.Errorf("mains sends %s neither to the legacy pair nor to vtgate (%s): somebody else changed it; a person must decide", s.m.show, served)
		}
		if err == nil {
			err = sw.Flip(ctx, s.m.id, s.lease.Epoch(), to)
			if err == nil {
				return "", nil
			}
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("the change of mains for %s is not known to have happened: %w: writes stay stopped; when mains answers again, run the %s again", s.m.show, last, s.verb)
}

// probeDeadline bounds one probe. vtgate learns of the opened landing from the topo server,
// a few tens of milliseconds after it was written.
const probeDeadline = 5 * time.Second

// probe writes a row through vtgate, in a session aimed at the landing's shard, and reads it
// back through a session with the name that the application will use.
func (m *Move) probe(ctx context.Context, epoch uint64) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	var last error
	for {
		err := m.probeOnce(ctx, epoch)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("a write through vtgate at %s to %s does not get through: %w", m.cfg.Vtgate.Address, m.show, errors.Join(last, ctx.Err()))
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *switchover) report(timings []state.Timing) *SwitchReport {
	return &SwitchReport{
		Shard: s.m.show, Verb: string(s.verb), Final: s.final.String(), Steps: timings,
		PauseMillis: s.pauseMillis(), Newest: s.newest, Killed: s.killed,
	}
}
