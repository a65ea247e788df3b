package shardmove

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/workflows/engine"
)

// errWentForward ends a verb whose work recovery has just finished.
var errWentForward = errors.New("the interrupted command was brought to its end")

// recoverAttempt clears what a former owner left: a rehearsal or cutover that was cut short
// before the point of no undo is taken back; one behind it is brought to its end, but only
// by the verb that began it, so that the operator who asks for anything else is told.
//
// Order matters. First the former owner's connections are killed, then the epoch in mains is
// raised, then anything is touched: a process that was only asleep can no longer thaw a
// server or change mains once both are done.
func (m *Move) recoverAttempt(ctx context.Context, lease *state.Lease, verb engine.Verb) error {
	if err := m.undoTemporary(ctx, lease); err != nil {
		return err
	}
	doc := lease.Doc()
	if doc.Attempt == nil {
		return nil
	}
	at := *doc.Attempt
	if at.NoUndo && verb != engine.Verb(at.Verb) {
		return &engine.IllegalMove{Verb: verb, From: doc.Phase, Hint: fmt.Sprintf("a %s begun %s is behind the point of no undo: run %s, it goes on from there", at.Verb, at.Started.Format(time.RFC3339), m.command(at))}
	}
	m.reporter.Note("a %s begun %s did not end: clearing it up", at.Verb, at.Started.Format(time.RFC3339))
	a, b, err := m.pair(ctx)
	if err != nil {
		return err
	}
	for _, side := range []*legacy.Server{a, b} {
		if _, err := side.KillOwn(ctx); err != nil {
			return err
		}
	}
	if err := m.raiseEpoch(ctx, lease); err != nil {
		return err
	}
	switch back := at.Verb == string(engine.Rollback); {
	case back && at.NoUndo:
		return m.rollbackForward(ctx, lease, at)
	case back:
		return m.rollbackBack(ctx, lease, at)
	case at.NoUndo:
		return m.goForward(ctx, lease, a, b, at)
	}
	return m.goBack(ctx, lease, a, b, at)
}

// lockAction is how a shard lock of ours names its purpose.
func (m *Move) lockAction(verb engine.Verb) string {
	return fmt.Sprintf("vifl %s %s by %s", verb, m.id, state.Whoami())
}

// waitFormerLock waits for the shard lock of a killed vifl to expire. We hold the shard's
// lease, so a lock that vifl took for this shard has no owner any more that may act. It also
// waits for a recovery of VTOrc's: behind a rollback that was killed or taken back VTOrc, which
// waited for the lock, looks at a primary that was read only a moment ago. Any other lock is
// left to the refusals, and these too when they last.
func (m *Move) waitFormerLock(ctx context.Context) error {
	const limit = 40 * time.Second
	for start := time.Now(); ; {
		holder, err := m.landing.LockHolder(ctx)
		if err != nil {
			return err
		}
		what := ""
		switch {
		case time.Since(start) > limit:
		case strings.Contains(holder, "vifl ") && strings.Contains(holder, " "+m.id.String()+" by "):
			what = "waiting for the shard lock of a killed vifl to expire"
		case strings.Contains(holder, vtorcRecovery):
			what = "waiting for a recovery of VTOrc's to end"
		}
		if what == "" {
			return nil
		}
		m.reporter.Progress(Progress{What: what, Detail: holder})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// patientRefusals asks the guards when no lock is left that will be gone in a moment. A
// recovery of VTOrc's may begin just between: where nothing else refuses, it is waited for.
func (m *Move) patientRefusals(ctx context.Context, refusals func(context.Context) error) error {
	const attempts = 4
	for attempt := 1; ; attempt++ {
		if err := m.waitFormerLock(ctx); err != nil {
			return err
		}
		err := refusals(ctx)
		if err == nil || attempt == attempts || !onlyRecovery(err) {
			return err
		}
	}
}

// onlyRecovery says that nothing but the lock of a recovery of VTOrc's refused.
func onlyRecovery(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) {
		return false
	}
	for _, f := range refused.Findings {
		if f.ID != "R16" || !strings.Contains(f.Found, vtorcRecovery) {
			return false
		}
	}
	return true
}

// vtorcRecovery is how VTOrc names what it holds a shard lock for.
const vtorcRecovery = "VTOrc Recovery"

// locking runs f under the landing's shard lock, once that of a killed vifl has expired.
func (m *Move) locking(ctx context.Context, verb engine.Verb, f func(context.Context) error) (err error) {
	if err := m.waitFormerLock(ctx); err != nil {
		return err
	}
	ctx, unlock, err := m.landing.Lock(ctx, m.lockAction(verb))
	if err != nil {
		return err
	}
	defer unlock(&err)
	return f(ctx)
}

// served is where mains sends the application.
func (m *Move) served(ctx context.Context) (route.Traffic, error) {
	sw, err := m.route(ctx)
	if err != nil {
		return "", err
	}
	return sw.Served(ctx, m.id)
}

// goBack fences the landing, thaws both sides to the flags they had, and lets the stream go
// on. Mains is read first: if it sends the application to vtgate after all, nothing may be
// taken back.
func (m *Move) goBack(ctx context.Context, lease *state.Lease, a, b *legacy.Server, at state.Attempt) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	if served != route.Legacy {
		return fmt.Errorf("shard %s: an attempt is noted as not yet switched, but mains sends the application to %s: a person must decide; nothing was changed", m.show, served)
	}
	if at.FenceOpen {
		if err := m.locking(ctx, "undo", func(ctx context.Context) error { return m.landing.SetFence(ctx, true) }); err != nil {
			return err
		}
	}
	if err := m.thawSides(ctx, []*legacy.Server{a, b}, at); err != nil {
		return err
	}
	doc := lease.Doc()
	if doc.Stream != nil {
		if err := m.stream(&doc).Resume(ctx); err != nil {
			return err
		}
	}
	if err := lease.Update(ctx, func(d *state.Shard) { d.Attempt = nil }); err != nil {
		return err
	}
	m.reporter.Note("taken back: both sides have the flags they had, the landing is fenced, the stream runs")
	return lease.Record(ctx, state.Event{Verb: "recover", From: doc.Phase, To: doc.Phase, What: "took back a " + at.Verb + " that did not end"})
}

func (m *Move) thawSides(ctx context.Context, sides []*legacy.Server, at state.Attempt) error {
	for _, side := range sides {
		for _, f := range at.Frozen {
			if f.Side != side.Side() {
				continue
			}
			id, err := side.Identity(ctx)
			if err != nil {
				return err
			}
			if id.ServerUUID != f.Server {
				return fmt.Errorf("%s: found server %s, expected %s, which was frozen: the shard's sides were changed; thaw that server by hand to %+v", side.Name(), id.ServerUUID, f.Server, f.Found)
			}
			if err := side.SetFlags(ctx, legacy.Flags(f.Found)); err != nil {
				return err
			}
		}
	}
	return nil
}

// goForward ends a cutover whose change of mains was attempted.
func (m *Move) goForward(ctx context.Context, lease *state.Lease, a, b *legacy.Server, at state.Attempt) error {
	// Where the stream back was made already, the legacy is closed for good, and side a's
	// position has moved by that.
	order := 0
	back, err := m.back().Status(ctx)
	if err != nil {
		return err
	}
	end := at.Final
	if back.State == stream.Absent {
		// A legacy that was restarted meanwhile is open again: close it before looking.
		for _, side := range []*legacy.Server{a, b} {
			if err := side.SetFlags(ctx, legacy.Flags{ReadOnly: true, SuperReadOnly: true}); err != nil {
				return err
			}
		}
		if end, err = a.Position(ctx); err != nil {
			return err
		}
		if order, err = position.Compare(end, at.Final); err != nil {
			return err
		}
	}
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	if order != 0 && served != route.Vitess {
		return fmt.Errorf("shard %s: %s is at %s, behind the cutover's final position %s: it took writes that the landing does not have, and mains does not send the application to vtgate yet: both sides are closed; a person must decide", m.show, a.Name(), end, at.Final)
	}
	if order != 0 {
		m.reporter.Note("%s is at %s, behind the final position %s: somebody wrote there after the switch; look at these events", a.Name(), end, at.Final)
	}
	err = m.locking(ctx, engine.Cutover, func(ctx context.Context) error {
		if err := m.landing.SetFence(ctx, false); err != nil {
			return err
		}
		// The pause began with the attempt. Where the change of mains had happened before the
		// crash it ended there, which nobody saw: then this is its upper bound.
		s := &switchover{m: m, lease: lease, verb: engine.Cutover, a: a, b: b, final: at.Final, frozenAt: at.Started, lockCtx: ctx}
		_, err := engine.Run(ctx, engine.Cutover, s.forwardSteps(), lease.Prove, m.reporter.Step, m.pauses)
		return err
	})
	if err != nil {
		return err
	}
	if err := lease.Record(ctx, state.Event{Verb: string(engine.Cutover), From: state.Validated, To: state.Switched, What: "brought an interrupted cutover to its end at " + at.Final.String()}); err != nil {
		return err
	}
	return errWentForward
}

// Thaw takes back what an interrupted rehearsal or cutover left frozen.
func (m *Move) Thaw(ctx context.Context) (string, error) {
	lctx, lease, err := m.store.Acquire(ctx, m.id, m.keyspace, "thaw", leaseWait, func(s string) { m.reporter.Note("%s", s) })
	if err != nil {
		return "", err
	}
	defer lease.Release()
	frozen := lease.Doc().Attempt != nil
	if err := m.recoverAttempt(lctx, lease, "thaw"); err != nil {
		return "", err
	}
	if !frozen {
		return "nothing of ours is frozen", nil
	}
	return "thawed", nil
}
