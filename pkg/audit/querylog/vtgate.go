package querylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The fields of vtgate's query log as text, separated by tabs (go/vt/vtgate/logstats/logstats.go
// of Vitess 24): Method, RemoteAddr, Username, ImmediateCaller, Effective Caller, Start, End,
// TotalTime, PlanTime, ExecuteTime, CommitTime, StmtType, SQL, BindVars, ShardQueries,
// RowsAffected, Error, TabletType, SessionUUID, …
const (
	vtgateStart        = 5
	vtgateTotalTime    = 7
	vtgateSQL          = 12
	vtgateShardQueries = 14
	vtgateRows         = 15
	vtgateSession      = 18
	vtgateFields       = 19
)

func isVTGateText(line []byte) bool {
	f := bytes.Split(line, []byte{'\t'})
	return len(f) >= vtgateFields && len(f[vtgateStart]) >= 19 && f[vtgateStart][4] == '-' && len(f[vtgateSQL]) > 1 && f[vtgateSQL][0] == '"'
}

func isVTGateJSON(line []byte) bool {
	return len(line) > 0 && line[0] == '{' && bytes.Contains(line, []byte(`"SQL"`)) && bytes.Contains(line, []byte(`"ShardQueries"`))
}

// readVTGate reads the query log of a vtgate. What vtgate has replaced by bind variables stays
// so. Rows are those that were changed; vtgate does not log those that it returned.
func readVTGate(lines *lineReader, emit func(Event) error) error {
	for {
		line, cut, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		malformed := func(found, expected string) error {
			return &Malformed{Format: VTGate, Line: lines.number, Found: found, Expected: expected}
		}
		var e Event
		if line[0] == '{' {
			var j struct {
				SQL          string
				TotalTime    json.Number
				ShardQueries uint64
				RowsAffected uint64
				SessionUUID  string
			}
			if err := json.Unmarshal(line, &j); err != nil {
				return malformed("a JSON object that cannot be read", "fields SQL, TotalTime, ShardQueries, RowsAffected, SessionUUID of their types")
			}
			e = Event{Text: j.SQL, Connection: j.SessionUUID, ShardQueries: j.ShardQueries, Rows: j.RowsAffected}
			e.Seconds, _ = j.TotalTime.Float64()
		} else {
			f := strings.Split(string(line), "\t")
			if len(f) < vtgateFields {
				return malformed(fmt.Sprintf("%d fields", len(f)), fmt.Sprintf("at least %d, separated by tabs", vtgateFields))
			}
			text, err := strconv.Unquote(f[vtgateSQL])
			if err != nil {
				return malformed("field 13, which is no quoted text", "the statement in double quotes")
			}
			e = Event{Text: text, Connection: strings.Trim(f[vtgateSession], `"`)}
			if e.Seconds, err = strconv.ParseFloat(f[vtgateTotalTime], 64); err != nil {
				return malformed(fmt.Sprintf("field 8 %q", f[vtgateTotalTime]), "seconds, such as 0.000123")
			}
			if e.ShardQueries, err = strconv.ParseUint(f[vtgateShardQueries], 10, 64); err != nil {
				return malformed(fmt.Sprintf("field 15 %q", f[vtgateShardQueries]), "a count of shard queries")
			}
			e.Rows, _ = strconv.ParseUint(f[vtgateRows], 10, 64)
		}
		e.Text, e.Cut, e.Calls, e.Timed = trimStatement(e.Text), cut, 1, true
		if e.Text == "" {
			continue
		}
		if err := emit(e); err != nil {
			return err
		}
	}
}
