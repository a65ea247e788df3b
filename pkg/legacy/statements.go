package legacy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Statement is something a server is busy with.
type Statement struct {
	ID      uint64
	User    string
	Host    string
	Command string
	// Running is in whole seconds, as the server counts.
	Running time.Duration
	State   string
	// Text is the start of the statement. It may hold personal data: it is shown to the
	// operator and never stored.
	Text string
}

// String names the connection and what it does, with the statement cut short.
func (s Statement) String() string {
	text := strings.Join(strings.Fields(s.Text), " ")
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return fmt.Sprintf("connection %d of %s@%s, %s for %s: %s", s.ID, s.User, s.Host, s.State, s.Running, text)
}

// processes is the process list without ours. SHOW PROCESSLIST rather than
// performance_schema.processlist: the latter is empty where performance_schema is off.
func (s *Server) processes(ctx context.Context) ([]Statement, error) {
	rows, err := maps(ctx, s.db, "SHOW FULL PROCESSLIST")
	if err != nil {
		return nil, s.failed("reading the process list", err)
	}
	var all []Statement
	for _, row := range rows {
		id, err := strconv.ParseUint(row["Id"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: process list: id %q is not a number", s.target, row["Id"])
		}
		seconds, _ := strconv.ParseInt(row["Time"], 10, 64)
		all = append(all, Statement{
			ID: id, User: row["User"], Host: row["Host"], Command: row["Command"],
			Running: time.Duration(seconds) * time.Second, State: row["State"], Text: row["Info"],
		})
	}
	return all, nil
}

// LongStatements are the statements that have been running for longer: a global lock waits
// for each of them, and everything else waits behind the lock. Idle connections, the
// server's own threads and binlog readers are not statements. An open transaction that is
// idle does not hold up a global lock, so it is not listed either.
func (s *Server) LongStatements(ctx context.Context, older time.Duration) ([]Statement, error) {
	all, err := s.processes(ctx)
	if err != nil {
		return nil, err
	}
	var long []Statement
	for _, p := range all {
		if p.Command != "Query" && p.Command != "Execute" {
			continue
		}
		// Replication's appliers are "Query" too, for as long as they have been idle.
		if p.User == systemUser || p.User == "event_scheduler" || p.Running < older || p.Running == 0 {
			continue
		}
		long = append(long, p)
	}
	return long, nil
}

const systemUser = "system user"

// PreparedXA lists XA transactions left prepared. XA COMMIT succeeds under super_read_only
// and moves the binlog, so each is a write that a freeze does not stop. Needs
// XA_RECOVER_ADMIN.
func (s *Server) PreparedXA(ctx context.Context) ([]string, error) {
	rows, err := maps(ctx, s.db, "XA RECOVER CONVERT XID")
	if err != nil {
		return nil, s.failed("listing prepared XA transactions", err)
	}
	var all []string
	for _, row := range rows {
		all = append(all, fmt.Sprintf("%s (format %s, gtrid %s bytes, bqual %s bytes)", row["data"], row["formatID"], row["gtrid_length"], row["bqual_length"]))
	}
	return all, nil
}
