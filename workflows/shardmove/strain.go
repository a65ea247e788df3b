package shardmove

import (
	"context"
	"errors"
	"fmt"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/legacy"
)

// errHistory is the error of a diff whose snapshots have become too old for the source.
var errHistory = errors.New("the source keeps too many old row versions")

// strained is how busy one side is. behind is nil where nobody asked.
type strained struct {
	name   string
	load   legacy.Load
	behind *int64 // seconds behind the other side; -1: the server does not know
	// snapshots says that the diff's snapshots are on this side.
	snapshots bool
}

// strain says why a diff must pause, empty when it need not. It is an error where pausing
// would make it worse (a snapshot that waits keeps still more undo history from being purged)
// or might never end.
func strain(l config.Limits, sides []strained) (pause string, err error) {
	for _, s := range sides {
		if s.snapshots && l.DiffHistory > 0 && s.load.History > uint64(l.DiffHistory) {
			return "", fmt.Errorf("%s: %w: found a history list of %d transactions, expected at most %d (limits.diff_history): the diff's snapshots, or somebody's long transaction, keep it from being purged: end that, run the diff when there is less traffic, let it read faster, or raise the limit", s.name, errHistory, s.load.History, l.DiffHistory)
		}
	}
	for _, s := range sides {
		if l.DiffThreadsRunning > 0 && s.load.ThreadsRunning > l.DiffThreadsRunning {
			return fmt.Sprintf("%s runs %d statements at once, at most %d are wanted (limits.diff_threads_running)", s.name, s.load.ThreadsRunning, l.DiffThreadsRunning), nil
		}
		if s.behind == nil || l.DiffReplicaDelay <= 0 {
			continue
		}
		if *s.behind < 0 {
			return "", fmt.Errorf("%s: it does not say how far it is behind the other side, expected at most %s (limits.diff_replica_delay): does its replication run?", s.name, l.DiffReplicaDelay)
		}
		if *s.behind > int64(l.DiffReplicaDelay.Seconds()) {
			return fmt.Sprintf("%s is %d s behind the other side, at most %s is wanted (limits.diff_replica_delay)", s.name, *s.behind, l.DiffReplicaDelay), nil
		}
	}
	return "", nil
}

// watch asks both sides whether they can bear a diff; nil when no limit is set.
func (m *Move) watch(a, b *legacy.Server) func(context.Context) (string, error) {
	l := m.cfg.Limits
	if l.DiffHistory <= 0 && l.DiffThreadsRunning <= 0 && l.DiffReplicaDelay <= 0 {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		var sides []strained
		for _, side := range []*legacy.Server{a, b} {
			load, err := side.Load(ctx)
			if err != nil {
				return "", err
			}
			s := strained{name: side.Name(), load: load, snapshots: side == a}
			if l.DiffReplicaDelay > 0 {
				status, err := side.Replica(ctx)
				if err != nil {
					return "", err
				}
				if status != nil { // a side that replicates from nobody is not behind
					s.behind = &status.SecondsBehind
				}
			}
			sides = append(sides, s)
		}
		return strain(l, sides)
	}
}
