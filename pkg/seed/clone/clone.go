package clone

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

// Run clones the donor into the recipient, which loses all it had. The recipient ends by
// itself when the clone is whole (it is no mysqld_safe's child); the caller waits for that
// and starts it again. progress is told bytes done and expected; it may be nil.
func Run(ctx context.Context, recipient *sql.DB, donor mysqlconn.Target, progress func(done, total uint64)) error {
	if donor.Host == "" {
		return fmt.Errorf("%s: a clone needs the donor's host and port, not a socket", donor)
	}
	if _, err := recipient.ExecContext(ctx, "SET GLOBAL clone_valid_donor_list = ?", donor.Host+":"+strconv.Itoa(donor.Port)); err != nil {
		return fmt.Errorf("clone from %s: name the donor: %w", donor, err)
	}
	watched, stop := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		watch(watched, recipient, progress)
	}()
	clone := "CLONE INSTANCE FROM " + text(donor.User) + "@" + text(donor.Host) + ":" + strconv.Itoa(donor.Port) + " IDENTIFIED BY " + text(donor.Password.Reveal())
	if donor.TLS.Mode != "" {
		// Without it the recipient takes a connection without TLS when that is what it gets. It does not
		// verify the donor's certificate; that vifl's own connection to it did, and that the clone has
		// the donor's rows, is what the seed and every diff behind it check.
		clone += " REQUIRE SSL"
	}
	_, err := recipient.ExecContext(ctx, clone)
	stop()
	<-watching
	switch {
	case err == nil, mysqlconn.Number(err) == restartFailed:
		return nil
	case mysqlconn.IsConnectionLost(err) && ctx.Err() == nil:
		return nil // it was faster than its answer; Position tells whether the clone is whole
	}
	return fmt.Errorf("clone from %s: %w", donor, err)
}

// restartFailed (3707) is the answer of a server that nobody will start again: the clone is
// whole, and the server shuts down.
const restartFailed = 3707

func watch(ctx context.Context, recipient *sql.DB, progress func(done, total uint64)) {
	if progress == nil {
		return
	}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var done, total uint64
		if err := recipient.QueryRowContext(ctx, "SELECT IFNULL(SUM(data),0), IFNULL(SUM(estimate),0) FROM performance_schema.clone_progress").Scan(&done, &total); err == nil {
			progress(done, total)
		}
	}
}

// Position is what the restarted recipient knows of the clone it came from: the donor's
// binlog position, as of which its data is, and how many bytes came.
func Position(ctx context.Context, c *sql.Conn, donorUUID string) (position.FilePos, uint64, error) {
	var state, message, file string
	var number int
	var pos, size uint64
	err := c.QueryRowContext(ctx, "SELECT state, error_no, error_message, IFNULL(binlog_file,''), IFNULL(binlog_position,0), (SELECT IFNULL(SUM(data),0) FROM performance_schema.clone_progress) FROM performance_schema.clone_status").
		Scan(&state, &number, &message, &file, &pos, &size)
	if err != nil {
		return position.FilePos{}, 0, fmt.Errorf("read the clone's status: %w", err)
	}
	if state != "Completed" || number != 0 {
		return position.FilePos{}, 0, fmt.Errorf("the clone is %s, expected Completed: error %d: %s", state, number, message)
	}
	if file == "" {
		return position.FilePos{}, 0, fmt.Errorf("the clone has no binlog position: is log_bin off on the donor?")
	}
	p, err := position.Parse(donorUUID, file[strings.LastIndexByte(file, '/')+1:]+":"+strconv.FormatUint(pos, 10))
	return p, size, err
}

// text makes a string literal.
func text(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}
