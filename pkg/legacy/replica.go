package legacy

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

// ReplicaStatus is what a server says about replicating from another.
type ReplicaStatus struct {
	Channel                string
	SourceHost             string
	SourcePort             int
	SourceUser             string
	SourceUUID             string
	SourceServerID         uint32
	IORunning, SQLRunning  string // Yes, No, Connecting
	LastIOError            string
	LastSQLError           string
	Read                   position.FilePos // received up to here, in the source's binlog
	Applied                position.FilePos // applied up to here, in the source's binlog
	SecondsBehind          int64            // -1: the server does not know
	SQLDelay               int64            // seconds it is told to stay behind
	AutoPosition           bool
	ReplicateDoDB          string
	ReplicateIgnoreDB      string
	ReplicateDoTable       string
	ReplicateIgnoreTable   string
	ReplicateWildDoTable   string
	ReplicateWildIgnore    string
	ReplicateRewriteDB     string
	OtherChannels          []string // replication channels beside this one
	IgnoredServerIDs       string
	SourceConnectionStatus string // the I/O thread's state
}

// Running reports that both threads run.
func (r *ReplicaStatus) Running() bool { return r.IORunning == "Yes" && r.SQLRunning == "Yes" }

// Broken is the reason why the replica will not get further by itself, "" when it may.
func (r *ReplicaStatus) Broken() string {
	switch {
	case r.LastSQLError != "":
		return r.LastSQLError
	case r.SQLRunning != "Yes":
		return "the replication's SQL thread is not running"
	case r.IORunning == "No" && r.LastIOError != "":
		return r.LastIOError
	case r.IORunning == "No":
		return "the replication's I/O thread is not running"
	}
	return ""
}

// Replica is the replication status, nil when the server replicates from nobody. With
// several channels it is the default channel's if there is one, else the first.
func (s *Server) Replica(ctx context.Context) (*ReplicaStatus, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, "SHOW REPLICA STATUS")
	if err != nil {
		return nil, s.failed("reading the replication status", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	at := 0
	for i, row := range rows {
		if row["Channel_Name"] == "" {
			at = i
		}
	}
	r, err := replicaStatus(rows[at])
	if err != nil {
		return nil, fmt.Errorf("%s: replication status: %w", s.target, err)
	}
	for i, row := range rows {
		if i != at {
			r.OtherChannels = append(r.OtherChannels, row["Channel_Name"])
		}
	}
	return r, nil
}

func replicaStatus(row map[string]string) (*ReplicaStatus, error) {
	number := func(name string, otherwise int64) int64 {
		n, err := strconv.ParseInt(row[name], 10, 64)
		if err != nil {
			return otherwise
		}
		return n
	}
	r := &ReplicaStatus{
		Channel: row["Channel_Name"], SourceHost: row["Source_Host"], SourcePort: int(number("Source_Port", 0)),
		SourceUser: row["Source_User"], SourceUUID: row["Source_UUID"], SourceServerID: uint32(number("Source_Server_Id", 0)),
		IORunning: row["Replica_IO_Running"], SQLRunning: row["Replica_SQL_Running"],
		LastIOError: row["Last_IO_Error"], LastSQLError: row["Last_SQL_Error"],
		SecondsBehind: number("Seconds_Behind_Source", -1), SQLDelay: number("SQL_Delay", 0),
		AutoPosition:  row["Auto_Position"] == "1",
		ReplicateDoDB: row["Replicate_Do_DB"], ReplicateIgnoreDB: row["Replicate_Ignore_DB"],
		ReplicateDoTable: row["Replicate_Do_Table"], ReplicateIgnoreTable: row["Replicate_Ignore_Table"],
		ReplicateWildDoTable: row["Replicate_Wild_Do_Table"], ReplicateWildIgnore: row["Replicate_Wild_Ignore_Table"],
		ReplicateRewriteDB: row["Replicate_Rewrite_DB"], IgnoredServerIDs: row["Replicate_Ignore_Server_Ids"],
		SourceConnectionStatus: row["Replica_IO_State"],
	}
	// A replica that was pointed at a source but has not spoken to it yet has an empty file.
	for _, p := range []struct {
		into      *position.FilePos
		file, pos string
	}{
		{&r.Read, row["Source_Log_File"], row["Read_Source_Log_Pos"]},
		{&r.Applied, row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"]},
	} {
		if p.file == "" {
			continue
		}
		parsed, err := position.Parse(r.SourceUUID, p.file+":"+p.pos)
		if err != nil {
			return nil, err
		}
		*p.into = parsed
	}
	return r, nil
}

// appliedPoll is how often WaitApplied asks. A parallel applier moves its position at most
// every replica_checkpoint_period, so asking faster gains little; each question is cheap.
const appliedPoll = 5 * time.Millisecond

// threadsStart is how long a thread may be stopped without an error: a server that has just
// started answers a moment before its replication runs.
const threadsStart = 2 * time.Second

// WaitApplied waits until `on` has applied the binlog of `of` up to a position, or the
// context ends. It refuses at once when `on` does not replicate from `of` (by server_uuid,
// not by address), when upTo is not a position of `of`, and when the replication is broken.
//
// A parallel applier (replica_parallel_workers > 0) reports its position only every
// replica_checkpoint_period (300 ms by default): that long the wait may outlast the work.
func WaitApplied(ctx context.Context, on, of *Server, upTo position.FilePos) error {
	source, err := of.Identity(ctx)
	if err != nil {
		return err
	}
	if upTo.Server != source.ServerUUID {
		return fmt.Errorf("waiting for %s to apply %s of %s: the position is of server %s, but that server is %s", on.target, upTo, of.target, upTo.Server, source.ServerUUID)
	}
	last := "nothing yet"
	var down time.Time // since when a thread has been seen stopped, without an error
	for {
		r, err := on.Replica(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("waiting for %s to apply %s of %s: %w: it was at %s", on.target, upTo, of.target, ctx.Err(), last)
			}
			return err
		}
		if r == nil {
			return fmt.Errorf("%s replicates from nobody, expected from %s (%s)", on.target, of.target, source.ServerUUID)
		}
		// Until the I/O thread has met its source the uuid is empty: wait for it.
		if r.SourceUUID != "" && r.SourceUUID != source.ServerUUID {
			return fmt.Errorf("%s replicates from server %s (%s:%d), expected %s (%s)", on.target, r.SourceUUID, r.SourceHost, r.SourcePort, of.target, source.ServerUUID)
		}
		if r.SourceUUID != "" && !r.Applied.IsZero() {
			last = r.Applied.String()
			order, err := position.Compare(r.Applied, upTo)
			if err != nil {
				return fmt.Errorf("waiting for %s to apply %s of %s: %w", on.target, upTo, of.target, err)
			}
			if order >= 0 {
				return nil
			}
		}
		why := r.Broken()
		switch {
		case why == "":
			down = time.Time{}
		case down.IsZero():
			down = time.Now()
		}
		if why != "" && (r.LastSQLError != "" || r.LastIOError != "" || time.Since(down) > threadsStart) {
			return fmt.Errorf("%s will not apply %s of %s: it is at %s and replication is broken: %s: repair it first", on.target, upTo, of.target, last, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to apply %s of %s: %w: it was at %s", on.target, upTo, of.target, ctx.Err(), last)
		case <-time.After(appliedPoll):
		}
	}
}

// SetCheckpointPeriod sets how often, in milliseconds, a parallel applier reports how far it
// is (replica_checkpoint_period), and returns what it was, for the undo. WaitApplied takes
// at least that long: with the default of 300 the writers of a frozen pair wait 300 ms for
// nothing, with 10 about 12. Needs SYSTEM_VARIABLES_ADMIN; takes effect at once and is
// forgotten by a restart.
func (s *Server) SetCheckpointPeriod(ctx context.Context, ms int) (found int, err error) {
	if err := s.db.QueryRowContext(ctx, "SELECT @@GLOBAL.replica_checkpoint_period").Scan(&found); err != nil {
		return 0, s.failed("reading replica_checkpoint_period", err)
	}
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("SET GLOBAL replica_checkpoint_period=%d", ms)); err != nil {
		return found, s.failed("setting replica_checkpoint_period", err)
	}
	return found, nil
}
