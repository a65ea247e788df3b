package shardmove

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
)

// A fill that had just begun was shown as "fill  , from …", a backup with "0 rows".
func TestTheProgressOfASeedHasNoEmptyFields(t *testing.T) {
	at := position.FilePos{Server: "u", File: "binlog.000001", Pos: 4711}
	for _, c := range []struct {
		event seed.Event
		want  string
	}{
		{seed.Event{Phase: seed.PhaseFill, Position: at}, "from " + at.String()},
		{seed.Event{Phase: seed.PhaseFill, Position: at, BytesDone: 2e6, RowsDone: 7, Elapsed: time.Second}, "2.0 MB, 2.0 MB/s, 7 rows, from " + at.String()},
		{seed.Event{Phase: seed.PhaseFill, BytesDone: 2e6, BytesTotal: 4e6}, "2.0 MB"},
		{seed.Event{Phase: seed.PhaseBackup, BytesDone: 2e6, Elapsed: time.Second, Position: at}, "2.0 MB, 2.0 MB/s"},
		{seed.Event{Phase: seed.PhasePrepare, Message: "starting the scratch server"}, "starting the scratch server"},
		{seed.Event{Phase: seed.PhaseFill}, ""},
	} {
		if got := seedDetail(c.event); got != c.want {
			t.Errorf("%+v: %q, want %q", c.event, got, c.want)
		}
	}
}

func TestACloneThatCountsNoRowsDoesNotReportZero(t *testing.T) {
	if got := RowsText(&state.Seed{Method: "clone"}); strings.Contains(got, "0") {
		t.Errorf("clone: %q", got)
	}
	if got := RowsText(&state.Seed{Method: "copy"}); got != "0 rows" {
		t.Errorf("copy of an empty shard: %q", got)
	}
}

// lines is a Reporter that keeps what it was told.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Progress(p Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p.What+" "+p.Detail)
}
func (l *lines) Step(state.Timing)   {}
func (l *lines) Note(string, ...any) {}

// The tablets of a landing take minutes to start, in which nothing was shown.
func TestASilentHookIsShownToBeAtWork(t *testing.T) {
	shown := &lines{}
	m := &Move{show: "0123 (legacy_0123)", reporter: shown, cfg: &config.Config{Limits: config.Limits{TabletTimeout: time.Minute}}, shard: config.Shard{}}
	if err := m.hook(t.Context(), "provision", []string{"sleep", "2.5"}); err != nil {
		t.Fatal(err)
	}
	if len(shown.all) == 0 || !strings.HasPrefix(shown.all[0], "hook provision at work") {
		t.Errorf("shown: %v", shown.all)
	}
	shown.all = nil
	end := m.atWork("asking")
	end()
	if len(shown.all) != 0 {
		t.Errorf("what was done at once was shown: %v", shown.all)
	}
	m.cfg.Limits.TabletTimeout = 50 * time.Millisecond
	if err := m.hook(t.Context(), "provision", []string{"sleep", "9"}); err == nil || !strings.Contains(err.Error(), "tablet_timeout") {
		t.Errorf("a hook that does not end: %v", err)
	}
}

// A hook that was not there was found by a seed when the whole shard had been copied.
func TestAHookThatIsNotThereIsFoundBeforeTheCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hook")
	m := &Move{show: "0123 (legacy_0123)", cfg: &config.Config{Hooks: config.Hooks{Provision: []string{file}}}}
	if err := m.hooksExist(); err == nil || !strings.Contains(err.Error(), "hooks.provision") || !strings.Contains(err.Error(), file) {
		t.Errorf("a missing hook: %v", err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.hooksExist(); err != nil {
		t.Error(err)
	}
}

// The history said "context canceled" of what an operator had ended.
func TestAnInterruptIsCalledOne(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	boom := errors.New("read the schema: context canceled")
	if err := interrupted(ctx, boom); err != boom {
		t.Errorf("without an interrupt: %v", err)
	}
	cancel(engine.ErrInterrupted)
	if err := interrupted(ctx, boom); !errors.Is(err, engine.ErrInterrupted) || !errors.Is(err, boom) {
		t.Errorf("with one: %v", err)
	}
	if err := interrupted(ctx, nil); err != nil {
		t.Errorf("a verb that was done all the same: %v", err)
	}
}
