package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
	"github.com/vifl/vifl/workflows/shardmove"
)

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"done":                {nil, 0},
		"any failure":         {errors.New("boom"), 1},
		"behind no undo":      {&engine.BehindNoUndo{Step: "x", Err: errors.New("boom")}, 1},
		"a broken file":       {usageError{errors.New("line 3")}, 2},
		"an unknown command":  {errors.New(`unknown command "cutoff" for "vifl"`), 2},
		"refused":             {fmt.Errorf("wrapped: %w", &shardmove.Refused{Verb: "cutover", Shard: "0123"}), 3},
		"an illegal move":     {fmt.Errorf("wrapped: %w", &engine.IllegalMove{Verb: "diff"}), 3},
		"held by another":     {fmt.Errorf("wrapped: %w", state.ErrHeld), 3},
		"differences":         {fmt.Errorf("wrapped: %w", &shardmove.Different{Shard: "0123", Rows: 1}), 4},
		"a limit of an audit": {fmt.Errorf("wrapped: %w", exceeded{[]string{"scatter>1%: found 2"}}), 4},
		"joined with another": {errors.Join(errors.New("boom"), &shardmove.Refused{Verb: "diff"}), 3},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}
