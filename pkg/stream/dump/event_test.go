package dump

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
)

// raw makes an event as a server sends it.
func raw(kind replication.EventType, body []byte, end uint64, flags uint16, checksum bool) []byte {
	b := make([]byte, headSize, headSize+len(body)+checksumSize)
	b[4] = byte(kind)
	size := headSize + len(body)
	if checksum {
		size += checksumSize
	}
	binary.LittleEndian.PutUint32(b[9:], uint32(size))
	binary.LittleEndian.PutUint32(b[13:], uint32(end))
	binary.LittleEndian.PutUint16(b[17:], flags)
	b = append(b, body...)
	if checksum {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	return b
}

func rotation(file string, pos uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, pos), file...)
}

// begin gives a decoder the events that a server sends first.
func begin(t *testing.T, from position.FilePos, asked uint64, checksum bool) *decoder {
	t.Helper()
	d := &decoder{at: from, skipTo: from, checksum: checksum}
	format := append(make([]byte, 57), 0, 0, 0, 0, 0)
	if checksum {
		format[57] = 1
	}
	for _, r := range [][]byte{raw(replication.ROTATE_EVENT, rotation(from.File, asked), 0, artificial, checksum), raw(replication.FORMAT_DESCRIPTION_EVENT, format, 0, 0, false)} {
		if _, err := d.next(r); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestBehind4GiB: positions in events have 32 bits and start over; in the reader's they go on.
func TestBehind4GiB(t *testing.T) {
	const gib = 1 << 30
	from := position.FilePos{Server: "u", File: "binlog.000007", Pos: 4*gib - 100}
	d := begin(t, from, from.Pos, true)
	at := from.Pos
	for range 5 {
		at += 19 + 40 + 4
		e, err := d.next(raw(replication.QUERY_EVENT, make([]byte, 40), at, 0, true))
		if err != nil || e.End.Pos != at || len(e.Body) != 40 {
			t.Fatalf("found %+v, %v, expected %d", e, err, at)
		}
	}
	// A large event across the next border.
	d.at.Pos = 8*gib - 10
	e, err := d.next(raw(replication.ROWS_QUERY_EVENT, make([]byte, 1<<20), 8*gib-10+19+1<<20+4, 0, true))
	if err != nil || e.End.Pos != 8*gib-10+19+1<<20+4 {
		t.Fatal(err)
	}
}

// TestBeginsBehind4GiB: the protocol cannot ask for such a position; the file is read from
// its start, and what lies before is left out.
func TestBeginsBehind4GiB(t *testing.T) {
	const gib = 1 << 30
	from := position.FilePos{Server: "u", File: "binlog.000007", Pos: 4*gib + 1000}
	d := begin(t, from, firstEvent, false)
	if d.at.Pos != firstEvent {
		t.Fatalf("begins at %s", d.at)
	}
	if e, err := d.next(raw(replication.ROWS_QUERY_EVENT, make([]byte, 100), firstEvent+119, 0, false)); err != nil || e != nil {
		t.Fatalf("an event before the position: %v, %v", e, err)
	}
	end := uint64(4*gib + 4)
	d.at.Pos = end - 119 // 4 GiB of events later
	if e, err := d.next(raw(replication.ROWS_QUERY_EVENT, make([]byte, 100), end, 0, false)); err != nil || e != nil || d.at.Pos != end {
		t.Fatalf("the event across 4 GiB: %v, %v", e, err)
	}
	inside := *d
	if _, err := inside.next(raw(replication.QUERY_EVENT, make([]byte, 2000-19), end+2000, 0, false)); err == nil || !IsPermanent(err) {
		t.Errorf("an event around the position: %v", err)
	}
	if e, err := d.next(raw(replication.QUERY_EVENT, make([]byte, 1000-4-19), end+1000-4, 0, false)); err != nil || e != nil {
		t.Fatalf("the last event before the position: %v, %v", e, err)
	}
	if e, err := d.next(raw(replication.QUERY_EVENT, make([]byte, 50), end+1000-4+19+50, 0, false)); err != nil || e == nil || e.End.Pos != from.Pos+69 {
		t.Fatalf("the first event behind the position: %+v, %v", e, err)
	}
}

func TestGapsAndDamage(t *testing.T) {
	from := position.FilePos{Server: "u", File: "binlog.000007", Pos: 400}
	for _, c := range []struct {
		name, want string
		raw        func() []byte
	}{
		{"a gap", "events are missing", func() []byte { return raw(replication.QUERY_EVENT, nil, 500, 0, true) }},
		{"an event twice", "events are missing", func() []byte { return raw(replication.QUERY_EVENT, nil, 400, 0, true) }},
		{"a flipped bit", "damaged", func() []byte {
			r := raw(replication.QUERY_EVENT, make([]byte, 30), 400+53, 0, true)
			r[30] ^= 1
			return r
		}},
		{"another size", "came with", func() []byte { return raw(replication.QUERY_EVENT, make([]byte, 30), 453, 0, true)[:50] }},
		{"nothing", "an event of 0 bytes", func() []byte { return nil }},
	} {
		d := begin(t, from, 400, true)
		if _, err := d.next(c.raw()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
	}
	d := &decoder{at: from, skipTo: from}
	if _, err := d.next(raw(replication.ROTATE_EVENT, rotation("binlog.000008", 4), 0, artificial, false)); err == nil || !IsPermanent(err) {
		t.Errorf("another file: %v", err)
	}
}

// FuzzBodies: garbage is an error, never a panic.
func FuzzBodies(f *testing.F) {
	f.Add(make([]byte, 40), byte(2))
	f.Fuzz(func(_ *testing.T, b []byte, kind byte) {
		_, _ = ParseQuery(b, kind%2 == 0)
		_, _ = QueryText(b)
		if m, err := ParseTableMap(b); err == nil {
			for i := range m.Types {
				m.IsNumeric(i)
				m.IsCharacter(i)
			}
		}
		_, _ = ParseRows(replication.EventType(kind), b)
		e := Event{Body: b}
		_ = e.Payload(func(*Event) error { return nil })
		d := decoder{at: position.FilePos{File: "binlog.000001", Pos: 4}}
		_, _ = d.next(b)
	})
}
