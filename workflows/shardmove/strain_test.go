package shardmove

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/legacy"
)

func TestStrain(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	limits := config.Limits{DiffHistory: 1000, DiffThreadsRunning: 10, DiffReplicaDelay: 5 * time.Second}
	a := strained{name: "0123 side a", load: legacy.Load{ThreadsRunning: 10, History: 1000}, behind: seconds(5), snapshots: true}
	b := strained{name: "0123 side b", load: legacy.Load{ThreadsRunning: 10, History: 9000}, behind: seconds(5)}
	for name, c := range map[string]struct {
		limits      config.Limits
		change      func(a, b *strained)
		pause, fail string
	}{
		"at every bound":            {limits, func(*strained, *strained) {}, "", ""},
		"no bounds":                 {config.Limits{}, func(a, b *strained) { *a.behind, a.load.ThreadsRunning, a.load.History = -1, 999, 1<<40 }, "", ""},
		"a is busy":                 {limits, func(a, b *strained) { a.load.ThreadsRunning++ }, "side a runs 11", ""},
		"b is busy":                 {limits, func(a, b *strained) { b.load.ThreadsRunning++ }, "side b runs 11", ""},
		"b lags":                    {limits, func(a, b *strained) { b.behind = seconds(6) }, "side b is 6 s behind", ""},
		"b does not say":            {limits, func(a, b *strained) { b.behind = seconds(-1) }, "", "side b"},
		"b has no source":           {limits, func(a, b *strained) { b.behind = nil }, "", ""},
		"a keeps too much":          {limits, func(a, b *strained) { a.load.History++ }, "", "1001 transactions, expected at most 1000"},
		"that comes before a pause": {limits, func(a, b *strained) { a.load.History++; a.load.ThreadsRunning = 99 }, "", "limits.diff_history"},
		"what b keeps is not by us": {limits, func(a, b *strained) { b.load.History = 1 << 40 }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := a, b
			a.behind, b.behind = seconds(*a.behind), seconds(*b.behind)
			c.change(&a, &b)
			pause, err := strain(c.limits, []strained{a, b})
			if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("error %v, expected %q", err, c.fail)
			}
			if (pause != "") != (c.pause != "") || !strings.Contains(pause, c.pause) {
				t.Errorf("pause %q, expected %q", pause, c.pause)
			}
			if strings.Contains(c.fail, "diff_history") && !errors.Is(err, errHistory) {
				t.Errorf("%v is not of the history", err)
			}
		})
	}
}
