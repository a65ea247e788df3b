package legacy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Statement is something a server is busy with.
type Statement struct {
	ID      uint64
	User    string
	Host    string
	Command string
	Running time.Duration
	State   string
	// HoldsTables: it, or its transaction, has tables in use.
	HoldsTables bool
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
	rows, err := mysqlconn.Maps(ctx, s.db, "SHOW FULL PROCESSLIST")
	if err != nil {
		return nil, s.failed("reading the process list", err)
	}
	var all []Statement
	for _, row := range rows {
		p, err := statement(row)
		if err != nil {
			return nil, fmt.Errorf("%s: process list: %w", s.target, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func statement(row map[string]string) (Statement, error) {
	id, err := strconv.ParseUint(row["Id"], 10, 64)
	if err != nil {
		return Statement{}, fmt.Errorf("connection id %q is not a number", row["Id"])
	}
	seconds, _ := strconv.ParseInt(row["Time"], 10, 64)
	return Statement{
		ID: id, User: row["User"], Host: row["Host"], Command: row["Command"],
		Running: time.Duration(seconds) * time.Second, State: row["State"], Text: row["Info"],
	}, nil
}

// LongStatements are the statements that have been running for longer. Idle connections,
// the server's own threads and binlog readers are not statements; nor is an open
// transaction that is idle, which does not hold up a global lock.
//
// With performance_schema the running time has microseconds and HoldsTables is known;
// without, it is in whole seconds and every statement counts as holding tables.
func (s *Server) LongStatements(ctx context.Context, older time.Duration) ([]Statement, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.failed("looking for long statements", err)
	}
	defer conn.Close()
	rows, err := mysqlconn.Maps(ctx, conn, runningStatements)
	if err != nil && !mysqlconn.IsAccessDenied(err) {
		return nil, s.failed("looking for long statements", err)
	}
	instrumented := false
	var long []Statement
	for _, row := range rows {
		if row["me"] == "1" {
			instrumented = true
			continue
		}
		p, err := statement(row)
		if err != nil {
			return nil, fmt.Errorf("%s: looking for long statements: %w", s.target, err)
		}
		us, _ := strconv.ParseInt(row["us"], 10, 64)
		p.Running = time.Duration(us) * time.Microsecond
		p.HoldsTables = row["tables_held"] == "1"
		if p.Running >= older {
			long = append(long, p)
		}
	}
	if instrumented {
		return long, nil
	}
	all, err := s.processes(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		// Replication's appliers are "Query" too, for as long as they have been idle.
		busy := (p.Command == "Query" || p.Command == "Execute") && p.User != systemUser && p.User != "event_scheduler"
		if busy && p.Running > 0 && p.Running >= older {
			p.HoldsTables = true
			long = append(long, p)
		}
	}
	return long, nil
}

// runningStatements lists our own statement too: when it is not there, the server does not
// keep this table, and its emptiness means nothing.
const runningStatements = `SELECT t.processlist_id AS Id, t.processlist_user AS User, t.processlist_host AS Host,
	t.processlist_command AS Command, t.processlist_state AS State, t.processlist_time AS Time, s.sql_text AS Info,
	s.timer_wait DIV 1000000 AS us, t.processlist_id = CONNECTION_ID() AS me,
	EXISTS (SELECT 1 FROM performance_schema.metadata_locks m
		WHERE m.owner_thread_id = t.thread_id AND m.object_type = 'TABLE' AND m.lock_status = 'GRANTED') AS tables_held
	FROM performance_schema.events_statements_current s JOIN performance_schema.threads t ON t.thread_id = s.thread_id
	WHERE s.end_event_id IS NULL AND s.nesting_event_level = 0 AND t.processlist_command IN ('Query', 'Execute')
	AND t.name NOT LIKE '%replica%' AND t.name NOT LIKE '%slave%' AND t.name NOT LIKE '%event_scheduler%'`

const systemUser = "system user"

// PreparedXA lists XA transactions left prepared. XA COMMIT succeeds under super_read_only
// and moves the binlog, so each is a write that a freeze does not stop. Needs
// XA_RECOVER_ADMIN.
func (s *Server) PreparedXA(ctx context.Context) ([]string, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, "XA RECOVER CONVERT XID")
	if err != nil {
		return nil, s.failed("listing prepared XA transactions", err)
	}
	var all []string
	for _, row := range rows {
		all = append(all, fmt.Sprintf("%s (format %s, gtrid %s bytes, bqual %s bytes)", row["data"], row["formatID"], row["gtrid_length"], row["bqual_length"]))
	}
	return all, nil
}
