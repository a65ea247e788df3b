package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// patient is a connection on which every read must give something within silence.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// packets reads the server's packets into memory that it uses again: go-mysql's own reader
// makes a new copy of each, which costs more than all the rest.
type packets struct {
	r   *bufio.Reader
	buf []byte
}

// keep is how much memory is kept for the next packet; a larger one gets its own.
const keep = 1 << 20

// next is valid until the next call. A packet of 16 MiB goes on in the one behind it.
func (p *packets) next() ([]byte, error) {
	const full = 1<<24 - 1
	if cap(p.buf) > keep {
		p.buf = nil
	}
	p.buf = p.buf[:0]
	for {
		var head [4]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return nil, cutOff(err)
		}
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		at := len(p.buf)
		if cap(p.buf) < at+n {
			grown := make([]byte, at, max(at+n, 2*cap(p.buf)))
			copy(grown, p.buf)
			p.buf = grown
		}
		p.buf = p.buf[:at+n]
		if _, err := io.ReadFull(p.r, p.buf[at:]); err != nil {
			return nil, cutOff(err)
		}
		if n < full {
			return p.buf, nil
		}
	}
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed")
	}
	return fmt.Errorf("reading from the connection: %w", err)
}
