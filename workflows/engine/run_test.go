package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/state"
)

func plan(trail *[]string, failAt string, noUndo string) []Step {
	var steps []Step
	for _, name := range []string{"one", "two", "three"} {
		steps = append(steps, Step{
			Name: name, NoUndo: name == noUndo,
			Do: func(context.Context) (string, error) {
				*trail = append(*trail, name)
				if name == failAt {
					return "", errors.New("boom")
				}
				return "", nil
			},
			Undo: func(ctx context.Context) error {
				*trail = append(*trail, "undo "+name)
				return ctx.Err()
			},
		})
	}
	return steps
}

func ours(context.Context) error { return nil }

// A process that was stopped for a while woke up, took back what its successor had completed,
// and opened a legacy behind a cutover.
func TestNothingIsUndoneOnceTheShardIsSomebodyElses(t *testing.T) {
	lost := errors.New("the lease was lost")
	for name, stays := range map[string]int{"at once": 2, "in the midst of undoing": 4} {
		var trail []string
		n := 0
		own := func(context.Context) error {
			if n++; n > stays {
				return lost
			}
			return nil
		}
		_, err := Run(t.Context(), Cutover, plan(&trail, "three", ""), own, func(state.Timing) {}, nil)
		want := []string{"one", "two"}
		if stays == 4 {
			want = []string{"one", "two", "three", "undo three"}
		}
		if !errors.Is(err, lost) || !slices.Equal(trail, want) {
			t.Errorf("lost %s: %v, %v, want %v and the loss", name, trail, err, want)
		}
	}
}

// A fence that could not be opened again was forgotten: the note of the attempt was gone.
func TestTheNoteOfAnAttemptOutlivesAnUndoThatFailed(t *testing.T) {
	for _, failing := range []string{"", "two"} {
		var trail []string
		steps := plan(&trail, "three", "")
		steps[0].OnlyIfAllUndone = true
		for i := range steps {
			undo := steps[i].Undo
			steps[i].Undo = func(ctx context.Context) error {
				if err := undo(ctx); err != nil || steps[i].Name == failing {
					return errors.Join(err, errors.New("no answer"))
				}
				return nil
			}
		}
		_, _ = Run(t.Context(), Cutover, steps, ours, func(state.Timing) {}, nil)
		if kept := !slices.Contains(trail, "undo one"); kept != (failing != "") {
			t.Errorf("with %q failing to be undone: %v", failing, trail)
		}
	}
}

func TestRunUndoesInReverseTheFailedStepToo(t *testing.T) {
	var trail []string
	_, err := Run(t.Context(), Cutover, plan(&trail, "two", ""), ours, func(state.Timing) {}, nil)
	if err == nil || !strings.Contains(err.Error(), "two: boom") {
		t.Fatalf("error %v", err)
	}
	if want := []string{"one", "two", "undo two", "undo one"}; !slices.Equal(trail, want) {
		t.Errorf("trail %v, want %v", trail, want)
	}
}

func TestRunUndoesNothingFromThePointOfNoUndoOn(t *testing.T) {
	for _, failAt := range []string{"two", "three"} {
		var trail []string
		_, err := Run(t.Context(), Cutover, plan(&trail, failAt, "two"), ours, func(state.Timing) {}, nil)
		var forward *BehindNoUndo
		if !errors.As(err, &forward) || forward.Step != failAt {
			t.Errorf("fail at %s: %v", failAt, err)
		}
		if strings.Contains(strings.Join(trail, ","), "undo") {
			t.Errorf("fail at %s: %v", failAt, trail)
		}
	}
}

func TestRunUndoesAlsoWhenTheContextIsGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var trail []string
	steps := plan(&trail, "", "")
	_, err := Run(ctx, Cutover, steps, ours, func(state.Timing) { cancel() }, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if want := []string{"one", "undo two", "undo one"}; !slices.Equal(trail, want) {
		t.Errorf("trail %v, want %v (the undo's own context must be alive)", trail, want)
	}
	if strings.Contains(err.Error(), "undo of") {
		t.Errorf("an undo saw a dead context: %v", err)
	}
}

func TestAnInterruptBehindTheNoUndoPointIsNotObeyedHalfway(t *testing.T) {
	run := func(cause error) (string, error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var trail []string
		steps := plan(&trail, "", "two")
		do := steps[1].Do
		steps[1].Do = func(ctx context.Context) (string, error) {
			cancel(cause)
			if !errors.Is(cause, ErrInterrupted) {
				<-ctx.Done() // the loss of the lease must still arrive
			}
			return do(ctx)
		}
		_, err := Run(ctx, Cutover, steps, ours, func(state.Timing) {}, nil)
		return strings.Join(trail, ","), err
	}
	if trail, err := run(ErrInterrupted); trail != "one,two,three" || err != nil {
		t.Errorf("after an interrupt: %s, %v, want all three steps", trail, err)
	}
	lost := errors.New("the lease was lost")
	if trail, err := run(lost); trail != "one,two" || !errors.Is(err, lost) {
		t.Errorf("after the loss of the lease: %s, %v, want a stop before three", trail, err)
	}
}
