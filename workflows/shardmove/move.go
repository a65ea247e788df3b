// Package shardmove owns the move of one legacy shard: each verb is a file that reads the
// state, asks the servers, does its steps and writes the state. It wires the packages of the
// floor below (seed, stream, diff, guard, route), which do not know of each other.
//
// Invariants: a verb that changes anything holds the shard's lease and has raised its
// epoch; what a crashed owner left frozen is thawed, or brought to its end, before anything
// else; after the change of mains was attempted there is no way but forward.
package shardmove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/route"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/engine"
)

// Progress is how far something came. Total 0 means that the end is not known.
type Progress struct {
	What        string
	Done, Total float64
	Detail      string
	Final       bool // always shown, and ends the line
}

// Reporter shows a verb at work. Its methods may be called from several goroutines.
type Reporter interface {
	Progress(Progress)
	Step(state.Timing)
	Note(format string, args ...any)
}

// Refused is a verb that guards refused. Nothing was changed.
type Refused struct {
	Verb     engine.Verb
	Shard    string
	Findings []guard.Finding // the refused ones
}

func (e *Refused) Error() string {
	ids := ""
	for _, f := range e.Findings {
		ids += " " + f.ID
	}
	return fmt.Sprintf("%s of %s refused by %d guard(s):%s: nothing was changed", e.Verb, e.Shard, len(e.Findings), ids)
}

// Different is a diff that found differing rows.
type Different struct {
	Shard string
	Rows  int64
}

func (e *Different) Error() string {
	return fmt.Sprintf("%s: %d row(s) differ: no certificate", e.Shard, e.Rows)
}

// leaseWait is how long a verb waits for another vifl on the same shard. A killed one is
// let go after ten seconds.
const leaseWait = 20 * time.Second

// Move is the move of one shard. Close it.
type Move struct {
	cfg      *config.Config
	id       shardid.ID
	shard    config.Shard
	keyspace string
	show     string           // 0123 (legacy_0123)
	source   mysqlconn.Target // the side that the stream follows

	fleet    *vitess.Fleet
	ownFleet bool // the fleet's connections end with the move
	landing  *vitess.Landing
	primary  *primaryPool
	store    *state.Store
	reporter Reporter
	pauses   engine.Pauses

	opening sync.Mutex
	sides   map[string]*legacy.Server // opened when first asked for
	maps    *mains.Mains
}

// Open connects to the Vitess fleet. Legacy servers and mains are connected to when a verb
// needs them, so that status works while they are down.
func Open(ctx context.Context, cfg *config.Config, id shardid.ID, r Reporter) (*Move, error) {
	shard, err := cfg.Shard(id)
	if err != nil {
		return nil, err
	}
	fleet, err := vitess.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m, err := open(ctx, cfg, fleet, shard, r)
	if err != nil {
		fleet.Close()
		return nil, err
	}
	m.ownFleet = true
	return m, nil
}

// open makes a move on a fleet that is connected to, and stays its caller's.
func open(ctx context.Context, cfg *config.Config, fleet *vitess.Fleet, shard config.Shard, r Reporter) (*Move, error) {
	id := shard.Number.ID
	source, err := cfg.SideTarget(shard, streamSide)
	if err != nil {
		return nil, err
	}
	m := &Move{
		source: source,
		cfg:    cfg, id: id, shard: shard, keyspace: cfg.Landing.Keyspace.Keyspace(id), show: cfg.Landing.Keyspace.Show(id),
		fleet: fleet, reporter: r, pauses: pausesFromEnvironment(), sides: map[string]*legacy.Server{},
	}
	m.landing, m.primary = fleet.Landing(m.keyspace), &primaryPool{m: m}
	if m.store, err = state.Open(ctx, fleet.Topo()); err != nil {
		return nil, err
	}
	return m, nil
}

// Close ends all connections.
func (m *Move) Close() {
	for _, s := range m.sides {
		_ = s.Close()
	}
	if m.maps != nil {
		_ = m.maps.Close()
	}
	m.primary.close()
	if m.ownFleet {
		m.fleet.Close()
	}
}

// Show is how people see the shard: 0123 (legacy_0123).
func (m *Move) Show() string { return m.show }

// Number is the shard's number as it is printed and typed: 0123.
func (m *Move) Number() string { return m.id.String() }

// pauseVariable names the environment variable with which the crash tests kill the process
// at a named step ("cutover/freeze side a"). It can only end the process, so that a fleet
// where it is set by mistake sees a crash that vifl recovers from, nothing else.
const pauseVariable = "VIFL_DIE_AT"

func pausesFromEnvironment() engine.Pauses {
	at := os.Getenv(pauseVariable)
	if at == "" {
		return nil
	}
	return func(verb engine.Verb, step string) {
		if string(verb)+"/"+step == at {
			p, err := os.FindProcess(os.Getpid())
			if err == nil {
				_ = p.Kill()
			}
			select {} // never past this point
		}
	}
}

// pause is where the crash tests may end the process between two steps of a verb that the
// engine does not run.
func (m *Move) pause(verb engine.Verb, point string) {
	if m.pauses != nil {
		m.pauses(verb, point)
	}
}

// side connects to side a or b of the legacy shard.
func (m *Move) side(ctx context.Context, name string) (*legacy.Server, error) {
	m.opening.Lock() // the worker of a stream back asks too
	defer m.opening.Unlock()
	if s := m.sides[name]; s != nil {
		return s, nil
	}
	target, err := m.cfg.SideTarget(m.shard, name)
	if err != nil {
		return nil, err
	}
	s, err := legacy.Open(ctx, target, m.id, name, m.shard.Database)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	m.sides[name] = s
	return s, nil
}

// pair connects to both sides.
func (m *Move) pair(ctx context.Context) (a, b *legacy.Server, err error) {
	if a, err = m.side(ctx, config.SideA); err != nil {
		return nil, nil, err
	}
	if b, err = m.side(ctx, config.SideB); err != nil {
		return nil, nil, err
	}
	return a, b, nil
}

// mains connects to mains.
func (m *Move) mains(ctx context.Context) (*mains.Mains, error) {
	if m.maps != nil {
		return m.maps, nil
	}
	target, err := m.cfg.MainsTarget()
	if err != nil {
		return nil, err
	}
	if m.maps, err = mains.Open(ctx, target, m.cfg.Mains); err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	return m.maps, nil
}

// legacyPlaces is where mains sends the application before the switch.
func (m *Move) legacyPlaces(shardid.ID) ([]mains.Place, error) {
	var places []mains.Place
	for _, side := range []string{config.SideA, config.SideB} {
		host, port, err := config.SplitAddress(m.shard.Sides[side])
		if err != nil {
			return nil, fmt.Errorf("shard %s side %s: %w", m.show, side, err)
		}
		places = append(places, mains.Place{Side: side, Host: host, Port: port, Database: m.shard.Database})
	}
	return places, nil
}

// vitessPlaces is where mains sends it behind the switch: both sides' rows name vtgate.
func (m *Move) vitessPlaces(shardid.ID) ([]mains.Place, error) {
	host, port, err := config.SplitAddress(m.cfg.Vtgate.Address)
	if err != nil {
		return nil, fmt.Errorf("vtgate: %w", err)
	}
	var places []mains.Place
	for _, side := range []string{config.SideA, config.SideB} {
		places = append(places, mains.Place{Side: side, Host: host, Port: port, Database: m.cfg.AppDatabase(m.id)})
	}
	return places, nil
}

// route is the switch of the shard's traffic.
func (m *Move) route(ctx context.Context) (route.Switch, error) {
	db, err := m.mains(ctx)
	if err != nil {
		return nil, err
	}
	return route.NewDirect(db, m.legacyPlaces, m.vitessPlaces), nil
}

// raiseEpoch fences former owners of the shard out of mains.
func (m *Move) raiseEpoch(ctx context.Context, lease *state.Lease) error {
	db, err := m.mains(ctx)
	if err != nil {
		return err
	}
	if _, err := db.Prepare(ctx); err != nil {
		return err
	}
	return db.RaiseEpoch(ctx, m.id, lease.Epoch())
}

// landingAccount is vifl's own account on the tablets' servers.
func (m *Move) landingAccount() (mysqlconn.Account, error) {
	acc, err := m.cfg.Account(m.cfg.Landing.Account)
	if err != nil {
		return acc, fmt.Errorf("landing account: %w", err)
	}
	return acc, nil
}

// interrupted says in an error that the operator ended the verb: what failed by it says no
// more than that a context was canceled.
func interrupted(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), engine.ErrInterrupted) || errors.Is(err, engine.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w (at that moment: %w)", engine.ErrInterrupted, err)
}

// locked runs a verb under the shard's lease: it checks that the verb may start, clears
// what a crashed owner left behind, and records the outcome in the history.
func (m *Move) locked(ctx context.Context, verb engine.Verb, run func(context.Context, *state.Lease) (string, error)) error {
	lctx, lease, err := m.store.Acquire(ctx, m.id, m.keyspace, string(verb), leaseWait, func(s string) { m.reporter.Note("%s", s) })
	if err != nil {
		return err
	}
	defer lease.Release()
	switch err := m.recoverAttempt(lctx, lease, verb); {
	case errors.Is(err, errWentForward):
		return nil
	case err != nil:
		return err
	}
	from := lease.Doc().Phase
	to, err := engine.Move(verb, from)
	if err != nil {
		return fmt.Errorf("shard %s: %w", m.show, err)
	}
	start := time.Now()
	if err := lease.Update(lctx, func(d *state.Shard) {
		d.Step = &state.Step{Verb: string(verb), Name: "begin", Started: start.UTC()}
	}); err != nil {
		return err
	}
	doc := lease.Doc()
	stopWork := m.work(lctx, &doc)
	what, err := run(lctx, lease)
	stopWork()
	err = interrupted(lctx, err)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	event := state.Event{Verb: string(verb), From: from, To: to, What: what, Millis: float64(time.Since(start).Microseconds()) / 1000}
	var different *Different
	if err != nil {
		event.To, event.Error = lease.Doc().Phase, err.Error()
		if errors.As(err, &different) {
			event.Error = ""
		}
	}
	if uerr := lease.Update(end, func(d *state.Shard) {
		d.Step = nil
		if err == nil {
			d.Phase = to
		}
	}); uerr != nil {
		return errors.Join(err, uerr)
	}
	return errors.Join(err, lease.Record(end, event))
}
