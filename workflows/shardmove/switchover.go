package shardmove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// switchover is one attempt to freeze the legacy pair and bring the landing to its final
// position. Everything that can be connected or read beforehand is, so that inside the
// freeze only what must happen there does.
type switchover struct {
	m     *Move
	lease *state.Lease
	verb  engine.Verb
	opts  CutoverOptions

	a, b    *legacy.Server
	stream  stream.Stream
	reader  *inspection
	primary vitess.Tablet
	target  *sql.DB // vifl's account on the landing's primary
	schema  *schema.Schema

	lockCtx context.Context
	unlock  func(*error)

	frozenAt time.Time
	thawedAt time.Time
	frozen   map[string]*legacy.Freeze
	before   map[string]legacy.Flags
	started  map[string]time.Time // when each server's process began, by its uptime
	ends     map[string]position.FilePos
	final    position.FilePos
	newest   uint64
	killed   int
}

// newestKeys is how many of the newest keys of each table are compared inside the freeze.
const newestKeys = 100

// newSwitchover connects, lists the refusals, and waits until the freeze can be short.
func (m *Move) newSwitchover(ctx context.Context, lease *state.Lease, verb engine.Verb, o CutoverOptions) (*switchover, error) {
	s := m.attempted(lease, verb, o)
	doc := lease.Doc()
	var err error
	// Before the refusals: they would refuse a stream that a killed command left standing.
	s.stream = m.stream(&doc)
	if err := m.running(ctx, &doc, s.stream); err != nil {
		return nil, err
	}
	if err := m.patientRefusals(ctx, s.refusals); err != nil {
		return nil, err
	}
	if s.a, s.b, err = m.pair(ctx); err != nil {
		return nil, err
	}
	if s.schema, err = schema.Read(ctx, s.a.DB(), m.shard.Database); err != nil {
		return nil, fmt.Errorf("%s: %w", s.a.Name(), err)
	}
	if err := s.sameServerStreamed(ctx); err != nil {
		return nil, err
	}
	if s.primary, err = m.landing.Primary(ctx); err != nil {
		return nil, err
	}
	acc, err := m.landingAccount()
	if err != nil {
		return nil, err
	}
	if s.target, err = m.landing.Connect(ctx, s.primary, acc, m.shard.Database); err != nil {
		return nil, err
	}
	if err := m.prepareProbe(ctx); err != nil {
		s.close()
		return nil, err
	}
	// One of a former cutover would be in the way where there is only forward.
	if err := m.back().Delete(ctx); err != nil {
		s.close()
		return nil, err
	}
	if s.reader, err = m.inspect(ctx, lease); err != nil {
		s.close()
		return nil, err
	}
	if err := s.reportOften(ctx); err != nil {
		s.close()
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// attempted is an attempt at which nothing is connected yet.
func (m *Move) attempted(lease *state.Lease, verb engine.Verb, o CutoverOptions) *switchover {
	return &switchover{m: m, lease: lease, verb: verb, opts: o, frozen: map[string]*legacy.Freeze{}, before: map[string]legacy.Flags{}, started: map[string]time.Time{}, ends: map[string]position.FilePos{}}
}

// checkpointMillis is how often both appliers report how far they are while a freeze may
// wait for them. With MySQL's 300 ms every writer would wait that much longer, twice.
const checkpointMillis = 10

// reportOften sets that period on both sides, for the time of this attempt.
func (s *switchover) reportOften(ctx context.Context) error {
	const name = "replica_checkpoint_period"
	for _, side := range s.sides() {
		vars, err := side.Variables(ctx)
		if err != nil {
			return err
		}
		found, err := strconv.Atoi(vars[name])
		if err != nil {
			return fmt.Errorf("%s: %s is %q, expected milliseconds", side.Name(), name, vars[name])
		}
		if found <= checkpointMillis {
			continue
		}
		w := state.LegacyWrite{Server: side.Name(), What: fmt.Sprintf("SET GLOBAL %s = %d", name, checkpointMillis), Undo: fmt.Sprintf("SET GLOBAL %s = %d", name, found), Temporary: true}
		if err := wrote(ctx, s.lease, w); err != nil {
			return err
		}
		if _, err := side.SetCheckpointPeriod(ctx, checkpointMillis); err != nil {
			return err
		}
	}
	return nil
}

func (s *switchover) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.m.undoTemporary(ctx, s.lease); err != nil {
		s.m.reporter.Note("%v: the next command for this shard does it", err)
	}
	if s.reader != nil {
		s.reader.close()
	}
	if s.target != nil {
		_ = s.target.Close()
	}
	for _, f := range s.frozen {
		f.Close()
	}
	if s.unlock != nil {
		var err error
		s.unlock(&err)
		s.unlock = nil
	}
}

func (s *switchover) sides() []*legacy.Server { return []*legacy.Server{s.a, s.b} }

// refusals asks the guards.
func (s *switchover) refusals(ctx context.Context) error {
	doc := s.lease.Doc()
	observed, err := s.m.observe(ctx, &doc, s.opts)
	if err != nil {
		return err
	}
	if refused := guard.Refusals(observed); len(refused) > 0 {
		return &Refused{Verb: s.verb, Shard: s.m.show, Findings: refused}
	}
	return nil
}

// sameServerStreamed proves again that the tablets' connection leads to side a: the primary
// may be another tablet than the one that the stream was made on, with a file of its own.
func (s *switchover) sameServerStreamed(ctx context.Context) error {
	v, ok := s.stream.(verifier)
	if !ok {
		return nil
	}
	err := v.Verify(ctx)
	if !errors.Is(err, stream.ErrWrongServer) {
		return err
	}
	return &Refused{Verb: s.verb, Shard: s.m.show, Findings: []guard.Finding{{
		ID: "R09", Name: "stream is not the certified one", Level: guard.Refuse, Server: "landing " + s.m.keyspace,
		Found: err.Error(), Expected: "a connection to " + s.a.Target().String(), Remedy: "check the external connections in the tablets' --tablet-config",
	}}}
}

// inStep is how quickly each side must apply the other's newest write for a freeze to begin: inside it
// every writer waits for exactly that, and it is one of some eight steps. 250 ms of the default pause of 2 s.
func (m *Move) inStep() time.Duration { return m.cfg.Limits.MaxPause / 8 }

// settle waits until a freeze can be short: the stream and the reader beside it are close to
// the end, the sides apply each other's writes at once, and no long statement runs on either
// (a freeze that waits makes every writer wait).
func (s *switchover) settle(ctx context.Context) error {
	limit := s.m.cfg.Limits.CatchUpTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	mark, err := s.a.Beat(ctx)
	if err != nil {
		return err
	}
	if err := s.m.waitStream(ctx, s.stream, mark); err != nil {
		return err
	}
	if err := s.reader.wait(ctx, mark); err != nil {
		return err
	}
	for {
		why, err := s.unsettled(ctx)
		if err != nil {
			return err
		}
		if why == "" {
			if e, ok := s.stream.(expecter); ok {
				return e.Expect(ctx)
			}
			return nil
		}
		s.m.reporter.Progress(Progress{What: "waiting for a good moment", Detail: why})
		select {
		case <-ctx.Done():
			return fmt.Errorf("shard %s: waited %s (catch_up_timeout) for a good moment to freeze: %s: come back when there is less traffic", s.m.show, limit, why)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// unsettled says why a freeze would be long now, empty when it would not.
func (s *switchover) unsettled(ctx context.Context) (string, error) {
	for _, side := range s.sides() {
		running, err := side.LongStatements(ctx, time.Second)
		if err != nil {
			return "", err
		}
		if len(running) > 0 {
			return fmt.Sprintf("%d long statement(s) on %s: %s", len(running), side.Name(), running[0]), nil
		}
	}
	start := time.Now()
	if err := s.m.levelled(ctx, s.a, s.b); err != nil {
		if ctx.Err() != nil {
			return "the sides do not apply each other's newest writes: " + err.Error(), nil
		}
		return "", err
	}
	if took := time.Since(start); took > s.m.inStep() {
		return fmt.Sprintf("the sides took %d ms to apply each other's newest write, expected at most %d, an eighth of max_pause", took.Milliseconds(), s.m.inStep().Milliseconds()), nil
	}
	return "", nil
}

// bounded gives a step inside the freeze no more time than the maximal pause leaves.
func (s *switchover) bounded(do func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		limit := s.m.cfg.Limits.MaxPause
		start := s.frozenAt
		if start.IsZero() {
			start = time.Now()
		}
		inside, cancel := context.WithDeadlineCause(ctx, start.Add(limit), fmt.Errorf("writes would be paused for longer than max_pause (%s)", limit))
		defer cancel()
		note, err := do(inside)
		if err != nil && inside.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(inside), err)
		}
		return note, err
	}
}

// underLock is a context that carries the shard lock, with the deadline of ctx.
func (s *switchover) underLock(ctx context.Context) context.Context {
	return lockedContext{Context: ctx, lock: s.lockCtx}
}

// lockedContext takes values (the lock that Vitess keeps in a context) from one context and
// life from another: an undo runs under the lock also when the lock's context was ended by
// the operator's interrupt.
type lockedContext struct {
	context.Context
	lock context.Context
}

// Value looks in the living context first.
func (c lockedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.lock.Value(key)
}

func (s *switchover) attempt(ctx context.Context, change func(*state.Attempt)) error {
	return s.lease.Update(ctx, func(d *state.Shard) {
		next := state.Attempt{}
		if d.Attempt != nil {
			next = *d.Attempt
		}
		change(&next)
		d.Attempt = &next
	})
}

// freezeSteps bring both sides to rest and the landing to their final position. Undone in
// reverse they leave everything as it was found.
func (s *switchover) freezeSteps() []engine.Step {
	return append(s.lockSteps(s.refusals, route.Vitess), []engine.Step{
		{
			Name: "note the flags of both sides", OnlyIfAllUndone: true,
			Do: s.noteFlags,
			Undo: func(ctx context.Context) error {
				return s.lease.Update(ctx, func(d *state.Shard) { d.Attempt = nil })
			},
		},
		{Name: "freeze side a", Do: s.bounded(func(ctx context.Context) (string, error) { return s.freeze(ctx, s.a) }), Undo: func(ctx context.Context) error { return s.thaw(ctx, s.a) }},
		{
			Name: "freeze side b",
			Do: s.bounded(func(ctx context.Context) (string, error) {
				// The heartbeat is the last thing that b writes, or close to it: a side whose
				// binlog was just rotated would have no position to wait for.
				if _, err := s.b.Beat(ctx); err != nil {
					return "", err
				}
				return s.freeze(ctx, s.b)
			}),
			Undo: func(ctx context.Context) error { return s.thaw(ctx, s.b) },
		},
		{Name: "side a applies the last of side b, and b of a", Do: s.bounded(s.levelSides)},
		{
			Name: "stop the stream at the final position",
			Do:   s.bounded(s.stopStream),
			Undo: func(ctx context.Context) error { return s.stream.Resume(ctx) },
		},
		{Name: "compare the newest keys", Do: s.bounded(s.compareNewest)},
		{Name: "counters on the landing past the legacy's", Do: s.bounded(s.raiseCounters)},
		{Name: "nothing moved, nothing prepared", Do: s.bounded(s.nothingMoved)},
	}...)
}

// lockSteps come before the first freeze: they keep everybody else away, and see that
// nothing speaks against the change of mains that is to come.
func (s *switchover) lockSteps(refusals func(context.Context) error, to route.Traffic) []engine.Step {
	return []engine.Step{
		{
			Name: "take the landing's shard lock",
			Do: func(ctx context.Context) (note string, err error) {
				s.lockCtx, s.unlock, err = s.m.landing.Lock(ctx, s.m.lockAction(s.verb))
				return "", err
			},
			Undo: func(context.Context) error {
				if s.unlock == nil {
					return nil
				}
				var err error
				s.unlock(&err)
				s.unlock = nil
				return err
			},
		},
		{Name: "refusals once more, under the locks", Do: func(ctx context.Context) (string, error) { return "", refusals(s.underLock(ctx)) }},
		{Name: "raise the epoch in mains", Do: func(ctx context.Context) (string, error) {
			return fmt.Sprintf("epoch %d", s.lease.Epoch()), s.m.raiseEpoch(ctx, s.lease)
		}},
		// Behind the point of no undo a change that mains turns down leaves both sides frozen.
		{Name: "rehearse the change of mains", Do: func(ctx context.Context) (string, error) {
			sw, err := s.m.route(ctx)
			if err != nil {
				return "", err
			}
			return "rolled back", sw.Rehearse(ctx, s.m.id, s.lease.Epoch(), to)
		}},
	}
}

func (s *switchover) noteFlags(ctx context.Context) (string, error) {
	var frozen []state.Frozen
	for _, side := range s.sides() {
		id, err := side.Identity(ctx)
		if err != nil {
			return "", err
		}
		flags, err := side.Flags(ctx)
		if err != nil {
			return "", err
		}
		if flags.ReadOnly || flags.SuperReadOnly || flags.OfflineMode {
			return "", fmt.Errorf("%s: found %s before the freeze, expected a writable server: vifl thaw %s, or ask who closed it", side.Name(), flags, s.m.id)
		}
		s.before[side.Side()] = flags
		if s.started[side.Side()], err = side.Started(ctx); err != nil {
			return "", err
		}
		frozen = append(frozen, state.Frozen{Side: side.Side(), Server: id.ServerUUID, Found: state.Flags(flags)})
	}
	// Written before anything is frozen: a crash in between thaws two servers that were
	// not frozen, which is nothing.
	return "", s.attempt(ctx, func(a *state.Attempt) {
		*a = state.Attempt{Verb: string(s.verb), OneWay: s.opts.OneWay, Epoch: s.lease.Epoch(), Started: time.Now().UTC(), Frozen: frozen}
	})
}

func (s *switchover) freeze(ctx context.Context, side *legacy.Server) (string, error) {
	if s.frozenAt.IsZero() {
		s.frozenAt = time.Now()
	}
	f, err := side.Freeze(ctx, s.m.cfg.Limits.LockTimeout)
	if err != nil {
		return "", err
	}
	s.frozen[side.Side()] = f
	return fmt.Sprintf("super_read_only had in %.1f ms", float64(f.Took().Microseconds())/1000), nil
}

func (s *switchover) thaw(ctx context.Context, side *legacy.Server) error {
	f := s.frozen[side.Side()]
	if f == nil {
		return nil
	}
	if err := f.Thaw(ctx); err != nil {
		// The freezing connection is gone. The lease is still ours (the undo runs under
		// it), so nobody else can have frozen this server since.
		if err2 := side.SetFlags(ctx, s.before[side.Side()]); err2 != nil {
			return errors.Join(err, err2)
		}
	}
	delete(s.frozen, side.Side())
	if len(s.frozen) == 0 {
		s.endPause()
	}
	return nil
}

func (s *switchover) endPause() {
	if s.thawedAt.IsZero() && !s.frozenAt.IsZero() {
		s.thawedAt = time.Now()
	}
}

func (s *switchover) pauseMillis() float64 {
	if s.frozenAt.IsZero() || s.thawedAt.IsZero() {
		return 0
	}
	return float64(s.thawedAt.Sub(s.frozenAt).Microseconds()) / 1000
}

// levelSides waits until each side has all of the other: a, because the stream reads a; b,
// because a rollback, and whoever reads b, must find the same there.
func (s *switchover) levelSides(ctx context.Context) (string, error) {
	bEnd, err := s.b.Position(ctx)
	if err != nil {
		return "", err
	}
	if err := legacy.WaitApplied(ctx, s.a, s.b, bEnd); err != nil {
		return "", err
	}
	if s.final, err = s.a.Position(ctx); err != nil {
		return "", err
	}
	if err := legacy.WaitApplied(ctx, s.b, s.a, s.final); err != nil {
		return "", err
	}
	// b has written what it applied of a into its own binlog, and a must not have moved by
	// it: its own writes come back to it and are dropped there.
	if s.ends[config.SideB], err = s.b.Position(ctx); err != nil {
		return "", err
	}
	s.ends[config.SideA] = s.final
	if fresh, err := s.a.FreshBinlog(ctx, s.final); err != nil {
		return "", err
	} else if fresh {
		return "", fmt.Errorf("%s: the final position %s is the start of a fresh binlog, where the stream cannot stop: try again", s.a.Name(), s.final)
	}
	return "final position " + s.final.String(), nil
}

func (s *switchover) stopStream(ctx context.Context) (string, error) {
	if err := s.attempt(ctx, func(a *state.Attempt) { a.Final = s.final }); err != nil {
		return "", err
	}
	if err := s.stream.StopAt(ctx, s.final); err != nil {
		return "", err
	}
	return "at " + s.final.String(), s.reader.wait(ctx, s.final)
}

func (s *switchover) compareNewest(ctx context.Context) (string, error) {
	landing := diff.Pool{Name: s.primary.Alias, DB: s.target, Database: s.m.shard.Database}
	report, err := diff.Newest(ctx, s.m.pool(s.a), []diff.Pool{landing, s.m.pool(s.b)}, s.schema, newestKeys)
	if err != nil {
		return "", err
	}
	if err := s.letThrough(ctx, report); err != nil {
		return "", err
	}
	s.newest = report.Rows
	for _, t := range report.Targets {
		if t.Differing > 0 {
			return "", fmt.Errorf("%d of the newest rows differ on %s at %s, first %s: the certificate does not hold; run vifl diff %s", t.Differing, t.Name, s.final, t.Differences[0], s.m.id)
		}
	}
	return fmt.Sprintf("%d rows equal", report.Rows), nil
}

// nothingMoved reads positions, flags and uptime of both sides once more: an XA COMMIT, a
// restart or somebody's thaw would have moved them.
func (s *switchover) nothingMoved(ctx context.Context) (string, error) {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for _, side := range s.sides() {
		wg.Go(func() {
			if err := s.unmoved(ctx, side); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return "", failed
}

func (s *switchover) unmoved(ctx context.Context, side *legacy.Server) error {
	name := side.Side()
	if err := s.frozen[name].Check(ctx); err != nil {
		return err
	}
	end, err := side.Position(ctx)
	if err != nil {
		return err
	}
	if end != s.ends[name] {
		return fmt.Errorf("%s: the binlog moved from %s to %s inside the freeze: somebody wrote (an XA COMMIT? a SUPER account?)", side.Name(), s.ends[name], end)
	}
	started, err := side.Started(ctx)
	if err != nil {
		return err
	}
	// The server counts its uptime in whole seconds.
	if d := started.Sub(s.started[name]).Abs(); d > 2*time.Second {
		return fmt.Errorf("%s: was restarted inside the freeze", side.Name())
	}
	prepared, err := side.PreparedXA(ctx)
	if err != nil {
		return err
	}
	if len(prepared) > 0 {
		return fmt.Errorf("%s: %d prepared XA transaction(s), which can commit on a frozen server: finish them first: %s", side.Name(), len(prepared), prepared[0])
	}
	return nil
}
