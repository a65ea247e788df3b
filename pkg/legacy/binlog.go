package legacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

// ErrPurged is returned for a position whose binlog file the server no longer has.
var ErrPurged = errors.New("binlog file is gone")

// ErrNoBinlog is returned by a server that writes no binlog.
var ErrNoBinlog = errors.New("the server writes no binlog")

// BinaryLog is one file of a server's binlog. Size is in bytes.
type BinaryLog struct {
	Name string
	Size uint64
}

// Position is the end of the server's own binlog.
func (s *Server) Position(ctx context.Context) (position.FilePos, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return position.FilePos{}, s.failed("reading the binlog position", err)
	}
	defer conn.Close()
	return s.positionOn(ctx, conn)
}

// positionOn reads the identity and the position over one connection, so that they are of
// one server.
func (s *Server) positionOn(ctx context.Context, conn *sql.Conn) (position.FilePos, error) {
	var uuid string
	if err := conn.QueryRowContext(ctx, "SELECT @@server_uuid").Scan(&uuid); err != nil {
		return position.FilePos{}, s.failed("reading the binlog position", err)
	}
	return s.endOfBinlog(ctx, conn, uuid)
}

func (s *Server) endOfBinlog(ctx context.Context, conn *sql.Conn, uuid string) (position.FilePos, error) {
	rows, err := mysqlconn.Maps(ctx, conn, s.version.binaryLogStatus())
	if err != nil {
		return position.FilePos{}, s.failed("reading the binlog position", err)
	}
	if len(rows) == 0 || rows[0]["File"] == "" {
		return position.FilePos{}, fmt.Errorf("reading the binlog position: %s: %w: start it with --log-bin", s.target, ErrNoBinlog)
	}
	return position.Parse(uuid, rows[0]["File"]+":"+rows[0]["Position"])
}

// BinaryLogs lists the files of the server's binlog, oldest first.
func (s *Server) BinaryLogs(ctx context.Context) ([]BinaryLog, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, "SHOW BINARY LOGS")
	if err != nil {
		return nil, s.failed("listing the binlog files", err)
	}
	var logs []BinaryLog
	for _, row := range rows {
		size, err := strconv.ParseUint(row["File_size"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("listing the binlog files: %s: %s: size %q is not a number", s.target, row["Log_name"], row["File_size"])
		}
		logs = append(logs, BinaryLog{Name: row["Log_name"], Size: size})
	}
	return logs, nil
}

// BytesBehind is how many bytes of binlog lie between p and the end. It is ErrPurged when
// the server no longer has p's file, position.ErrNotComparable when p is of another server.
func (s *Server) BytesBehind(ctx context.Context, p position.FilePos) (uint64, error) {
	end, err := s.Position(ctx)
	if err != nil {
		return 0, err
	}
	order, err := position.Compare(p, end)
	if err != nil {
		return 0, fmt.Errorf("%s: bytes behind: %w", s.target, err)
	}
	if order >= 0 {
		return 0, nil
	}
	if p.File == end.File {
		return end.Pos - p.Pos, nil
	}
	logs, err := s.BinaryLogs(ctx)
	if err != nil {
		return 0, err
	}
	var sum uint64
	found := false
	for _, l := range logs {
		switch {
		case l.Name == p.File:
			found = true
			if l.Size > p.Pos {
				sum += l.Size - p.Pos
			}
		case l.Name == end.File:
			sum += end.Pos
		case found:
			// A file rotated to after end was read is not counted; it comes last.
			if c, err := position.Compare(position.FilePos{Server: end.Server, File: l.Name}, end); err == nil && c < 0 {
				sum += l.Size
			}
		}
	}
	if !found {
		return 0, fmt.Errorf("%s: %w: %s (the oldest kept is %s): what follows it cannot be streamed any more; seed again, and raise binlog_expire_logs_seconds", s.target, ErrPurged, p.File, oldest(logs))
	}
	return sum, nil
}

func oldest(logs []BinaryLog) string {
	if len(logs) == 0 {
		return "none"
	}
	return logs[0].Name
}

// FreshBinlog reports that nothing but the file's own header lies before p. Such a position
// is no use to stop a VReplication stream at: it never notices that it is there, and then
// overshoots.
func (s *Server) FreshBinlog(ctx context.Context, p position.FilePos) (bool, error) {
	if _, err := position.Parse(p.Server, p.String()); err != nil {
		return false, err
	}
	// The file name cannot be bound in this statement; Parse accepted it, and quotes are
	// refused here.
	for _, r := range p.File {
		if r == '\'' || r == '\\' {
			return false, fmt.Errorf("%s: binlog file %q: unexpected character", s.target, p.File)
		}
	}
	rows, err := mysqlconn.Maps(ctx, s.db, "SHOW BINLOG EVENTS IN '"+p.File+"' LIMIT 4")
	if err != nil {
		return false, s.failed("reading the start of "+p.File, err)
	}
	for _, row := range rows {
		switch row["Event_type"] {
		case "Format_desc", "Previous_gtids", "Start_encryption":
			continue
		}
		at, err := strconv.ParseUint(row["Pos"], 10, 64)
		if err != nil {
			return false, fmt.Errorf("%s: %s: position %q is not a number", s.target, p.File, row["Pos"])
		}
		return at >= p.Pos, nil
	}
	return true, nil
}

// BinlogFilters says which databases are kept out of the binlog, "" when none are.
func (s *Server) BinlogFilters(ctx context.Context) (string, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, s.version.binaryLogStatus())
	if err != nil {
		return "", s.failed("reading the binlog's filters", err)
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("reading the binlog's filters: %s: %w: start it with --log-bin", s.target, ErrNoBinlog)
	}
	filters := ""
	for _, name := range []string{"Binlog_Do_DB", "Binlog_Ignore_DB"} {
		if v := rows[0][name]; v != "" {
			filters += " " + name + "=" + v
		}
	}
	return strings.TrimPrefix(filters, " "), nil
}
