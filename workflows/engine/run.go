package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/state"
)

// Step is one step of a verb. Its functions ask and change servers; they keep no memory
// that a new process would not have.
type Step struct {
	Name string
	// Do does the step. The note is shown beside its time.
	Do func(ctx context.Context) (note string, err error)
	// Undo takes back what Do did, wholly or partly; it is also called for the step that
	// failed, and must bear being called when Do did nothing. Nil: nothing to take back.
	Undo func(ctx context.Context) error
	// OnlyIfAllUndone keeps Undo from being called once an undo behind it has failed: it is
	// for the note that tells the next owner what is left to be undone.
	OnlyIfAllUndone bool
	// NoUndo marks the step from whose beginning on only forward is possible: also when it
	// fails, nothing is undone. It is so from its start, because a reply that is lost does
	// not say whether the step happened.
	NoUndo bool
}

// Pauses lets tests stop or kill the process at a named point. Nil in production.
type Pauses func(verb Verb, step string)

// ErrInterrupted is the cause with which the operator's first Ctrl-C ends a context: stop at
// the next safe point. Behind the point of no undo the next safe point is the end.
var ErrInterrupted = errors.New("interrupted by the operator")

// undoTimeout bounds one step's undo. Undo runs also after a cancelled context: what is
// frozen must be thawed when the operator hits Ctrl-C.
const undoTimeout = 30 * time.Second

// BehindNoUndo is the error of a step at or behind the point of no undo. The shard is
// neither where it was nor where it should be: running the verb again goes on.
type BehindNoUndo struct {
	Step string
	Err  error
}

func (e *BehindNoUndo) Error() string {
	return fmt.Sprintf("%s failed behind the point of no undo: %v: nothing was undone; run the same command again, it goes on from here", e.Step, e.Err)
}
func (e *BehindNoUndo) Unwrap() error { return e.Err }

// Owner proves that the shard is still the caller's. A process that was asleep may have been
// followed by another that has done something else since; the context that ends with the
// lease ends a moment too late for it. So it is asked before each step and each undo.
type Owner func(ctx context.Context) error

// notOurs is what a step or undo ends with that was not begun any more.
func notOurs(err error) error {
	return fmt.Errorf("this process cannot prove any more that the shard is its own: nothing more was done or undone, which is for whoever has it now; see its status: %w", err)
}

// Run runs steps in order and says how long each took. When one fails, those begun are
// undone in reverse order, unless the point of no undo was reached, or the shard is somebody
// else's by then. The error joins the cause with every undo that failed.
func Run(ctx context.Context, verb Verb, steps []Step, own Owner, report func(state.Timing), pause Pauses) ([]state.Timing, error) {
	var timings []state.Timing
	for i, step := range steps {
		if pause != nil {
			pause(verb, step.Name)
		}
		if step.NoUndo {
			ctx = forwardOnly(ctx)
		}
		start := time.Now()
		var note string
		err := context.Cause(ctx)
		if err == nil {
			if err = own(ctx); err != nil {
				err = notOurs(err)
			}
		}
		if err == nil {
			note, err = step.Do(ctx)
		}
		t := state.Timing{Name: step.Name, Millis: millis(time.Since(start)), Note: note}
		if err == nil {
			timings = append(timings, t)
			report(t)
			continue
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		t.Note = "failed"
		timings = append(timings, t)
		report(t)
		for _, s := range steps[:i+1] {
			if s.NoUndo {
				return timings, &BehindNoUndo{Step: step.Name, Err: err}
			}
		}
		err = fmt.Errorf("%s: %w", step.Name, err)
		_, uerr := Back(ctx, steps[:i+1], own, func(state.Timing) {})
		return timings, errors.Join(err, uerr)
	}
	return timings, nil
}

// Back takes a verb's steps back in reverse order, as a rehearsal ends. It goes on after an
// undo that failed and joins the errors.
func Back(ctx context.Context, steps []Step, own Owner, report func(state.Timing)) ([]state.Timing, error) {
	var timings []state.Timing
	var failed error
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Undo == nil || steps[i].OnlyIfAllUndone && failed != nil {
			continue
		}
		start := time.Now()
		err := undo(ctx, steps[i], own)
		if errors.As(err, new(disowned)) {
			return timings, errors.Join(failed, err)
		}
		t := state.Timing{Name: "undo: " + steps[i].Name, Millis: millis(time.Since(start))}
		if err != nil {
			t.Note = "failed"
			failed = errors.Join(failed, fmt.Errorf("undo of %s: %w", steps[i].Name, err))
		}
		timings = append(timings, t)
		report(t)
	}
	return timings, failed
}

// forwardOnly is a context that an operator's interrupt no longer ends; the loss of the
// lease, or a deadline, still does.
func forwardOnly(ctx context.Context) context.Context {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrInterrupted) {
			cancel(cause)
		}
	})
	return out
}

// disowned ends all undoing.
type disowned struct{ error }

func (e disowned) Unwrap() error { return e.error }

func undo(ctx context.Context, s Step, own Owner) error {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := own(detached); err != nil {
		return disowned{notOurs(err)}
	}
	return s.Undo(detached)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
