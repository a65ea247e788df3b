package mains

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

const createEpoch = "CREATE TABLE IF NOT EXISTS `_vifl`.`epoch` (" +
	"shard SMALLINT UNSIGNED NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL, " +
	"owner VARCHAR(320) NOT NULL COMMENT 'the connection that raised it', " +
	"raised_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB COMMENT='written by vifl: who may move which shard'"

// Prepare makes _vifl.epoch when it is not there, and returns the statements that undo what
// it did. Undoing it is for when no shard is under way any more: the table is shared.
func (m *Mains) Prepare(ctx context.Context) (undo []string, err error) {
	var databases, tables int
	err = m.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='_vifl'), "+
		"(SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='_vifl' AND table_name='epoch')").Scan(&databases, &tables)
	if err != nil {
		return nil, m.failed("looking for _vifl.epoch", err)
	}
	if databases == 0 {
		if _, err := m.db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `_vifl` CHARACTER SET utf8mb4"); err != nil {
			return nil, m.failed("creating the database _vifl", err)
		}
	}
	if tables == 0 {
		if _, err := m.db.ExecContext(ctx, createEpoch); err != nil {
			return nil, m.failed("creating _vifl.epoch", err)
		}
		undo = append(undo, "DROP TABLE IF EXISTS `_vifl`.`epoch`")
	}
	return undo, nil
}

// Epoch is the shard's epoch, 0 when it was never raised.
func (m *Mains) Epoch(ctx context.Context, id shardid.ID) (uint64, error) {
	var epoch uint64
	err := m.db.QueryRowContext(ctx, "SELECT epoch FROM `_vifl`.`epoch` WHERE shard=?", uint16(id)).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err) {
		return 0, nil
	}
	if err != nil {
		return 0, m.failed("reading the epoch of "+id.String(), err)
	}
	return epoch, nil
}

// RaiseEpoch makes the shard's epoch `to`. It is ErrEpoch when it is higher already, and
// nothing happens when it is equal. It waits for a switch that is under way in another
// transaction: whoever raised the epoch knows that no older owner changes mains any more.
func (m *Mains) RaiseEpoch(ctx context.Context, id shardid.ID, to uint64) error {
	if _, err := m.Prepare(ctx); err != nil {
		return err
	}
	if _, err := m.db.ExecContext(ctx, "INSERT INTO `_vifl`.`epoch` (shard, epoch, owner) VALUES (?, ?, USER()) ON DUPLICATE KEY UPDATE "+
		"owner=IF(epoch < ?, USER(), owner), raised_at=IF(epoch < ?, CURRENT_TIMESTAMP(6), raised_at), epoch=GREATEST(epoch, ?)",
		uint16(id), to, to, to, to); err != nil {
		return m.failed("raising the epoch of "+id.String(), err)
	}
	now, err := m.Epoch(ctx, id)
	if err != nil {
		return err
	}
	if now != to {
		return fmt.Errorf("%w: %s in %s: found epoch %d, expected to raise it to %d", ErrEpoch, id, m.target, now, to)
	}
	return nil
}

// commitTimeout bounds COMMIT and ROLLBACK, which run on when the caller's context ends:
// once COMMIT was sent there is no taking it back, only a reply to wait for.
const commitTimeout = 10 * time.Second

// Switch changes where the shard is served to the given places, one for each side, in one
// transaction, on condition of the epoch. Places that are wanted and already there are left
// alone, so it may be repeated. On any error but ErrUnknownOutcome nothing was changed.
func (m *Mains) Switch(ctx context.Context, id shardid.ID, epoch uint64, to []Place) error {
	return m.inTransaction(ctx, id, epoch, to, true)
}

// Rehearse does everything of a Switch, and rolls it back: whoever has seen it succeed knows
// that the statement changes exactly one row for each side and that reading back shows the
// wanted places, before there is no way back.
func (m *Mains) Rehearse(ctx context.Context, id shardid.ID, epoch uint64, to []Place) error {
	if err := m.rollsBack(ctx); err != nil {
		return err
	}
	return m.inTransaction(ctx, id, epoch, to, false)
}

// rollsBack refuses tables that keep what was rolled back.
func (m *Mains) rollsBack(ctx context.Context) error {
	rows, err := m.db.QueryContext(ctx, "SELECT table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB' AND (table_schema = DATABASE() OR INSTR(?, table_schema) > 0)", m.change.text)
	if err != nil {
		return m.failed("reading the storage engines", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, engine string
		if err := rows.Scan(&name, &engine); err != nil {
			return m.failed("reading the storage engines", err)
		}
		// A name in the text may be a column's: refused too, rather than trusted.
		named, err := regexp.MatchString(`(?i)(^|\W)`+regexp.QuoteMeta(name)+`(\W|$)`, m.change.text)
		if err != nil {
			return fmt.Errorf("%s: look for the table %s in it: %w", m.change.key, name, err)
		}
		if named {
			return fmt.Errorf("%s: %s: found the table %s in the storage engine %s, expected InnoDB: a switch must be able to roll back: ALTER TABLE %s ENGINE=InnoDB", m.target, m.change.key, name, engine, name)
		}
	}
	if err := rows.Err(); err != nil {
		return m.failed("reading the storage engines", err)
	}
	return nil
}

// inTransaction changes the places and, where that is wanted, commits.
func (m *Mains) inTransaction(ctx context.Context, id shardid.ID, epoch uint64, to []Place, commit bool) error {
	if len(to) == 0 {
		return fmt.Errorf("%s: switch of %s: no places given", m.target, id)
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return m.failed("switching "+id.String(), err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return m.failed("switching "+id.String(), err)
	}
	if err := m.changePlaces(ctx, conn, id, epoch, to); err != nil {
		return errors.Join(err, m.rollback(ctx, conn))
	}
	if !commit {
		return m.rollback(ctx, conn)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if _, err := conn.ExecContext(end, "COMMIT"); err != nil {
		if mysqlconn.IsReadOnly(err) {
			return errors.Join(m.failed("switching "+id.String(), err), m.rollback(ctx, conn))
		}
		return fmt.Errorf("switching %s in %s: %w: %w: read where the shard is served before anything else", id, m.target, ErrUnknownOutcome, err)
	}
	return nil
}

// TrySwitch asks the server to plan the statements of a switch without running them: that
// needs the same privileges and finds the same faults in the text.
func (m *Mains) TrySwitch(ctx context.Context, id shardid.ID, to []Place) error {
	if err := m.rollsBack(ctx); err != nil {
		return err
	}
	for _, p := range to {
		rows, err := m.db.QueryContext(ctx, "EXPLAIN "+m.change.text, m.change.args(map[string]any{
			"shard": uint16(id), "side": p.Side, "host": p.Host, "port": p.Port, "database": p.Database,
		})...)
		if err != nil {
			return m.failed(m.change.key, err)
		}
		if err := rows.Close(); err != nil {
			return m.failed(m.change.key, err)
		}
	}
	return nil
}

// rollback undoes the transaction. A broken connection has done so by itself.
func (m *Mains) rollback(ctx context.Context, conn *sql.Conn) error {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	_, err := conn.ExecContext(end, "ROLLBACK")
	if err == nil || mysqlconn.IsConnectionLost(err) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return m.failed("rolling back", err)
}

// changePlaces is what happens inside the transaction, up to its commit.
func (m *Mains) changePlaces(ctx context.Context, conn *sql.Conn, id shardid.ID, epoch uint64, to []Place) error {
	var now uint64
	err := conn.QueryRowContext(ctx, "SELECT epoch FROM `_vifl`.`epoch` WHERE shard=? FOR UPDATE", uint16(id)).Scan(&now)
	switch {
	case errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err):
		return fmt.Errorf("%w: %s in %s: found no epoch, expected %d: was it raised?", ErrEpoch, id, m.target, epoch)
	case err != nil:
		return m.failed("locking the epoch of "+id.String(), err)
	case now != epoch:
		return fmt.Errorf("%w: %s in %s: found epoch %d, expected %d", ErrEpoch, id, m.target, now, epoch)
	}
	before, err := m.whereOn(ctx, conn, id)
	if err != nil {
		return err
	}
	for _, p := range to {
		if holds(before, p) {
			continue
		}
		res, err := conn.ExecContext(ctx, m.change.text, m.change.args(map[string]any{
			"shard": uint16(id), "side": p.Side, "host": p.Host, "port": p.Port, "database": p.Database,
		})...)
		if err != nil {
			return m.failed(fmt.Sprintf("%s for %s side %s", m.change.key, id, p.Side), err)
		}
		// Exactly one: that row is this side's, because reading back below shows that it
		// changed. More would be another shard's.
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("%s: %s: for %s side %s it changed %d rows (%v), expected exactly 1: nothing was changed", m.target, m.change.key, id, p.Side, n, err)
		}
	}
	after, err := m.whereOn(ctx, conn, id)
	if err != nil {
		return err
	}
	if !Same(after, to) {
		return fmt.Errorf("%s: %s: %s would be served %s, expected %s: nothing was changed", m.target, m.change.key, id, Show(after), Show(to))
	}
	return nil
}

func holds(places []Place, p Place) bool {
	for _, have := range places {
		if have == p {
			return true
		}
	}
	return false
}
