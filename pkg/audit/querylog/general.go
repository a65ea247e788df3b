package querylog

import (
	"bytes"
	"errors"
	"io"
)

// generalLine is the beginning of an entry of a general log.
type generalLine struct {
	connection []byte
	command    []byte
	argument   []byte
}

// commands are those that the server writes (sql/sql_parse.cc, Command_names). A line of a
// statement of several lines is told from a new entry by them.
var commands = map[string]bool{
	"Sleep": true, "Quit": true, "Init DB": true, "Query": true, "Field List": true, "Create DB": true, "Drop DB": true,
	"Refresh": true, "Shutdown": true, "Statistics": true, "Processlist": true, "Connect": true, "Kill": true, "Debug": true,
	"Ping": true, "Time": true, "Delayed insert": true, "Change user": true, "Binlog Dump": true, "Table Dump": true,
	"Connect Out": true, "Register Slave": true, "Register Replica": true, "Prepare": true, "Execute": true, "Long Data": true,
	"Close stmt": true, "Reset stmt": true, "Set option": true, "Fetch": true, "Daemon": true, "Binlog Dump GTID": true,
	"Reset Connection": true, "Clone": true, "Error": true, "clone": true, "Group Replication Data Stream subscription": true,
}

// parseGeneral reads a line of the form
//
//	2023-01-01T00:00:00.000000Z<TAB>    8 Query<TAB>SELECT 1
//	230101 12:00:00<TAB>    8 Query<TAB>SELECT 1
//	<TAB><TAB>    8 Query<TAB>SELECT 1
func parseGeneral(line []byte) (generalLine, bool) {
	var g generalLine
	rest := line
	switch {
	case len(rest) > 2 && rest[0] == '\t' && rest[1] == '\t':
		rest = rest[2:]
	case len(rest) > 16 && isDigit(rest[0]):
		tab := bytes.IndexByte(rest[:min(len(rest), 40)], '\t')
		if tab < 15 || !isTime(rest[:tab]) {
			return g, false
		}
		rest = rest[tab+1:]
	default:
		return g, false
	}
	rest = bytes.TrimLeft(rest, " ")
	i := 0
	for i < len(rest) && isDigit(rest[i]) {
		i++
	}
	if i == 0 || i >= len(rest) || rest[i] != ' ' {
		return g, false
	}
	g.connection, rest = rest[:i], rest[i+1:]
	tab := bytes.IndexByte(rest, '\t')
	if tab < 0 {
		tab = len(rest)
	}
	g.command = rest[:tab]
	if !commands[string(g.command)] {
		return g, false
	}
	if tab < len(rest) {
		g.argument = rest[tab+1:]
	}
	return g, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isTime tells a time of either form from other text.
func isTime(b []byte) bool {
	if len(b) >= 20 && b[4] == '-' && b[7] == '-' && b[10] == 'T' {
		return true
	}
	if len(b) != 15 || b[6] != ' ' || b[9] != ':' || b[12] != ':' {
		return false
	}
	for _, c := range b[:6] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// generalHead are the lines that a server writes when it opens the log.
func generalHead(line []byte) bool {
	return len(line) == 0 || bytes.HasPrefix(line, []byte("Tcp port:")) || bytes.HasPrefix(line, []byte("TCP Port:")) ||
		(bytes.HasPrefix(line, []byte("Time ")) && bytes.Contains(line, []byte("Command"))) ||
		(bytes.Contains(line, []byte(", Version: ")) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("started with:")))
}

// readGeneral reads a general log. Prepare is left out: Execute has the same statement with
// its values. A line inside a statement that looks like an entry is taken for one; the log's
// format cannot tell them apart.
func readGeneral(lines *lineReader, emit func(Event) error) error {
	var s statement
	var open bool
	var connection string
	// Connections repeat: one text each, instead of one a line. Bounded.
	names := map[string]string{}
	flush := func() error {
		if !open {
			return nil
		}
		open = false
		return emit(Event{Text: s.String(), Cut: s.cut, Connection: connection, Calls: 1})
	}
	seen := false
	for {
		line, cut, err := lines.next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		g, ok := parseGeneral(line)
		if !ok {
			if open && !(bytes.HasPrefix(line, []byte("Tcp port:")) || generalStart(line)) {
				s.add(line, cut)
				continue
			}
			if !seen && !generalHead(line) {
				return &Malformed{Format: General, Line: lines.number, Found: "a line that begins no entry", Expected: "a time, a connection's number, a command (such as Query) and its argument"}
			}
			// Behind a restart, the head again; else the rest of an entry that is not a query.
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		seen = true
		if err := flush(); err != nil {
			return err
		}
		name, known := names[string(g.connection)]
		if !known {
			if len(names) > 100_000 {
				clear(names)
			}
			name = string(g.connection)
			names[name] = name
		}
		connection = name
		switch string(g.command) {
		case "Query", "Execute":
			open = true
			s.reset(g.argument, cut)
		case "Init DB":
			open = true
			s.reset(append([]byte("use "), quoteName(g.argument)...), cut)
		case "Quit", "Connect", "Change user", "Reset Connection":
			if err := emit(Event{Kind: Closed, Connection: connection}); err != nil {
				return err
			}
		}
	}
}

// generalStart is the first line that a restarted server writes into the log.
func generalStart(line []byte) bool {
	return bytes.Contains(line, []byte(", Version: ")) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("started with:"))
}

func quoteName(name []byte) []byte {
	return append(append([]byte{'`'}, bytes.ReplaceAll(name, []byte("`"), []byte("``"))...), '`')
}
