package devcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// members are the processes of the cluster: those whose environment, as the kernel keeps
// it from their start, holds the marker. Ended ones that wait for their parent have no
// environment any more and are not among them.
func members(data string, except ...int) []int {
	marker := []byte(markerEnv + "=" + data)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && !slices.Contains(except, pid) && isMember(pid, marker) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isMember(pid int, marker []byte) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, marker) {
			return true
		}
	}
	return false
}

// killMembers ends every process of the cluster but those excepted and waits until none is
// left. It looks again after each round: a process that was about to start another one may
// have done so.
func killMembers(ctx context.Context, data string, except ...int) error {
	marker := []byte(markerEnv + "=" + data)
	for {
		pids := members(data, except...)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			// The handle is taken first, then the process is looked at once more: its number
			// could have become somebody else's meanwhile, its handle cannot.
			p, err := os.FindProcess(pid)
			if err != nil {
				continue
			}
			if isMember(pid, marker) {
				_ = p.Kill()
			}
			_ = p.Release()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("local fleet: wait for the end of processes %v: %w", members(data, except...), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
