// Package ledger owns the file in which a load writes down what it sent to the servers and
// what they answered, so that afterwards every row can be judged.
//
// The file is only ever appended to. It holds JSON lines of three kinds:
//
//	{"run":{…}}    a load starts                                  (Header)
//	{"begin":{…}}  one try of one operation is about to be sent   (Attempt)
//	{"end":{…}}    and this is how it ended                       (End)
//
// Invariants: a begin is handed to the operating system before the first byte of its
// operation goes to a server, its end before the same writer's next begin. So the file
// survives the death of the load at any instant (not of the machine: nothing is synced),
// and a begin without an end is exactly an operation whose outcome is unknown.
package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

// Format is the version of the file's format that this package writes and reads.
const Format = 1

// Header says that a load starts. Rows of different runs never have the same key.
type Header struct {
	Format int `json:"format"`
	// Run names the load; it is part of the keys its rows have.
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	Writers int       `json:"writers"`
}

// Acts of an Effect.
const (
	Insert = "insert"
	Update = "update"
	Delete = "delete"
)

// Effect is what one operation does to one row.
type Effect struct {
	Table string `json:"t"`
	// Key is what the row is found by: the key columns' text, joined by "|".
	Key string `json:"k"`
	Act string `json:"a"`
	// Version and Digest are those of the row after the operation; of a deleted row, none.
	// Digest is 64 bits of FNV-1a over the length-prefixed texts of the compared columns.
	Version uint32 `json:"v,omitempty"`
	Digest  uint64 `json:"d,omitempty"`
}

// Attempt is one try of one operation: a statement, or a transaction.
type Attempt struct {
	Writer int `json:"w"`
	// N counts the writer's attempts within a run.
	N     uint64     `json:"n"`
	Team  int64      `json:"team"`
	Shard shardid.ID `json:"shard"`
	Side  string     `json:"side"`
	// Endpoint is host:port/database, as mains gave it.
	Endpoint string `json:"at"`
	// Server is the server_uuid that the server behind the connection reported.
	Server string `json:"uuid"`
	// Rollback says that the transaction ends with ROLLBACK, on purpose.
	Rollback bool `json:"rollback,omitempty"`
	// Begin is in microseconds since 1970.
	Begin   int64    `json:"us"`
	Effects []Effect `json:"fx"`
}

// Outcome is how an attempt ended.
type Outcome string

const (
	// Acked: the server said that it is committed.
	Acked Outcome = "acked"
	// Unknown: it was sent and no reply came: committed once, or not at all.
	Unknown Outcome = "unknown"
	// Refused: the server said no, or it ended before the commit was sent: no effect.
	Refused Outcome = "refused"
	// RolledBack: the application rolled it back: no effect.
	RolledBack Outcome = "rolledback"
)

// End is how the writer's last begun attempt ended.
type End struct {
	Writer  int     `json:"w"`
	N       uint64  `json:"n"`
	Outcome Outcome `json:"out"`
	// IDs are the AUTO_INCREMENT values that the server gave, one per effect, 0 for none;
	// left out when there are none at all.
	IDs []uint64 `json:"ids,omitempty"`
	End int64    `json:"us"`
}

// Record is one line: exactly one of its members is set.
type Record struct {
	Run   *Header  `json:"run,omitempty"`
	Begin *Attempt `json:"begin,omitempty"`
	End   *End     `json:"end,omitempty"`
}

// Writer appends to a ledger. It is safe for use by many goroutines.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	err  error
}

// Open opens a ledger for appending, or makes it, and writes the header. A last line that
// a crash cut short is closed first, so that the header stands on a line of its own.
func Open(path string, h Header) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	w := &Writer{file: f}
	h.Format = Format
	err = w.endLine()
	if err == nil {
		err = w.Append(Record{Run: &h})
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return w, nil
}

func (w *Writer) endLine() error {
	info, err := w.file.Stat()
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = w.file.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = w.file.Write([]byte{'\n'})
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Append writes one record with one call of the operating system. After a failure it fails
// for ever: a ledger with a hole would call lost what was never asked for.
func (w *Writer) Append(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	line = append(line, '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.file.Write(line); err != nil {
		w.err = fmt.Errorf("ledger: %w: the load stops, because it could not prove what follows", err)
	}
	return w.err
}

// Close closes the file.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Read calls f for every record, in order, and stops at f's first error. A line that is not
// a record is an error, except one that a crash can have cut short: the last line, or the
// last before a header.
func Read(path string, f func(Record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer func() { _ = file.Close() }()
	r := bufio.NewReaderSize(file, 1<<20)
	var torn error
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("ledger %s: line %d: %w", path, number, err)
		}
		if len(line) == 0 {
			return nil
		}
		var rec Record
		bad := json.Unmarshal(line, &rec)
		if bad == nil {
			bad = rec.check()
		}
		switch {
		case bad != nil && torn == nil:
			torn = fmt.Errorf("ledger %s: line %d: %w", path, number, bad)
			continue
		case torn != nil && (bad != nil || rec.Run == nil):
			return torn
		}
		torn = nil
		if err := f(rec); err != nil {
			return fmt.Errorf("ledger %s: line %d: %w", path, number, err)
		}
	}
}

func (r Record) check() error {
	switch {
	case r.Run != nil && r.Begin == nil && r.End == nil:
		if r.Run.Format != Format {
			return fmt.Errorf("found format %d, expected %d", r.Run.Format, Format)
		}
	case r.Begin != nil && r.Run == nil && r.End == nil:
	case r.End != nil && r.Run == nil && r.Begin == nil:
	default:
		return errors.New("expected one of run, begin, end")
	}
	return nil
}
