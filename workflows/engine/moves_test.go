package engine

import (
	"errors"
	"testing"

	"github.com/vifl/vifl/pkg/state"
)

var phases = []state.Phase{state.New, state.Preflighted, state.Seeded, state.Syncing, state.Validated, state.Switched, state.Completed, state.Aborted}

func TestEveryPhaseHasAWayOnOrIsTheEnd(t *testing.T) {
	for _, p := range phases {
		v := Next(p)
		if v == "" {
			if p != state.Completed {
				t.Errorf("%s leads nowhere", p)
			}
			continue
		}
		if to, err := Move(v, p); err != nil || to == p {
			t.Errorf("next of %s is %s, which gives %s, %v", p, v, to, err)
		}
	}
}

func TestOnlyCutoverReachesSwitchedAndOnlyFromValidated(t *testing.T) {
	for v, from := range moves {
		for p, to := range from {
			if to == state.Switched && (v != Cutover || p != state.Validated) && (v != DiffBack || p != state.Switched) {
				t.Errorf("%s goes from %s to switched", v, p)
			}
			if p == state.Completed {
				t.Errorf("%s leaves completed", v)
			}
			if p == state.Switched && v != Complete && v != Rollback && v != DiffBack {
				t.Errorf("%s starts while switched", v)
			}
		}
	}
}

func TestIllegalMovesNameTheWayOut(t *testing.T) {
	for v := range moves {
		for _, p := range phases {
			_, err := Move(v, p)
			if _, legal := moves[v][p]; legal != (err == nil) {
				t.Errorf("Move(%s, %s): %v", v, p, err)
			}
			var im *IllegalMove
			if err != nil && (!errors.As(err, &im) || im.Hint == "") {
				t.Errorf("Move(%s, %s): no hint in %v", v, p, err)
			}
		}
	}
}
