// Package childtest says what a benchmark of real servers costs: time, and processor time of
// all processes that had a part in it. It starts nothing and ends nothing.
package childtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// Measure gives the time of do and the processor time that this process and its descendants
// used meanwhile, also those descendants that ended meanwhile: whoever waits for a process
// inherits its times, and its own end hands them on. The processes of except are left out
// with their descendants: servers that are there but have no part in it.
//
// A process that starts or ends in the very moment of reading may be counted wrongly, so
// nothing should be starting or ending when do begins and when it returns.
func Measure(tb testing.TB, do func(), except ...int) (wall, cpu time.Duration) {
	tb.Helper()
	before, began := used(tb, except), time.Now()
	do()
	wall = time.Since(began)
	return wall, used(tb, except) - before
}

// used is the processor time of this process and its descendants up to now.
func used(tb testing.TB, except []int) time.Duration {
	tb.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		tb.Fatal(err)
	}
	times, children := map[int]time.Duration{}, map[int][]int{}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it ended since
		}
		pid, parent, spent, err := parse(string(raw))
		if err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		times[pid] = spent
		children[parent] = append(children[parent], pid)
	}
	var sum time.Duration
	for next := []int{os.Getpid()}; len(next) > 0; {
		pid := next[0]
		next = next[1:]
		if !slices.Contains(except, pid) {
			sum += times[pid]
			next = append(next, children[pid]...)
		}
	}
	return sum
}

// parse reads a line of /proc/PID/stat: who it is, whose child, and the times of itself and
// of the children that it waited for, in user and in kernel mode.
func parse(stat string) (pid, parent int, spent time.Duration, err error) {
	// The name, in parentheses, may hold blanks and parentheses.
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 15 {
		return 0, 0, 0, fmt.Errorf("found %q, expected the line of a process", stat)
	}
	if _, err := fmt.Sscan(stat, &pid); err != nil {
		return 0, 0, 0, err
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, 0, err
	}
	for _, f := range fields[11:15] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, 0, err
		}
		spent += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return pid, parent, spent, nil
}
