package shardmove

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"vitess.io/vitess/go/mysql/replication"

	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// landingSide is how an attempt names the landing's primary among what it froze.
const landingSide = "landing"

// rollback is one attempt to freeze the landing and bring the legacy to its final state.
//
// Until mains is changed everything is taken back by opening the landing again: the legacy
// stays closed until then, so there is no write on it that would be lost. Behind it, it is
// the landing that is closed, and the legacy is opened.
type rollback struct {
	*switchover
	landing *legacy.Server // the landing's primary
	held    *legacy.Freeze
	gtid    replication.Mysql56GTIDSet // what the landing had executed when it was frozen
}

// Rollback brings the shard's traffic back to the legacy, with everything that was written
// on the landing since the cutover. The landing then follows the legacy again.
func (m *Move) Rollback(ctx context.Context, o CutoverOptions) (*SwitchReport, error) {
	var report *SwitchReport
	err := m.locked(ctx, engine.Rollback, func(ctx context.Context, lease *state.Lease) (string, error) {
		r, err := m.newRollback(ctx, lease, o)
		if err != nil {
			return "", err
		}
		defer r.close()
		timings, err := engine.Run(ctx, engine.Rollback, append(r.freezeSteps(), r.forwardSteps()...), lease.Prove, m.reporter.Step, m.pauses)
		report = r.report(timings)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("back on the legacy from %s on, writes paused %.0f ms; the landing follows it again", r.final, report.PauseMillis), nil
	})
	if err != nil || report != nil {
		return report, err
	}
	// Recovery brought an interrupted one to its end; what it did is in the state.
	doc, err := m.Document(ctx)
	if err != nil {
		return nil, err
	}
	report = &SwitchReport{Shard: m.show, Verb: string(engine.Rollback)}
	if doc.Stream != nil {
		report.Final = doc.Stream.Start.String()
	}
	return report, nil
}

// RollbackRefusals lists everything that a rollback would be refused for now.
func (m *Move) RollbackRefusals(ctx context.Context, o CutoverOptions) ([]guard.Finding, error) {
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	if err != nil {
		return nil, err
	}
	if _, err := engine.Move(engine.Rollback, doc.Phase); err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	observed, err := m.observeBack(ctx, doc, o)
	if err != nil {
		return nil, err
	}
	return guard.RollbackRefusals(observed), nil
}

func (m *Move) newRollback(ctx context.Context, lease *state.Lease, o CutoverOptions) (*rollback, error) {
	r := &rollback{switchover: m.attempted(lease, engine.Rollback, o)}
	if doc := lease.Doc(); backwards(&doc) {
		// Of one that has failed the refusals speak.
		if err := m.backReady(ctx); err != nil && !errors.Is(err, errBackFailed) {
			return nil, err
		}
	}
	if err := m.patientRefusals(ctx, r.refusals); err != nil {
		return nil, err
	}
	for _, prepare := range []func(context.Context) error{r.connect, r.connectLanding, r.reportOften, r.settle} {
		if err := prepare(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// connect opens both sides.
func (r *rollback) connect(ctx context.Context) (err error) {
	m := r.m
	if r.a, r.b, err = m.pair(ctx); err != nil {
		return err
	}
	if r.schema, err = schema.Read(ctx, r.a.DB(), m.shard.Database); err != nil {
		return fmt.Errorf("%s: %w", r.a.Name(), err)
	}
	return nil
}

// connectLanding opens the landing's primary.
func (r *rollback) connectLanding(ctx context.Context) (err error) {
	m := r.m
	if r.primary, err = m.landing.Primary(ctx); err != nil {
		return err
	}
	if r.landing, err = m.tabletServer(ctx, r.primary); err != nil {
		return err
	}
	r.target = r.landing.DB()
	return nil
}

func (r *rollback) close() {
	if r.held != nil {
		r.held.Close()
	}
	r.switchover.close()
}

func (r *rollback) refusals(ctx context.Context) error {
	doc := r.lease.Doc()
	observed, err := r.m.observeBack(ctx, &doc, r.opts)
	if err != nil {
		return err
	}
	if refused := guard.RollbackRefusals(observed); len(refused) > 0 {
		return &Refused{Verb: r.verb, Shard: r.m.show, Findings: refused}
	}
	return nil
}

// settle waits until a freeze can be short: the legacy has what the landing had a moment ago,
// side b what side a has, and no long statement runs on the landing.
func (r *rollback) settle(ctx context.Context) error {
	limit := r.m.cfg.Limits.CatchUpTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		start := time.Now()
		if err := r.m.backReady(ctx); err != nil {
			return err
		}
		mark, err := r.a.Beat(ctx)
		if err != nil {
			return err
		}
		if err := legacy.WaitApplied(ctx, r.b, r.a, mark); err != nil {
			return err
		}
		why := ""
		if took := time.Since(start); took > 4*r.m.inStep() {
			why = fmt.Sprintf("the legacy took %d ms to get the landing's newest write, expected at most %d, half of max_pause", took.Milliseconds(), 4*r.m.inStep().Milliseconds())
		}
		running, err := r.landing.LongStatements(ctx, time.Second)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			why = fmt.Sprintf("%d long statement(s) on %s: %s", len(running), r.landing.Name(), running[0])
		}
		if why == "" {
			return r.m.back().Expect(ctx)
		}
		r.m.reporter.Progress(Progress{What: "waiting for a good moment", Detail: why})
		select {
		case <-ctx.Done():
			return fmt.Errorf("shard %s: waited %s (catch_up_timeout) for a good moment to freeze: %s: come back when there is less traffic", r.m.show, limit, why)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freezeSteps bring the landing to rest and the legacy to its final state.
func (r *rollback) freezeSteps() []engine.Step {
	m := r.m
	return append(r.lockSteps(r.refusals, route.Legacy), []engine.Step{
		{
			Name: "note the landing's primary and its flags", OnlyIfAllUndone: true,
			Do: r.noteLanding,
			Undo: func(ctx context.Context) error {
				return r.lease.Update(ctx, func(d *state.Shard) { d.Attempt = nil })
			},
		},
		{
			// vtgate first: behind it nothing new reaches the tablet, but open transactions still
			// commit there.
			Name: "fence the landing",
			Do: r.bounded(func(ctx context.Context) (string, error) {
				r.frozenAt = time.Now()
				return "", m.landing.SetFence(r.underLock(ctx), true)
			}),
			Undo: func(ctx context.Context) error {
				defer r.endPause()
				return m.landing.SetFence(r.underLock(ctx), false)
			},
		},
		{
			Name: "freeze the landing's primary",
			Do: r.bounded(func(ctx context.Context) (string, error) {
				f, err := r.landing.Freeze(ctx, m.cfg.Limits.LockTimeout)
				if err != nil {
					return "", err
				}
				r.held = f
				return fmt.Sprintf("super_read_only had in %.1f ms", float64(f.Took().Microseconds())/1000), nil
			}),
			Undo: r.thawLanding,
		},
		{
			// A transaction that was open stays so: vtgate turns its statements away, but not its
			// COMMIT, which would succeed once the landing takes the stream's writes again.
			Name: "end the landing's open transactions",
			Do: r.bounded(func(ctx context.Context) (string, error) {
				prepared, err := r.landing.PreparedXA(ctx)
				if err != nil {
					return "", err
				}
				if len(prepared) > 0 {
					return "", fmt.Errorf("%s: %d prepared XA transaction(s), which can commit on a frozen server: finish them first: %s", r.landing.Name(), len(prepared), prepared[0])
				}
				return r.endTransactions(ctx)
			}),
		},
		{
			Name: "the stream back applies the landing's last transaction",
			Do:   r.bounded(r.drain),
		},
		{
			Name: "stop the stream back",
			Do:   r.bounded(func(ctx context.Context) (string, error) { return "", m.back().Stop(ctx) }),
			Undo: func(ctx context.Context) error { return m.back().Resume(ctx) },
		},
		{Name: "counters on the legacy past the landing's", Do: r.bounded(r.raiseLegacyCounters)},
		{Name: "side b applies the last of side a", Do: r.bounded(r.levelB)},
		{Name: "compare the newest keys", Do: r.bounded(r.compareNewest)},
		{Name: "nothing moved", Do: r.bounded(r.stillFrozen)},
	}...)
}

func (r *rollback) noteLanding(ctx context.Context) (string, error) {
	id, err := r.landing.Identity(ctx)
	if err != nil {
		return "", err
	}
	if id.ServerUUID != r.primary.ServerUUID {
		return "", fmt.Errorf("%s: found server %s, expected %s", r.landing.Name(), id.ServerUUID, r.primary.ServerUUID)
	}
	flags, err := r.landing.Flags(ctx)
	if err != nil {
		return "", err
	}
	if flags.ReadOnly || flags.SuperReadOnly {
		return "", fmt.Errorf("%s: found %s, expected a primary that takes writes: wait until its failover has ended", r.landing.Name(), flags)
	}
	return r.primary.Alias, r.attempt(ctx, func(a *state.Attempt) {
		*a = state.Attempt{
			Verb: string(r.verb), Epoch: r.lease.Epoch(), Started: time.Now().UTC(),
			Frozen: []state.Frozen{{Side: landingSide, Server: id.ServerUUID, Found: state.Flags(flags)}},
		}
	})
}

func (r *rollback) thawLanding(ctx context.Context) error {
	if r.held == nil {
		return nil
	}
	if err := r.held.Thaw(ctx); err != nil {
		if err2 := r.landing.SetFlags(ctx, r.held.Found()); err2 != nil {
			return errors.Join(err, err2)
		}
	}
	r.held = nil
	return nil
}

func (r *rollback) endTransactions(ctx context.Context) (string, error) {
	n, err := r.landing.KillTransactions(ctx)
	return fmt.Sprintf("%d ended", n), err
}

// drain waits until the legacy has exactly the transactions that the landing has.
func (r *rollback) drain(ctx context.Context) (note string, err error) {
	if r.gtid, err = executedOn(ctx, r.target); err != nil {
		return "", err
	}
	if err := r.attempt(ctx, func(a *state.Attempt) { a.LandingGTID = r.gtid.String() }); err != nil {
		return "", err
	}
	if err := r.m.backApplied(ctx, r.gtid); err != nil {
		return "", err
	}
	st, err := r.m.back().Status(ctx)
	if err != nil {
		return "", err
	}
	applied, err := replication.ParseMysql56GTIDSet(st.GTID)
	if err != nil {
		return "", err
	}
	if more := applied.Difference(r.gtid); more.Count() > 0 {
		return "", fmt.Errorf("the legacy has %d transaction(s) that the landing has not (%s): the landing lost them in a failover; a person must decide which side is right", more.Count(), more)
	}
	return fmt.Sprintf("%d in all", r.gtid.Count()), nil
}

// raiseLegacyCounters sets the counters of side a past the landing's, for the reason that a
// cutover does; side b gets them by replication.
func (r *rollback) raiseLegacyCounters(ctx context.Context) (string, error) {
	database := r.m.shard.Database
	have, err := counters(ctx, r.a.DB(), database)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.a.Name(), err)
	}
	next, err := counters(ctx, r.target, database)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.landing.Name(), err)
	}
	raised := 0
	for table, n := range next {
		if have[table] >= n {
			continue
		}
		stmt := fmt.Sprintf("ALTER TABLE %s.%s AUTO_INCREMENT = %d", schema.Quote(database), schema.Quote(table), n)
		if _, err := r.a.DB().ExecContext(ctx, stmt); err != nil {
			return "", fmt.Errorf("%s: raise the counter of %q to %d: %w", r.a.Name(), table, n, err)
		}
		raised++
	}
	return fmt.Sprintf("%d of %d raised", raised, len(next)), nil
}

// levelB waits until side b has all of side a, and notes from where the landing has to follow
// side a again.
func (r *rollback) levelB(ctx context.Context) (note string, err error) {
	if _, err := r.a.Beat(ctx); err != nil {
		return "", err
	}
	if r.final, err = r.a.Position(ctx); err != nil {
		return "", err
	}
	if err := legacy.WaitApplied(ctx, r.b, r.a, r.final); err != nil {
		return "", err
	}
	return "the landing follows again from " + r.final.String(), r.attempt(ctx, func(a *state.Attempt) { a.Final = r.final })
}

// stillFrozen reads once more what must not have moved.
func (r *rollback) stillFrozen(ctx context.Context) (string, error) {
	if err := r.held.Check(ctx); err != nil {
		return "", err
	}
	now, err := executedOn(ctx, r.target)
	if err != nil {
		return "", err
	}
	if !now.Equal(r.gtid) {
		return "", fmt.Errorf("%s: it executed %s inside the freeze: somebody wrote", r.landing.Name(), now.Difference(r.gtid))
	}
	open, err := r.m.reopened(ctx)
	if err != nil {
		return "", err
	}
	for name, found := range open {
		return "", fmt.Errorf("%s: found %s: somebody opened it", name, found)
	}
	// Side a's binlog may move: the worker's signs of life are written there. Whatever comes
	// behind the final position the landing gets, which follows from there.
	return "", nil
}

// forwardSteps begin with the point of no undo. Each can be run again by a new owner.
func (r *rollback) forwardSteps() []engine.Step {
	m := r.m
	return []engine.Step{
		{Name: "mains sends the application to the legacy", NoUndo: true, Do: func(ctx context.Context) (string, error) {
			if err := r.attempt(ctx, func(a *state.Attempt) { a.NoUndo = true }); err != nil {
				return "", err
			}
			m.pause(engine.Rollback, "between the attempt and the change of mains")
			return r.flip(ctx, route.Vitess, route.Legacy)
		}},
		{Name: "open the legacy", Do: func(ctx context.Context) (string, error) {
			defer r.endPause()
			return "", r.openLegacy(ctx)
		}},
		{Name: "the landing follows the legacy again", Do: r.followAgain},
		{Name: "end the stream back", Do: func(ctx context.Context) (string, error) { return "", m.back().Delete(ctx) }},
		{Name: "write the rollback down", Do: func(ctx context.Context) (string, error) {
			return "", r.lease.Update(ctx, func(d *state.Shard) {
				var left []state.LegacyWrite
				for _, w := range d.LegacyWrites {
					if !w.Kept {
						left = append(left, w)
					}
				}
				d.LegacyWrites = left
				d.Switch, d.Reverse, d.Attempt, d.Certificate, d.CertificateVoid = nil, nil, nil, nil, ""
				d.Phase = state.Syncing
			})
		}},
	}
}

// openLegacy gives both sides the flags that they had before the cutover.
func (r *rollback) openLegacy(ctx context.Context) error {
	doc := r.lease.Doc()
	for _, side := range r.sides() {
		id, err := side.Identity(ctx)
		if err != nil {
			return err
		}
		for _, f := range doc.Switch.Frozen {
			if f.Side != side.Side() {
				continue
			}
			if f.Server != id.ServerUUID {
				return fmt.Errorf("%s: found server %s, expected %s, which the cutover closed", side.Name(), id.ServerUUID, f.Server)
			}
			if err := side.KeepOpen(ctx, legacy.Flags(f.Found)); err != nil {
				return err
			}
		}
	}
	return nil
}

// followAgain lets the landing, which stays fenced, take the writes of the forward stream, and
// makes that stream anew from where side a was opened.
func (r *rollback) followAgain(ctx context.Context) (string, error) {
	at := r.lease.Doc().Attempt
	if r.landing == nil {
		if err := r.connectLanding(ctx); err != nil {
			return "", err
		}
	}
	// Once more, while it is still frozen: a new owner knows of no earlier step.
	if _, err := r.endTransactions(ctx); err != nil {
		return "", err
	}
	if r.held != nil {
		if err := r.thawLanding(ctx); err != nil {
			return "", err
		}
	} else if err := r.m.thawFrozenLanding(ctx, at); err != nil {
		return "", err
	}
	doc := r.lease.Doc()
	s := r.m.stream(&doc)
	// The stream of before the cutover stands at its end; one that this step made is resumed.
	if st, err := s.Status(ctx); err != nil {
		return "", err
	} else if st.StartPosition != at.Final {
		if err := s.Delete(ctx); err != nil {
			return "", err
		}
	}
	if err := s.Start(ctx, at.Final); err != nil {
		return "", err
	}
	st, err := s.Status(ctx)
	if err != nil {
		return "", err
	}
	return "from " + at.Final.String(), r.lease.Update(ctx, func(d *state.Shard) {
		next := *d.Stream
		next.ID, next.Start, next.Inspected, next.Halted, next.Taints = st.ID, at.Final, at.Final, "", nil
		d.Stream = &next
	})
}

// thawFrozenLanding puts the flags back that the landing's primary had. Where another tablet
// was elected meanwhile, that one was never frozen.
func (m *Move) thawFrozenLanding(ctx context.Context, at *state.Attempt) error {
	primary, err := m.landing.Primary(ctx)
	if err != nil {
		return err
	}
	for _, f := range at.Frozen {
		if f.Side != landingSide || f.Server != primary.ServerUUID {
			continue
		}
		server, err := m.tabletServer(ctx, primary)
		if err != nil {
			return err
		}
		defer func() { _ = server.Close() }()
		if _, err := server.KillOwn(ctx); err != nil {
			return err
		}
		return server.SetFlags(ctx, legacy.Flags(f.Found))
	}
	return nil
}

// tabletServer connects to a tablet's own MySQL: what freezes or pins a legacy server, within
// a bound, does so with a tablet's as well.
func (m *Move) tabletServer(ctx context.Context, t vitess.Tablet) (*legacy.Server, error) {
	acc, err := m.landingAccount()
	if err != nil {
		return nil, err
	}
	return legacy.Open(ctx, m.landing.Target(t, acc, m.shard.Database), m.id, landingSide, m.shard.Database)
}

// rollbackBack takes back what an interrupted rollback did before its point of no undo.
func (m *Move) rollbackBack(ctx context.Context, lease *state.Lease, at state.Attempt) error {
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	if served != route.Vitess {
		return fmt.Errorf("shard %s: a rollback is noted as not yet switched, but mains sends the application to %s: a person must decide; nothing was changed", m.show, served)
	}
	if err := m.locking(ctx, "undo", func(ctx context.Context) error {
		return errors.Join(m.thawFrozenLanding(ctx, &at), m.landing.SetFence(ctx, false))
	}); err != nil {
		return err
	}
	if err := m.back().Resume(ctx); err != nil {
		return err
	}
	if err := lease.Update(ctx, func(d *state.Shard) { d.Attempt = nil }); err != nil {
		return err
	}
	m.reporter.Note("taken back: the landing takes writes again, the stream back runs")
	doc := lease.Doc()
	return lease.Record(ctx, state.Event{Verb: "recover", From: doc.Phase, To: doc.Phase, What: "took back a " + at.Verb + " that did not end"})
}

// rollbackForward ends a rollback whose change of mains was attempted.
func (m *Move) rollbackForward(ctx context.Context, lease *state.Lease, at state.Attempt) error {
	r := &rollback{switchover: m.attempted(lease, engine.Rollback, CutoverOptions{})}
	r.frozenAt, r.final = at.Started, at.Final
	if err := r.connect(ctx); err != nil {
		return err
	}
	served, err := m.served(ctx)
	if err != nil {
		return err
	}
	if err := m.locking(ctx, engine.Rollback, func(ctx context.Context) error {
		if err := m.landing.SetFence(ctx, true); err != nil {
			return err
		}
		if served == route.Vitess {
			// The legacy is still closed. What the landing took behind the freeze, the legacy lacks.
			if err := r.connectLanding(ctx); err != nil {
				return err
			}
			now, err := executedOn(ctx, r.target)
			if err != nil {
				return err
			}
			if now.String() != at.LandingGTID {
				return fmt.Errorf("shard %s: the landing executed %s, at the rollback's freeze it had %s, and mains does not send the application to the legacy yet: it may have taken writes that the legacy lacks; a person must decide", m.show, now, at.LandingGTID)
			}
		}
		r.lockCtx = ctx
		defer func() {
			if r.landing != nil {
				_ = r.landing.Close()
			}
		}()
		_, err := engine.Run(ctx, engine.Rollback, r.forwardSteps(), lease.Prove, m.reporter.Step, m.pauses)
		return err
	}); err != nil {
		return err
	}
	if err := lease.Record(ctx, state.Event{Verb: string(engine.Rollback), From: state.Switched, To: state.Syncing, What: "brought an interrupted rollback to its end; the landing follows again from " + at.Final.String()}); err != nil {
		return err
	}
	return errWentForward
}

// command is what an operator types to go on with an attempt.
func (m *Move) command(at state.Attempt) string {
	parts := []string{"vifl", at.Verb, m.id.String(), "--confirm", m.id.String()}
	if at.OneWay {
		parts = append(parts, "--one-way")
	}
	return strings.Join(parts, " ")
}
