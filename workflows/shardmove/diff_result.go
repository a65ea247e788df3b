package shardmove

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/workflows/engine"
)

// The report of the last diff is kept on the landing's primary, in _vifl, and reaches its
// replicas. It holds values of rows, so it belongs where the rows are and nowhere else: not
// into the topo server, whose readers are others and which is no place for ten thousand rows,
// and not onto the legacy, where each row of it would be a write on production and go through
// the pair's replication. A landing that is seeded again begins without one.
const (
	// keepBatch is how many bytes of rows one INSERT holds, far below any packet limit.
	keepBatch   = 1 << 20
	createKept  = "CREATE TABLE `_vifl`.`diff` (verb VARCHAR(20) NOT NULL PRIMARY KEY, finished DATETIME(6) NOT NULL, position VARCHAR(255) NOT NULL, different BIGINT UNSIGNED NOT NULL, report LONGTEXT NOT NULL) ENGINE=InnoDB CHARACTER SET utf8mb4 COMMENT='the last vifl diff of each kind'"
	createKept2 = "CREATE TABLE `_vifl`.`diff_row` (verb VARCHAR(20) NOT NULL, n INT UNSIGNED NOT NULL, accepted BOOLEAN NOT NULL, target VARCHAR(255) NOT NULL, table_name VARCHAR(64) NOT NULL, row_key LONGTEXT NOT NULL, kind VARCHAR(10) NOT NULL, entry LONGTEXT NOT NULL, PRIMARY KEY (verb, n)) ENGINE=InnoDB CHARACTER SET utf8mb4 COMMENT='its rows that differ'"
)

// ErrNoDiff is returned, wrapped, when no report is kept.
var ErrNoDiff = errors.New("no report of a diff is kept")

// KeptDiff is the report of the last diff that ran to its end.
type KeptDiff struct {
	Verb engine.Verb `json:"verb"`
	// At is when the diff ended, by vifl's clock, in UTC.
	At time.Time `json:"at"`
	DiffReport
}

// keep writes a report down, and says when it could not: what a diff found does not depend
// on it, and is printed all the same.
func (m *Move) keep(ctx context.Context, verb engine.Verb, report *DiffReport) {
	if report == nil || ctx.Err() != nil {
		return
	}
	if err := m.keepDiff(ctx, verb, report); err != nil {
		m.reporter.Note("the report could not be kept for vifl diff %s --last: %v", m.id, err)
	}
}

func (m *Move) keepDiff(ctx context.Context, verb engine.Verb, report *DiffReport) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, name, err := m.landingPrimary(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := storeDiff(ctx, db, verb, time.Now(), report); err != nil {
		return fmt.Errorf("landing %s: tablet %s: keep the report of a diff in _vifl: %w", m.keyspace, name, err)
	}
	return nil
}

// landingPrimary connects to the primary's server, with no database: a stream that reads its
// binlog must see that what is made there is not the shard's.
func (m *Move) landingPrimary(ctx context.Context) (*sql.DB, string, error) {
	t, err := m.landing.Primary(ctx)
	if err != nil {
		return nil, "", err
	}
	acc, err := m.landingAccount()
	if err != nil {
		return nil, "", err
	}
	db, err := m.landing.Connect(ctx, t, acc, "")
	return db, t.Alias, err
}

// storeDiff puts a report in the place of the last one of its kind, in one transaction.
func storeDiff(ctx context.Context, db *sql.DB, verb engine.Verb, at time.Time, report *DiffReport) error {
	head := *report
	// Statements of a repair hold whole values, of any size; they can be made again.
	head.Differences, head.Accepted, head.Repair = nil, nil, nil
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	// An existing table is not made again: also CREATE TABLE IF NOT EXISTS is a DDL in the
	// binlog, which behind a cutover a stream reads.
	for table, create := range map[string]string{"diff": createKept, "diff_row": createKept2} {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '_vifl' AND table_name = ?", table).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			if _, err := db.ExecContext(ctx, create); err != nil {
				return err
			}
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "DELETE FROM `_vifl`.`diff_row` WHERE verb = ?", verb); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "REPLACE INTO `_vifl`.`diff` (verb, finished, position, different, report) VALUES (?, ?, ?, ?, ?)",
		verb, at.UTC().Format("2006-01-02 15:04:05.000000"), report.Position, report.Different, string(text)); err != nil {
		return err
	}
	values, args, size, n := "", []any(nil), 0, 0
	flush := func() error {
		if values == "" {
			return nil
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO `_vifl`.`diff_row` (verb, n, accepted, target, table_name, row_key, kind, entry) VALUES "+values, args...)
		values, args, size = "", nil, 0
		return err
	}
	for i, list := range [][]DiffEntry{report.Differences, report.Accepted} {
		for _, d := range list {
			entry, err := json.Marshal(d)
			if err != nil {
				return err
			}
			if values != "" {
				values += ","
			}
			values += "(?,?,?,?,?,?,?,?)"
			args = append(args, verb, n, i == 1, d.Target, d.Table, d.Key, d.Kind, string(entry))
			n++
			if size += len(entry) + len(d.Key); size > keepBatch || len(args) > 4000 {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return tx.Commit()
}

// LastDiff is the report of the last diff, or of the last one with --reverse, as it was then.
// It reads the landing only, needs no lease, and says nothing of now.
func (m *Move) LastDiff(ctx context.Context, reverse bool) (*KeptDiff, error) {
	verb, run := engine.Diff, "vifl diff "+m.id.String()
	if reverse {
		verb, run = engine.DiffBack, run+" --reverse"
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, name, err := m.landingPrimary(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	kept, err := readDiff(ctx, db, verb)
	switch {
	case errors.Is(err, ErrNoDiff):
		return nil, fmt.Errorf("shard %s: landing %s, tablet %s: %w: run %s", m.show, m.keyspace, name, err, run)
	case err != nil:
		return nil, fmt.Errorf("landing %s: tablet %s: read the report of the last diff in _vifl: %w", m.keyspace, name, err)
	}
	return kept, nil
}

func readDiff(ctx context.Context, db *sql.DB, verb engine.Verb) (*KeptDiff, error) {
	// The head and its rows at one instant: another diff may end meanwhile.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	kept := &KeptDiff{Verb: verb}
	var at, text string
	err = tx.QueryRowContext(ctx, "SELECT finished, report FROM `_vifl`.`diff` WHERE verb = ?", verb).Scan(&at, &text)
	if errors.Is(err, sql.ErrNoRows) || mysqlconn.IsNoSuchTable(err) {
		return nil, ErrNoDiff
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &kept.DiffReport); err != nil {
		return nil, fmt.Errorf("its report cannot be read: %w: was it written by a newer vifl?", err)
	}
	if kept.At, err = time.Parse("2006-01-02 15:04:05.000000", at); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT accepted, entry FROM `_vifl`.`diff_row` WHERE verb = ? ORDER BY n", verb)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var accepted bool
		var d DiffEntry
		if err := rows.Scan(&accepted, &text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return nil, fmt.Errorf("a row of it cannot be read: %w: was it written by a newer vifl?", err)
		}
		if accepted {
			kept.Accepted = append(kept.Accepted, d)
		} else {
			kept.Differences = append(kept.Differences, d)
		}
	}
	return kept, rows.Err()
}
