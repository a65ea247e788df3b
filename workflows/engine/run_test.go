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

func TestRunUndoesInReverseTheFailedStepToo(t *testing.T) {
	var trail []string
	_, err := Run(t.Context(), Cutover, plan(&trail, "two", ""), func(state.Timing) {}, nil)
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
		_, err := Run(t.Context(), Cutover, plan(&trail, failAt, "two"), func(state.Timing) {}, nil)
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
	_, err := Run(ctx, Cutover, steps, func(state.Timing) { cancel() }, nil)
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
		_, err := Run(ctx, Cutover, steps, func(state.Timing) {}, nil)
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
