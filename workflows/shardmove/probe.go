package shardmove

import (
	"context"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// prepareProbe makes the table that the probe writes to, while there is no hurry, and logs in
// to vtgate: a wrong password must not be met inside a freeze.
func (m *Move) prepareProbe(ctx context.Context) error {
	target, err := m.cfg.VtgateTarget(m.id)
	if err != nil {
		return err
	}
	// The landing is fenced yet, and may be the only keyspace: nothing that vtgate would have
	// to send somewhere may be asked, the size of a packet neither.
	target.Database = ""
	db, err := mysqlconn.Connect(ctx, target, mysqlconn.Plain(), func(c *mysql.Config) { c.MaxAllowedPacket = 4 << 20 })
	if err != nil {
		return fmt.Errorf("shard %s: the probe of a cutover logs in to vtgate as vtgate.account: %w", m.show, err)
	}
	_ = db.Close()
	return m.landing.ExecuteAsDBA(ctx, "CREATE TABLE IF NOT EXISTS `_vifl`.`probe` (id TINYINT NOT NULL PRIMARY KEY, epoch BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB COMMENT='written by vifl cutover through vtgate'")
}

// probeOnce writes the epoch through vtgate into the landing's _vifl.probe, in a session
// aimed at its shard (which may use qualified names), reads it back, and then asks in a
// session with the database name that the application will get.
func (m *Move) probeOnce(ctx context.Context, epoch uint64) error {
	target, err := m.cfg.VtgateTarget(m.id)
	if err != nil {
		return err
	}
	app := target.Database
	target.Database = m.keyspace + ":0"
	// vtgate has no sessions variables to set at login that a probe needs.
	db, err := mysqlconn.Connect(ctx, target, mysqlconn.Plain())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "INSERT INTO `_vifl`.`probe` (id, epoch) VALUES (1, ?) ON DUPLICATE KEY UPDATE epoch = VALUES(epoch)", epoch); err != nil {
		return fmt.Errorf("%s: write: %w", target, err)
	}
	var read uint64
	if err := db.QueryRowContext(ctx, "SELECT epoch FROM `_vifl`.`probe` WHERE id = 1").Scan(&read); err != nil {
		return fmt.Errorf("%s: read: %w", target, err)
	}
	if read != epoch {
		return fmt.Errorf("%s: wrote %d, read %d", target, epoch, read)
	}
	target.Database = app
	named, err := mysqlconn.Connect(ctx, target, mysqlconn.Plain())
	if err != nil {
		return err
	}
	defer func() { _ = named.Close() }()
	var one int
	if err := named.QueryRowContext(ctx, "SELECT 1 FROM DUAL").Scan(&one); err != nil {
		return fmt.Errorf("%s: read as the application: %w", target, err)
	}
	return nil
}
