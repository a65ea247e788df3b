package shardmove

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/state"
)

// wrote notes a change of a legacy server before it is made: a crash in between leaves a
// note of something that was not done, and every undo bears that.
func wrote(ctx context.Context, lease *state.Lease, w state.LegacyWrite) error {
	w.At = time.Now().UTC()
	return lease.Update(ctx, func(d *state.Shard) {
		for _, old := range d.LegacyWrites {
			if old.Server == w.Server && old.What == w.What {
				return // the first undo knows the value that was there before us
			}
		}
		d.LegacyWrites = append(append([]state.LegacyWrite(nil), d.LegacyWrites...), w)
	})
}

// minRetention is how long a legacy server must keep its binlogs during a move. A stream
// that stood still over a long weekend must find its position again.
const minRetention = 7 * 24 * time.Hour

// prepareLegacy makes what a move needs on a legacy server: the database _vifl with the
// heartbeat table, and binlogs that are kept long enough.
func prepareLegacy(ctx context.Context, lease *state.Lease, side *legacy.Server) error {
	if err := wrote(ctx, lease, state.LegacyWrite{Server: side.Name(), What: "CREATE DATABASE `_vifl`", Undo: "DROP DATABASE IF EXISTS `_vifl`"}); err != nil {
		return err
	}
	if _, err := side.Prepare(ctx); err != nil {
		return err
	}
	vars, err := side.Variables(ctx)
	if err != nil {
		return err
	}
	const name = "binlog_expire_logs_seconds"
	seconds, err := strconv.ParseInt(vars[name], 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %s is %q, expected a number of seconds", side.Name(), name, vars[name])
	}
	// 0 keeps them for ever.
	if seconds == 0 || time.Duration(seconds)*time.Second >= minRetention {
		return nil
	}
	w := state.LegacyWrite{
		Server: side.Name(),
		What:   fmt.Sprintf("SET GLOBAL %s = %.0f", name, minRetention.Seconds()),
		Undo:   fmt.Sprintf("SET GLOBAL %s = %d", name, seconds),
	}
	if err := wrote(ctx, lease, w); err != nil {
		return err
	}
	if _, err := side.DB().ExecContext(ctx, w.What); err != nil {
		return fmt.Errorf("%s: keep its binlogs: %w: grant SYSTEM_VARIABLES_ADMIN, or set %s to %.0f yourself", side.Name(), err, name, minRetention.Seconds())
	}
	return nil
}

// undoWrites takes back what was noted for a server, newest first. On a closed server (after
// a switch) super_read_only alone is lifted for it: read_only and offline_mode stay on, under
// which only administrators write, so the application stays out; and what is Kept stays.
func undoWrites(ctx context.Context, lease *state.Lease, side *legacy.Server, closed bool) (err error) {
	writes := lease.Doc().LegacyWrites
	if closed {
		if err := side.SetFlags(ctx, legacy.Flags{ReadOnly: true, OfflineMode: true}); err != nil {
			return err
		}
		defer func() {
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			err = errors.Join(err, side.SetFlags(detached, legacy.Flags{ReadOnly: true, SuperReadOnly: true, OfflineMode: true}))
		}()
	}
	for i := len(writes) - 1; i >= 0; i-- {
		w := writes[i]
		if w.Server != side.Name() || (closed && w.Kept) {
			continue
		}
		if err := undo(ctx, side, w); err != nil {
			return err
		}
	}
	return nil
}

func undo(ctx context.Context, side *legacy.Server, w state.LegacyWrite) error {
	if _, err := side.DB().ExecContext(ctx, w.Undo); err != nil {
		return fmt.Errorf("%s: take back %q by %q: %w", side.Name(), w.What, w.Undo, err)
	}
	return nil
}

// undoTemporary takes back what a command changed for its own time only. The command does it
// at its end; where it was killed, the next one does.
func (m *Move) undoTemporary(ctx context.Context, lease *state.Lease) error {
	var left []state.LegacyWrite
	var temporary []state.LegacyWrite
	for _, w := range lease.Doc().LegacyWrites {
		if w.Temporary {
			temporary = append(temporary, w)
		} else {
			left = append(left, w)
		}
	}
	if len(temporary) == 0 {
		return nil
	}
	a, b, err := m.pair(ctx)
	if err != nil {
		return err
	}
	for _, side := range []*legacy.Server{a, b} {
		for _, w := range temporary {
			if w.Server != side.Name() {
				continue
			}
			if err := undo(ctx, side, w); err != nil {
				return err
			}
		}
	}
	return lease.Update(ctx, func(d *state.Shard) { d.LegacyWrites = left })
}
