package shardmove

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vifl/vifl/pkg/guard"
)

// A rollback right behind one that was killed was refused for VTOrc's own look at the primary.
func TestOnlyARecoveryOfVTOrcIsWaitedFor(t *testing.T) {
	vtorc := guard.Finding{ID: "R16", Found: `the shard lock is held: "VTOrc Recovery for PrimaryIsReadOnly on zone1-104"`}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a recovery":               {fmt.Errorf("x: %w", &Refused{Findings: []guard.Finding{vtorc}}), true},
		"a hold that names one":    {&Refused{Findings: []guard.Finding{vtorc, {ID: "R15", Found: "a hold: VTOrc Recovery under way"}}}, false},
		"a recovery and a hold":    {&Refused{Findings: []guard.Finding{vtorc, {ID: "R15", Found: "a hold"}}}, false},
		"somebody's reshard":       {&Refused{Findings: []guard.Finding{{ID: "R16", Found: "a stream of somebody else"}}}, false},
		"a server does not answer": {errors.New("no answer"), false},
	} {
		if got := onlyRecovery(c.err); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
