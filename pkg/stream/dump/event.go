package dump

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
)

const (
	headSize     = 19
	checksumSize = 4
	// firstEvent is where the first event of a file begins, behind its magic number.
	firstEvent = 4
	// artificial flags an event that the server made up for its reader.
	artificial = 0x20
	// heartbeatV2 is a heartbeat with a long position (MySQL 8.0.26).
	heartbeatV2 = 41
)

// Event is one event of a binlog.
type Event struct {
	Type replication.EventType
	// Timestamp is when the statement began, in seconds of the server's clock; that of a
	// format description is when its file was begun.
	Timestamp uint32
	// Body is what follows the event's head, without the checksum.
	Body []byte
	// End is where the event ends, File included. An event that the server made up (the
	// first rotation, the format description of a file that is not read from its start)
	// ends where the one before it did.
	End position.FilePos
	// MadeUp says that the event is not in the file.
	MadeUp bool

	unpacker *unpacker
}

// decoder cuts packets into events and knows where it is.
type decoder struct {
	at       position.FilePos
	skipTo   position.FilePos // events before it are left out
	begun    bool             // the first rotation, which names the file, was seen
	checksum bool
	unpacker unpacker
}

func (d *decoder) close() { d.unpacker.close() }

// next is the event of a packet; nil for one that means nothing to anybody.
func (d *decoder) next(raw []byte) (*Event, error) {
	if len(raw) < headSize {
		return nil, fmt.Errorf("an event of %d bytes", len(raw))
	}
	e := &Event{Type: replication.EventType(raw[4]), Timestamp: binary.LittleEndian.Uint32(raw), unpacker: &d.unpacker}
	size, logPos := binary.LittleEndian.Uint32(raw[9:]), binary.LittleEndian.Uint32(raw[13:])
	flags := binary.LittleEndian.Uint16(raw[17:])
	if int(size) != len(raw) {
		return nil, fmt.Errorf("%s event of %d bytes came with %d", e.Type, size, len(raw))
	}
	e.Body = raw[headSize:]
	if err := d.cutChecksum(e, raw); err != nil {
		return nil, err
	}
	if e.Type == replication.HEARTBEAT_EVENT || e.Type == heartbeatV2 {
		return nil, nil
	}
	e.MadeUp = logPos == 0 || flags&artificial != 0
	if !e.MadeUp {
		if err := d.advance(e, size, logPos); err != nil {
			return nil, err
		}
	}
	if e.Type == replication.ROTATE_EVENT {
		if err := d.rotate(e); err != nil {
			return nil, err
		}
	}
	e.End = d.at
	// Behind 4 GiB reading begins at the file's start.
	if !e.MadeUp && d.skipTo.Pos > math.MaxUint32 && d.at.File == d.skipTo.File {
		if d.at.Pos <= d.skipTo.Pos {
			return nil, nil
		}
		if begin := d.at.Pos - uint64(size); begin < d.skipTo.Pos {
			return nil, permanent{fmt.Errorf("%s event from %d to %d: the position %s lies inside it", e.Type, begin, d.at.Pos, d.skipTo)}
		}
	}
	return e, nil
}

// advance moves to the end of an event. Its head has 32 bits for it: in a binlog of more
// than 4 GiB they start over.
func (d *decoder) advance(e *Event, size, logPos uint32) error {
	if d.at.Pos > math.MaxUint32 && !d.begun {
		return fmt.Errorf("%s event before the file's name", e.Type)
	}
	end := d.at.Pos>>32<<32 | uint64(logPos)
	if logPos < uint32(d.at.Pos) {
		end += 1 << 32
	}
	if begin := end - uint64(size); begin != d.at.Pos {
		return permanent{fmt.Errorf("%s event from %d to %d follows one that ended at %s: events are missing, or the position is not one of this binlog", e.Type, begin, end, d.at)}
	}
	d.at.Pos = end
	return nil
}

// rotate moves to another file. The server also sends one, made up, before the first event.
func (d *decoder) rotate(e *Event) error {
	if len(e.Body) < 8 {
		return fmt.Errorf("a rotation of %d bytes", len(e.Body))
	}
	pos, file := binary.LittleEndian.Uint64(e.Body), string(e.Body[8:])
	if !d.begun {
		d.begun = true
		if file != d.at.File {
			return permanent{fmt.Errorf("the server begins in file %q, expected %q", file, d.at.File)}
		}
		if pos == firstEvent || d.at.Pos > math.MaxUint32 {
			d.at.Pos = firstEvent
		}
		return nil
	}
	// The server makes one up as well, when the file behind was ended by a crash.
	d.at.File, d.at.Pos = file, pos
	return nil
}

// cutChecksum verifies the checksum and leaves it out.
func (d *decoder) cutChecksum(e *Event, raw []byte) error {
	body := e.Body
	if e.Type == replication.FORMAT_DESCRIPTION_EVENT {
		// Its last five bytes are the algorithm and room for a checksum, in any case.
		const crc32Algorithm = 1
		if len(body) < 1+checksumSize {
			return fmt.Errorf("a format description of %d bytes", len(body))
		}
		d.checksum = body[len(body)-1-checksumSize] == crc32Algorithm
		// That of a file read from its middle was changed on the way, its checksum with it.
		e.Body = body[:len(body)-checksumSize]
		return nil
	}
	if !d.checksum {
		return nil
	}
	if len(body) < checksumSize {
		return fmt.Errorf("%s event of %d bytes has no room for its checksum", e.Type, len(raw))
	}
	cut := len(raw) - checksumSize
	if want, got := binary.LittleEndian.Uint32(raw[cut:]), crc32.ChecksumIEEE(raw[:cut]); want != got {
		// The setting may have been changed between this file and the one before it: the
		// rotation that is made up between them has none then.
		if e.Type == replication.ROTATE_EVENT {
			return nil
		}
		return permanent{fmt.Errorf("%s event behind %s: checksum %08x, expected %08x: the binlog is damaged", e.Type, d.at, got, want)}
	}
	e.Body = body[:len(body)-checksumSize]
	return nil
}
