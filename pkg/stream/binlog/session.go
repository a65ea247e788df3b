package binlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"
)

const (
	// sessionIdle is when the server ends a connection that says nothing, also one in the
	// midst of a transaction: see takeoverWait. Idle ones that are kept say something every
	// sessionKept.
	sessionIdle = 5 * time.Second
	sessionKept = 2 * time.Second
	// sessionUnused is when a connection that nothing was applied by is closed.
	sessionUnused = time.Minute
	// lockWait bounds the wait for a lock that somebody else on the target holds.
	lockWait = 10 * time.Second
	// statementAtMost bounds a statement's bytes, unless a single row has more.
	statementAtMost = 128 << 10
)

// session is a connection that applies.
type session struct {
	conn *sql.Conn
	// limit bounds a statement.
	limit        int
	used, spoken time.Time
}

// sqlMode makes the target store what it is given or refuse it; nothing is cut to size
// silently. Dates are not judged: sources have zero dates and worse.
const sqlMode = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"

// lenientMode stores what it can and warns: see careful.go.
const lenientMode = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"

// open makes a session with settings of its own, which must not go back into the pool.
//
// Foreign keys are not checked: the source has checked them, and a batch writes parents and
// children in any order. READ COMMITTED leaves out gap locks, by which connections that
// write rows of one table at a time would wait for each other. The range optimizer's memory
// has no bound, since behind it a DELETE of many keys would read the whole table.
func open(ctx context.Context, db *sql.DB, mode string) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, used: time.Now(), spoken: time.Now()}
	for _, q := range []string{
		"SET NAMES utf8mb4",
		fmt.Sprintf("SET SESSION time_zone='+00:00', sql_mode='%s', foreign_key_checks=0, unique_checks=1, autocommit=1, transaction_isolation='READ-COMMITTED', "+
			"transaction_read_only=0, innodb_lock_wait_timeout=%d, lock_wait_timeout=%d, wait_timeout=%d, net_read_timeout=%d, range_optimizer_max_mem_size=0, sql_safe_updates=0",
			mode, int(lockWait.Seconds()), int(lockWait.Seconds()), int(sessionIdle.Seconds()), int(sessionIdle.Seconds())),
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			discard(conn)
			return nil, err
		}
	}
	var packet int
	if err := conn.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet); err != nil {
		discard(conn)
		return nil, err
	}
	s.limit = min(statementAtMost, packet/2)
	return s, nil
}

// discard ends a connection instead of giving it back to its pool. What it had not
// committed is rolled back by the server.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}
