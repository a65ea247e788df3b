// Package dump reads a server's binlog over one connection, event by event, and says where
// each event ends. It looks into no event but the few that say where the reader is.
//
// It speaks the replication protocol itself on go-mysql's connection instead of using
// go-mysql's syncer. The syncer asks the server to leave the checksums out, reads ahead up
// to 10,240 events of any size, and keeps positions in 32 bits; here checksums are verified
// when the server writes them, no event is read before the one before it has been handled
// (so that a slow reader holds one event, and the server waits), positions go on behind
// 4 GiB, and every event must begin where the one before it ended: a gap is an error.
package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

const (
	// heartbeat is how often an idle server says that it is still there; silence for
	// silence ends the connection.
	heartbeat = 2 * time.Second
	silence   = 15 * time.Second
	// dialTimeout bounds reaching the server.
	dialTimeout = 10 * time.Second
)

// ErrGone is returned when the binlog that is needed is not there any more.
var ErrGone = errors.New("the binlog is not there any more")

// ErrOtherServer is returned when the server is not the one that was meant.
var ErrOtherServer = errors.New("it is another server than the stream was started from")

// Source is a server whose binlog can be read. The account needs REPLICATION SLAVE and
// REPLICATION CLIENT.
type Source struct {
	Target mysqlconn.Target
	// Server is the server_uuid that it must have.
	Server string
}

// permanent marks an error that trying again does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error as one that trying again does not mend. An error of a handler
// that is not marked ends the connection as a broken one does.
func Permanent(err error) error { return permanent{err} }

// IsPermanent reports an error that trying again does not mend: the binlog is gone, the
// server is another, the account is turned away, or a handler said so.
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// Follow hands over every event behind from, in order, until ctx ends (it then returns
// ctx's cause), the connection breaks, or handle fails. The event's body is valid only
// during the call. It must begin between two transactions; Event.End says where reading can
// go on.
//
// The protocol has 32 bits for where to begin. Behind 4 GiB in a file it begins at the
// file's start and leaves out what lies before from.
func (s Source) Follow(ctx context.Context, from position.FilePos, handle func(*Event) error) error {
	if from.Server != s.Server {
		return permanent{fmt.Errorf("%s: reading the binlog from %s: the position is of server %s, expected %s", s.Target, from, from.Server, s.Server)}
	}
	c, checksum, err := s.open(ctx, from)
	if err != nil {
		return s.explain(ctx, from, err)
	}
	// Closing the socket ends a read that waits; the server notices at its next heartbeat.
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.Conn.Close() })
	defer func() {
		stop()
		_ = c.Conn.Conn.Close()
	}()
	d := decoder{at: from, skipTo: from, checksum: checksum}
	defer d.close()
	p := packets{r: bufio.NewReaderSize(patient{c.Conn.Conn}, 1<<16)}
	for {
		if ctx.Err() != nil { // what was read ahead is not handed over any more
			return context.Cause(ctx)
		}
		packet, err := p.next()
		if err != nil {
			return s.explain(ctx, d.at, err)
		}
		if len(packet) == 0 {
			return s.explain(ctx, d.at, errors.New("an empty packet"))
		}
		switch packet[0] {
		case mysql.OK_HEADER:
		case mysql.ERR_HEADER:
			return s.explain(ctx, d.at, c.HandleErrorPacket(packet))
		default: // the end, which the server sends when it shuts down
			return s.explain(ctx, d.at, errors.New("the server ended the binlog's reading"))
		}
		e, err := d.next(packet[1:])
		if err != nil {
			return s.explain(ctx, d.at, err)
		}
		if e == nil {
			continue
		}
		if err := handle(e); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// open connects, proves on that very connection whose binlog it is, and asks for it.
func (s Source) open(ctx context.Context, from position.FilePos) (*client.Conn, bool, error) {
	id, err := s.unusedServerID(ctx)
	if err != nil {
		return nil, false, err
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s.Target.Socket != "" {
			network, addr = "unix", s.Target.Socket
		}
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
	}
	secure, err := s.Target.TLSConfig()
	if err != nil {
		return nil, false, permanent{err}
	}
	protect := func(c *client.Conn) error {
		if secure != nil {
			c.SetTLSConfig(secure)
		}
		return nil
	}
	c, err := client.ConnectWithDialer(ctx, "tcp", s.Target.Addr(), s.Target.User, s.Target.Password.Reveal(), "", dial, protect)
	if err != nil {
		return nil, false, err
	}
	checksum, err := s.ask(c, id, from)
	if err != nil {
		_ = c.Conn.Conn.Close()
		return nil, false, err
	}
	return c, checksum, nil
}

func (s Source) ask(c *client.Conn, id uint32, from position.FilePos) (checksum bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return false, err
	}
	r, err := c.Execute("select @@global.server_uuid, @@global.binlog_checksum")
	if err != nil {
		return false, err
	}
	got, err := r.GetString(0, 0)
	if err != nil {
		return false, err
	}
	kind, err := r.GetString(0, 1)
	if err != nil {
		return false, err
	}
	if got != s.Server {
		return false, permanent{fmt.Errorf("found server_uuid %s, expected %s: %w: correct the address, or seed again from this server", got, s.Server, ErrOtherServer)}
	}
	// Both spellings of the variables: which one counts depends on the server's version.
	for _, q := range []string{
		fmt.Sprintf("set @source_binlog_checksum='%s', @master_binlog_checksum='%s'", kind, kind),
		fmt.Sprintf("set @source_heartbeat_period=%d, @master_heartbeat_period=%d", heartbeat.Nanoseconds(), heartbeat.Nanoseconds()),
		// A uuid of its own: the server ends the older one of two replicas with the same.
		"set @replica_uuid=uuid(), @slave_uuid=@replica_uuid",
	} {
		if _, err := c.Execute(q); err != nil {
			return false, err
		}
	}
	if err := write(c, registerReplica(id)); err != nil {
		return false, err
	}
	if _, err := c.ReadOKPacket(); err != nil {
		return false, err
	}
	pos := from.Pos
	if pos < firstEvent || pos > math.MaxUint32 {
		pos = firstEvent
	}
	return kind == "CRC32", write(c, binlogDump(id, from.File, uint32(pos)))
}

// write sends one command; its first four bytes are room for the packet's head.
func write(c *client.Conn, command []byte) error {
	c.ResetSequence()
	return c.WritePacket(command)
}

// explain names the server and tells what waiting does not mend.
func (s Source) explain(ctx context.Context, at position.FilePos, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// go-mysql wraps with a trace that errors.As goes through, except for our own type.
	var p permanent
	if errors.As(err, &p) {
		return permanent{fmt.Errorf("%s: reading the binlog from %s: %w", s.Target, at, p.error)}
	}
	var me *mysql.MyError
	if errors.As(err, &me) {
		switch me.Code {
		case 1236: // ER_SOURCE_FATAL_ERROR_READING_BINLOG, for causes of every kind
			text := strings.ToLower(me.Message)
			switch {
			case strings.Contains(text, "same server_"): // another replica took the id or the uuid: both are chosen anew
			case strings.Contains(text, "could not find"), strings.Contains(text, "position > file size"), strings.Contains(text, "impossible position"):
				return permanent{fmt.Errorf("%s: reading the binlog from %s: %w: %s: seed the landing again", s.Target, at, ErrGone, me.Message)}
			default:
				return permanent{fmt.Errorf("%s: reading the binlog from %s: the server cannot read it: %s", s.Target, at, me.Message)}
			}
		case mysql.ER_ACCESS_DENIED_ERROR, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR, mysql.ER_DBACCESS_DENIED_ERROR:
			return permanent{fmt.Errorf("%s: reading the binlog: the server turned the account %q away: %w: it needs REPLICATION SLAVE and REPLICATION CLIENT", s.Target, s.Target.User, err)}
		}
	}
	return fmt.Errorf("%s: reading the binlog from %s: %w", s.Target, at, err)
}
