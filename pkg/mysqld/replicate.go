package mysqld

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// ReplicationAccount is who replicates between our servers; the password is of no value to
// anybody: the servers listen on 127.0.0.1 and live for one run.
type ReplicationAccount = mysqlconn.Account

// BinlogEnd is where the server's own binlog ends now: file and offset.
func BinlogEnd(ctx context.Context, db *sql.DB) (file string, pos uint64, err error) {
	err = errors.New("no row")
	// The first from 8.2, the second before.
	for _, q := range []string{"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"} {
		var rest [3]sql.RawBytes
		var rows *sql.Rows
		if rows, err = db.QueryContext(ctx, q); err != nil {
			if mysqlconn.Number(err) == 1064 {
				continue
			}
			return "", 0, err
		}
		if !rows.Next() {
			err = errors.Join(rows.Err(), rows.Close(), errors.New("the binlog is off"))
			return "", 0, err
		}
		err = rows.Scan(&file, &pos, &rest[0], &rest[1], &rest[2])
		return file, pos, errors.Join(err, rows.Close())
	}
	return "", 0, err
}

// Replicate makes replica follow source by file and position from the source's present end
// on, as acc, and waits until both of its threads run. The caller has made the account and
// sees to it that the two hold the same data now.
func Replicate(ctx context.Context, replica, source *Server, acc ReplicationAccount) error {
	fail := func(err error) error {
		return fmt.Errorf("%s: replicate from %s: %w", replica.Name(), source.Name(), err)
	}
	src, err := mysqlconn.Connect(ctx, source.Target(source.Name()))
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	dst, err := mysqlconn.Connect(ctx, replica.Target(replica.Name()))
	if err != nil {
		return fail(err)
	}
	defer dst.Close()
	file, pos, err := BinlogEnd(ctx, src)
	if err != nil {
		return fail(err)
	}
	// The password travels in clear text otherwise only to those who have the server's key.
	_, err = dst.ExecContext(ctx, `CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = ?, SOURCE_USER = ?,
		SOURCE_PASSWORD = ?, SOURCE_LOG_FILE = ?, SOURCE_LOG_POS = ?, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400,
		SOURCE_HEARTBEAT_PERIOD = 1, GET_SOURCE_PUBLIC_KEY = 1`,
		source.Port(), acc.User, acc.Password.Reveal(), file, pos)
	if err != nil {
		return fail(err)
	}
	if _, err := dst.ExecContext(ctx, "START REPLICA"); err != nil {
		return fail(err)
	}
	for {
		// Both threads run, in the words of the status tables: names of columns of SHOW
		// REPLICA STATUS differ between versions.
		var running int
		var last sql.NullString
		err := dst.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM performance_schema.replication_connection_status WHERE service_state = 'ON')
			+ (SELECT COUNT(*) FROM performance_schema.replication_applier_status WHERE service_state = 'ON'),
			(SELECT MAX(last_error_message) FROM performance_schema.replication_connection_status)`).Scan(&running, &last)
		if err != nil {
			return fail(err)
		}
		if running == 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fail(fmt.Errorf("wait until its threads run: %w; last error %q", ctx.Err(), last.String))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// CaughtUp waits until replica has applied what source's binlog holds now.
func CaughtUp(ctx context.Context, replica, source *Server) error {
	fail := func(err error) error {
		return fmt.Errorf("%s: wait until it has applied the binlog of %s: %w", replica.Name(), source.Name(), err)
	}
	src, err := mysqlconn.Connect(ctx, source.Target(source.Name()))
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	dst, err := mysqlconn.Connect(ctx, replica.Target(replica.Name()))
	if err != nil {
		return fail(err)
	}
	defer dst.Close()
	file, pos, err := BinlogEnd(ctx, src)
	if err != nil {
		return fail(err)
	}
	for {
		var events sql.NullInt64
		if err := dst.QueryRowContext(ctx, "SELECT SOURCE_POS_WAIT(?, ?, 1)", file, pos).Scan(&events); err != nil {
			return fail(err)
		}
		if events.Valid && events.Int64 >= 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fail(fmt.Errorf("%w at %s:%d", err, file, pos))
		}
		if !events.Valid { // the applier does not run
			var last sql.NullString
			if err := dst.QueryRowContext(ctx, "SELECT MAX(last_error_message) FROM performance_schema.replication_applier_status_by_worker WHERE last_error_number <> 0").Scan(&last); err == nil && last.String != "" {
				return fail(fmt.Errorf("replication has stopped: %s", last.String))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
