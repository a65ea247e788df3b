package legacy

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Load is how busy a server is.
type Load struct {
	// ThreadsRunning counts the statements that run now, this one and others of ours among them.
	ThreadsRunning int
	// History is the length of InnoDB's history list: transactions whose old row versions are
	// not purged yet, because something may still read them or because purge has not come to it.
	History uint64
}

// Load asks the server how busy it is.
func (s *Server) Load(ctx context.Context) (Load, error) {
	fail := func(err error) (Load, error) { return Load{}, s.failed("asking how busy it is", err) }
	var l Load
	rows, err := mysqlconn.Maps(ctx, s.db, "SHOW GLOBAL STATUS LIKE 'Threads_running'")
	if err != nil {
		return fail(err)
	}
	if len(rows) != 1 {
		return fail(fmt.Errorf("found %d values of Threads_running, expected one", len(rows)))
	}
	if l.ThreadsRunning, err = strconv.Atoi(rows[0]["Value"]); err != nil {
		return fail(fmt.Errorf("number of running threads: %w", err))
	}
	var enabled string
	if err := s.db.QueryRowContext(ctx, "SELECT count, status FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'").Scan(&l.History, &enabled); err != nil {
		return fail(fmt.Errorf("history list length: %w", err))
	}
	if enabled != "enabled" {
		return fail(fmt.Errorf("found the counter trx_rseg_history_len %s, expected it enabled: SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len'", enabled))
	}
	return l, nil
}
