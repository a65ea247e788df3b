// Package querylog reads logs of queries, one event at a time: MySQL's general log and slow
// log, vtgate's query log, plain SQL and CSV. It knows the formats and nothing of what the
// queries mean. Memory is bounded by the longest statement, itself bounded by MaxStatement.
package querylog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Format is a log's format.
type Format string

// The formats that are read.
const (
	// General is MySQL's general query log (log_output=FILE), of 5.7 and later (a time in ISO
	// 8601 before every entry) and of 5.6 and MariaDB (a time when the second changes).
	General Format = "general"
	// Slow is MySQL's slow query log (log_output=FILE); long_query_time=0 logs every query.
	Slow Format = "slow"
	// VTGate is vtgate's query log (--log-queries-to-file), as text or JSON.
	VTGate Format = "vtgate"
	// SQL is statements with a semicolon behind each.
	SQL Format = "sql"
	// CSV has a line of names first: query, and any of calls, seconds, rows.
	CSV Format = "csv"
)

// Formats lists the formats, for messages.
var Formats = []Format{General, Slow, VTGate, SQL, CSV}

// MaxStatement is how many bytes of one statement are kept. What is longer is cut and marked:
// a parser cannot read it.
const MaxStatement = 1 << 20

// Kind says what happened.
type Kind int8

// The kinds of events.
const (
	// Query is a statement that a client sent.
	Query Kind = iota
	// Closed is the end of a connection: its transaction is over, too.
	Closed
)

// Event is one entry of a log.
type Event struct {
	Kind Kind
	// Text is the statement, without a semicolon behind it.
	Text string
	// Cut is true when Text is only the beginning.
	Cut bool
	// Connection tells connections apart; empty where the format does not say.
	Connection string
	// Calls is how many executions the entry stands for, 1 but for CSV and digests.
	Calls uint64
	// Seconds is the time of all calls together. Timed is false where the log has no times.
	Seconds float64
	Timed   bool
	// Rows is how many rows were sent to the client, of all calls; 0 where it is not known.
	Rows uint64
	// ShardQueries is what vtgate counted, of all calls; 0 where the log is not vtgate's.
	ShardQueries uint64
}

// Malformed is an error of the log itself, with its place.
type Malformed struct {
	Format          Format
	Line            int
	Found, Expected string
}

func (m *Malformed) Error() string {
	return fmt.Sprintf("line %d: found %s, expected %s: is it a %s log? --format names another (%s)", m.Line, m.Found, m.Expected, m.Format, FormatNames())
}

// FormatNames is the formats joined by commas.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Read reads a log to its end and hands over each event. The event and its text are the
// callee's to keep. It stops at the first error of emit, or when ctx ends.
func Read(ctx context.Context, r io.Reader, f Format, emit func(Event) error) error {
	lines := &lineReader{r: bufio.NewReaderSize(r, 1<<16), ctx: ctx}
	switch f {
	case General:
		return readGeneral(lines, emit)
	case Slow:
		return readSlow(lines, emit)
	case VTGate:
		return readVTGate(lines, emit)
	case SQL:
		return readSQL(ctx, lines.r, emit)
	case CSV:
		return readCSV(ctx, lines.r, emit)
	}
	return fmt.Errorf("format %q is not known, expected one of %s", f, FormatNames())
}

// Detect says which format a log has, by its first bytes (a few kilobytes) and its name.
func Detect(name string, head []byte) (Format, error) {
	switch {
	case strings.HasSuffix(name, ".sql"):
		return SQL, nil
	case strings.HasSuffix(name, ".csv"):
		return CSV, nil
	}
	// The last line may be cut off, unless it is the only one.
	if i := bytes.LastIndexByte(head, '\n'); i > 0 {
		head = head[:i]
	}
	for _, line := range bytes.Split(head, []byte{'\n'}) {
		line = bytes.TrimRight(line, "\r")
		switch {
		case bytes.HasPrefix(line, []byte("# Query_time:")), bytes.HasPrefix(line, []byte("# User@Host:")), bytes.HasPrefix(line, []byte("# Time:")):
			return Slow, nil
		case isVTGateText(line), isVTGateJSON(line):
			return VTGate, nil
		}
		if _, ok := parseGeneral(line); ok {
			return General, nil
		}
	}
	return "", fmt.Errorf("the format of %s cannot be told by its first lines: name it by --format (%s)", name, FormatNames())
}

// lineReader reads lines of any length; it keeps MaxStatement bytes of each.
type lineReader struct {
	r      *bufio.Reader
	ctx    context.Context
	number int
	buf    []byte
}

// next is the next line without its end; cut says that it was longer than what is kept. The
// line is valid until the next call. At the end it returns io.EOF.
func (l *lineReader) next() (line []byte, cut bool, err error) {
	if l.number&1023 == 0 {
		if err := l.ctx.Err(); err != nil {
			return nil, false, err
		}
	}
	l.number++
	part, err := l.r.ReadSlice('\n')
	if err == nil {
		return bytes.TrimRight(part, "\r\n"), false, nil
	}
	l.buf = l.buf[:0]
	for {
		if room := MaxStatement - len(l.buf); room < len(part) {
			part, cut = part[:max(room, 0)], true
		}
		l.buf = append(l.buf, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		part, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if err != nil && len(l.buf) == 0 {
		return nil, false, io.EOF
	}
	return bytes.TrimRight(l.buf, "\r\n"), cut, nil
}

// statement gathers the lines of one statement.
type statement struct {
	text []byte
	cut  bool
}

func (s *statement) reset(line []byte, cut bool) {
	s.text, s.cut = append(s.text[:0], line...), cut
}

func (s *statement) add(line []byte, cut bool) {
	if len(s.text)+len(line)+1 > MaxStatement {
		s.cut = true
		return
	}
	s.text = append(append(s.text, '\n'), line...)
	s.cut = s.cut || cut
}

// String is the statement without blanks around it and the semicolon behind it.
func (s *statement) String() string {
	return string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(s.text), []byte{';'})))
}
