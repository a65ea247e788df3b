// Package position owns where a stream is in a server's binlog.
//
// A file position means nothing without the server it belongs to: after a failover or a
// restore the same file name and offset point into other history. So a FilePos carries the
// server_uuid of its server, and two of them are compared only within one identity and one
// basename. File numbers are compared as numbers: binlog.999999 is followed by
// binlog.1000000, which as text sorts before it (VReplication compares names as text).
package position

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNotComparable is returned for two positions of different servers or basenames.
var ErrNotComparable = errors.New("positions are not of one binlog")

// FilePos is a place between two transactions in the binlog of one server.
type FilePos struct {
	// Server is the server_uuid of the server whose binlog this is.
	Server string `json:"server"`
	// File is the binlog's file name without a folder, such as binlog.000012.
	File string `json:"file"`
	// Pos is the byte offset in File.
	Pos uint64 `json:"pos"`
}

// IsZero reports a position that was never set.
func (p FilePos) IsZero() bool { return p == FilePos{} }

// String prints file:pos, as MySQL's own tools do.
func (p FilePos) String() string {
	if p.IsZero() {
		return "-"
	}
	return p.File + ":" + strconv.FormatUint(p.Pos, 10)
}

// Vitess prints the position in the form of Vitess' FilePos flavor, FilePos/file:pos.
func (p FilePos) Vitess() string { return "FilePos/" + p.String() }

// Parse reads file:pos of the server with the given uuid. A leading "FilePos/" is allowed.
func Parse(server, s string) (FilePos, error) {
	text := strings.TrimPrefix(s, "FilePos/")
	i := strings.LastIndexByte(text, ':')
	if i <= 0 {
		return FilePos{}, fmt.Errorf("binlog position %q: expected file:position, such as binlog.000012:4567", s)
	}
	pos, err := strconv.ParseUint(text[i+1:], 10, 64)
	if err != nil {
		return FilePos{}, fmt.Errorf("binlog position %q: the offset %q is not a number", s, text[i+1:])
	}
	p := FilePos{Server: server, File: text[:i], Pos: pos}
	if _, _, err := p.split(); err != nil {
		return FilePos{}, err
	}
	return p, nil
}

func (p FilePos) split() (base string, n uint64, err error) {
	i := strings.LastIndexByte(p.File, '.')
	if i < 0 {
		return "", 0, fmt.Errorf("binlog file %q: expected a name with a number behind the last dot", p.File)
	}
	n, err = strconv.ParseUint(p.File[i+1:], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("binlog file %q: expected a number behind the last dot", p.File)
	}
	return p.File[:i], n, nil
}

// Compare is -1, 0 or 1 as a lies before, at or behind b. It is ErrNotComparable when they
// belong to different servers or basenames.
func Compare(a, b FilePos) (int, error) {
	if a.Server != b.Server {
		return 0, fmt.Errorf("%w: %s is of server %q, %s of server %q", ErrNotComparable, a, a.Server, b, b.Server)
	}
	ab, an, err := a.split()
	if err != nil {
		return 0, err
	}
	bb, bn, err := b.split()
	if err != nil {
		return 0, err
	}
	switch {
	case ab != bb:
		return 0, fmt.Errorf("%w: basename %q against %q (was the binlog's name changed?)", ErrNotComparable, ab, bb)
	case an != bn:
		return cmp(an, bn), nil
	default:
		return cmp(a.Pos, b.Pos), nil
	}
}

func cmp(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
