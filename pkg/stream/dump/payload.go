package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// Payload hands over the events inside a TRANSACTION_PAYLOAD event one by one, as they are
// uncompressed: a transaction that is large uncompressed is never in memory as a whole.
// They all end where the outer event ends.
func (e *Event) Payload(handle func(*Event) error) error {
	packed, kind, err := payloadBody(e.Body)
	if err != nil {
		return err
	}
	var r io.Reader = bytes.NewReader(packed)
	switch kind {
	case compressionZstd:
		if e.unpacker == nil {
			e.unpacker = &unpacker{}
			defer e.unpacker.close()
		}
		if r, err = e.unpacker.reset(r); err != nil {
			return fmt.Errorf("a compressed transaction: %w", err)
		}
	case compressionNone:
	default:
		return fmt.Errorf("a compressed transaction with compression type %d, which is not known", kind)
	}
	var head [headSize]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("a compressed transaction: %w", err)
		}
		size := int(binary.LittleEndian.Uint32(head[9:]))
		if size < headSize || size > maxEvent {
			return fmt.Errorf("a compressed transaction has an event of %d bytes", size)
		}
		if buf, err = readBody(r, buf[:0], size-headSize); err != nil {
			return fmt.Errorf("a compressed transaction: %w", err)
		}
		inner := &Event{Type: replication.EventType(head[4]), Timestamp: binary.LittleEndian.Uint32(head[:]), Body: buf, End: e.End}
		if err := handle(inner); err != nil {
			return err
		}
	}
}

// readBody reads n bytes behind those of buf. Memory grows with what comes, not with what
// was said to come.
func readBody(r io.Reader, buf []byte, n int) ([]byte, error) {
	for n > 0 {
		at, step := len(buf), min(n, max(len(buf), keep))
		buf = slices.Grow(buf, step)[:at+step]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, err
		}
		n -= step
	}
	return buf, nil
}

// maxEvent is the server's own limit (max_allowed_packet at its largest).
const maxEvent = 1 << 30

// unpacker is the decompressor of one connection: making one takes longer than a small
// transaction does.
type unpacker struct{ d *zstd.Decoder }

func (u *unpacker) reset(r io.Reader) (io.Reader, error) {
	if u.d == nil {
		// The window is what a decompressor keeps; the server's largest is 128 MiB.
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(1<<27))
		if err != nil {
			return nil, err
		}
		u.d = d
		return d, nil
	}
	return u.d, u.d.Reset(r)
}

func (u *unpacker) close() {
	if u.d != nil {
		u.d.Close()
		u.d = nil
	}
}

const (
	compressionZstd = 0
	compressionNone = 255
)

// payloadBody reads the fields before the payload: each a kind, a length and a value, the
// first two and a number as value packed.
func payloadBody(data []byte) (packed []byte, compression int, err error) {
	const (
		end      = 0
		kindType = 2
	)
	compression = compressionNone
	rest := data
	next := func() (int, bool) {
		v, n := PackedInt(rest)
		if n == 0 {
			return 0, false
		}
		rest = rest[n:]
		return v, true
	}
	for {
		kind, ok := next()
		if !ok {
			return nil, 0, short("a compressed transaction", len(data))
		}
		if kind == end {
			return rest, compression, nil
		}
		size, ok := next()
		if !ok || len(rest) < size {
			return nil, 0, short("a compressed transaction", len(data))
		}
		if kind == kindType {
			v, n := PackedInt(rest[:size])
			if n == 0 {
				return nil, 0, short("a compressed transaction", len(data))
			}
			compression = v
		}
		rest = rest[size:]
	}
}
