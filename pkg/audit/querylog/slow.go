package querylog

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

// readSlow reads a slow log: comment lines with what was measured, then the statement. `SET
// timestamp=…;` is the server's own, and so is `use db;` when the database has changed since
// the entry before; only the latter tells something and is handed over.
func readSlow(lines *lineReader, emit func(Event) error) error {
	var s statement
	e := Event{}
	body, seen := false, false
	flush := func() error {
		if !body {
			return nil
		}
		body = false
		e.Text, e.Cut, e.Calls, e.Timed = s.String(), s.cut, 1, true
		if e.Text == "" {
			return nil
		}
		return emit(e)
	}
	for {
		line, cut, err := lines.next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("# Time: ")):
			seen = true
			if err := flush(); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte("# User@Host: ")):
			seen = true
			if err := flush(); err != nil {
				return err
			}
			e = Event{Connection: string(field(line, "Id:"))}
		case bytes.HasPrefix(line, []byte("# Query_time: ")):
			seen = true
			if err := flush(); err != nil {
				return err
			}
			found := field(line, "Query_time:")
			e.Seconds, err = strconv.ParseFloat(string(found), 64)
			if err != nil {
				return &Malformed{Format: Slow, Line: lines.number, Found: "Query_time: " + strconv.Quote(string(found)), Expected: "seconds, such as 0.000123"}
			}
			e.Rows, _ = strconv.ParseUint(string(field(line, "Rows_sent:")), 10, 64)
			if id := field(line, "Thread_id:"); e.Connection == "" && len(id) > 0 {
				e.Connection = string(id)
			}
		case bytes.HasPrefix(line, []byte("# administrator command: ")):
			if err := flush(); err != nil {
				return err
			}
			if bytes.HasPrefix(line, []byte("# administrator command: Quit")) {
				if err := emit(Event{Kind: Closed, Connection: e.Connection}); err != nil {
					return err
				}
			}
		case !body && !seen && generalHead(line), generalStart(line), !body && bytes.HasPrefix(line, []byte("# ")):
			// MariaDB and Percona Server have more comment lines of their own.
			if err := flush(); err != nil {
				return err
			}
		case body:
			s.add(line, cut)
		case generalHead(line):
		case bytes.HasPrefix(bytes.ToLower(line[:min(len(line), 14)]), []byte("set timestamp=")):
		case bytes.HasPrefix(line, []byte("use ")) && bytes.HasSuffix(line, []byte(";")):
			text := append([]byte("use "), quoteName(bytes.Trim(line[4:len(line)-1], "`"))...)
			if err := emit(Event{Text: string(text), Calls: 1, Connection: e.Connection, Timed: true}); err != nil {
				return err
			}
		case !seen:
			return &Malformed{Format: Slow, Line: lines.number, Found: "a line that begins no entry", Expected: "# Time:, # User@Host: or # Query_time:"}
		default:
			body = true
			s.reset(line, cut)
		}
	}
}

// field is the word behind a name in a comment line, empty when it is not there.
func field(line []byte, name string) []byte {
	i := bytes.Index(line, []byte(name))
	if i < 0 {
		return nil
	}
	rest := bytes.TrimLeft(line[i+len(name):], " ")
	if end := bytes.IndexAny(rest, " \t"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
