package legacy

import (
	"context"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Started is when the server's process began, by our own clock. The server tells its uptime
// in whole seconds, so two readings of one process differ by up to two seconds.
func (s *Server) Started(ctx context.Context) (time.Time, error) {
	var name string
	var seconds int64
	if err := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &seconds); err != nil {
		return time.Time{}, s.failed("reading the uptime", err)
	}
	return time.Now().Add(-time.Duration(seconds) * time.Second), nil
}

// KillOwn ends every other connection of our own account and says how many there were. A new
// owner of the shard calls it first: a former owner that was asleep may still hold a
// connection that froze this server and would thaw it, and such a connection is never
// opened again.
func (s *Server) KillOwn(ctx context.Context) (int, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, s.failed("ending connections of a former owner", err)
	}
	defer conn.Close()
	var own string
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&own); err != nil {
		return 0, s.failed("ending connections of a former owner", err)
	}
	// Not information_schema.processlist: it cannot be read while somebody's statement holds
	// characters of four bytes.
	rows, err := mysqlconn.Maps(ctx, conn, "SHOW PROCESSLIST")
	if err != nil {
		return 0, s.failed("listing connections of a former owner", err)
	}
	killed := 0
	for _, row := range rows {
		if row["User"] != s.target.User || row["Id"] == own {
			continue
		}
		if _, err := conn.ExecContext(ctx, "KILL "+row["Id"]); err != nil && mysqlconn.Number(err) != noSuchThread {
			return killed, s.failed("killing connection "+row["Id"], err)
		}
		killed++
	}
	return killed, nil
}
