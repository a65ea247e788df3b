package guard

import (
	"fmt"
	"time"
)

func replicationRuns(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		r := s.Replica
		if r == nil {
			return nil // the pair's own finding
		}
		limit := f.Config.Limits.MaxReplicaDelay
		behind := time.Duration(r.SecondsBehind) * time.Second
		switch {
		case !r.Running():
			why := r.Broken()
			if why == "" {
				why = r.LastIOError
			}
			return refuse(s.Name, fmt.Sprintf("I/O thread %s, SQL thread %s: %s", r.IORunning, r.SQLRunning, why), "both Yes", "repair replication, then compare the sides: vifl diff")
		case r.SQLDelay > 0:
			return refuse(s.Name, fmt.Sprintf("a delay of %d s on purpose (SOURCE_DELAY)", r.SQLDelay), "none", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=0: a freeze waits until each side has applied the other")
		case r.SecondsBehind < 0 || behind > limit:
			return refuse(s.Name, fmt.Sprintf("%s behind the other side", behind), fmt.Sprintf("at most %s (limits.max_replica_delay)", limit), "wait until it has caught up")
		}
		return good(s.Name, "running, at most %s behind", limit)
	})
}
