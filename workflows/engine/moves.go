// Package engine owns the state machine of a move: which verb is legal in which phase and
// where it leads (pure), and the driver that runs the steps of a verb with undo.
//
// Invariants: a phase changes only along the table of moves; a driver undoes what it did in
// reverse order until a step declares the point of no undo, and never behind it.
package engine

import (
	"fmt"
	"sort"
	"strings"

	"github.com/vifl/vifl/pkg/state"
)

// Verb is something an operator asks for.
type Verb string

// The verbs that change a shard's phase, or need it to be something.
const (
	Preflight Verb = "preflight"
	Seed      Verb = "seed"
	SyncStart Verb = "sync start"
	SyncStop  Verb = "sync stop"
	Diff      Verb = "diff"
	Rehearse  Verb = "rehearse"
	Cutover   Verb = "cutover"
	// DiffBack compares the legacy with the landing behind a cutover.
	DiffBack Verb = "diff --reverse"
	Rollback Verb = "rollback"
	Complete Verb = "complete"
	Abort    Verb = "abort"
)

// moves lists, for each verb, the phases it may start in and where success leads. A phase
// that leads to itself is a verb run again.
var moves = map[Verb]map[state.Phase]state.Phase{
	Preflight: {
		state.New: state.Preflighted, state.Preflighted: state.Preflighted, state.Aborted: state.Preflighted,
		// Later than the seed a preflight is a report; it takes nothing back.
		state.Seeded: state.Seeded, state.Syncing: state.Syncing, state.Validated: state.Validated,
	},
	Seed:      {state.Preflighted: state.Seeded},
	SyncStart: {state.Seeded: state.Syncing, state.Syncing: state.Syncing, state.Validated: state.Validated},
	SyncStop:  {state.Syncing: state.Syncing, state.Validated: state.Syncing},
	Diff:      {state.Syncing: state.Validated, state.Validated: state.Validated},
	Rehearse:  {state.Validated: state.Validated},
	Cutover:   {state.Validated: state.Switched},
	DiffBack:  {state.Switched: state.Switched},
	Rollback:  {state.Switched: state.Syncing},
	Complete:  {state.Switched: state.Completed},
	Abort: {
		state.New: state.Aborted, state.Preflighted: state.Aborted, state.Seeded: state.Aborted,
		state.Syncing: state.Aborted, state.Validated: state.Aborted, state.Aborted: state.Aborted,
	},
}

// IllegalMove says that a verb cannot start in the phase a shard is in.
type IllegalMove struct {
	Verb Verb
	From state.Phase
	Hint string
}

func (e *IllegalMove) Error() string {
	return fmt.Sprintf("%s cannot start while the shard is %s: %s", e.Verb, e.From, e.Hint)
}

// Move is where a verb leads from a phase, or an *IllegalMove.
func Move(v Verb, from state.Phase) (state.Phase, error) {
	if to, ok := moves[v][from]; ok {
		return to, nil
	}
	return from, &IllegalMove{Verb: v, From: from, Hint: hint(v, from)}
}

func hint(v Verb, from state.Phase) string {
	switch {
	case v == Cutover && from == state.Switched:
		return "it has been cut over already; vifl complete ends the move, vifl rollback takes it back"
	case from == state.Completed:
		return "the move is over"
	case v == Abort && from == state.Switched:
		return "its traffic is on Vitess; only a rollback brings it back"
	case v == Seed && (from == state.Seeded || from == state.Syncing || from == state.Validated):
		return "it has a seed already; vifl abort removes it first"
	}
	var legal []string
	for p := range moves[v] {
		legal = append(legal, string(p))
	}
	sort.Strings(legal)
	return "expected " + strings.Join(legal, ", ") + "; next is vifl " + string(Next(from))
}

// Next is the verb that brings a shard forward from a phase, empty when there is none.
func Next(p state.Phase) Verb {
	switch p {
	case state.New, state.Aborted:
		return Preflight
	case state.Preflighted:
		return Seed
	case state.Seeded:
		return SyncStart
	case state.Syncing:
		return Diff
	case state.Validated:
		return Cutover
	case state.Switched:
		return Complete
	}
	return ""
}
