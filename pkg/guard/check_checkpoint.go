package guard

import (
	"fmt"
	"strconv"
)

// quickCheckpoint is a replica_checkpoint_period, in ms, that adds little to a freeze.
const quickCheckpoint = 50

// checkpointPeriod: a parallel applier tells how far it is only this often, and inside the
// freeze each side waits for the other's word: with the default of 300 ms writers stand
// still 300 ms for nothing.
func checkpointPeriod(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		workers, period := s.Vars["replica_parallel_workers"], s.Vars["replica_checkpoint_period"]
		ms, err := strconv.Atoi(period)
		if workers == "" || workers == "0" || err != nil || ms <= quickCheckpoint {
			return good(s.Name, "soon enough")
		}
		return warn(s.Name, fmt.Sprintf("replica_checkpoint_period=%d ms with %s workers: a freeze lasts up to that much longer", ms, workers), fmt.Sprintf("at most %d", quickCheckpoint), "SET GLOBAL replica_checkpoint_period=10 on "+s.Name)
	})
}
