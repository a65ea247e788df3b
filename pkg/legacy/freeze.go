package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// Flags are what keeps a server from being written.
type Flags struct {
	ReadOnly      bool `json:"read_only"`
	SuperReadOnly bool `json:"super_read_only"`
	OfflineMode   bool `json:"offline_mode"`
}

// String is for messages.
func (f Flags) String() string {
	return fmt.Sprintf("read_only=%s super_read_only=%s offline_mode=%s", onOff(f.ReadOnly), onOff(f.SuperReadOnly), onOff(f.OfflineMode))
}

func onOff(b bool) string {
	if b {
		return "ON"
	}
	return "OFF"
}

// Freeze is a server that we made read only for everybody, over a connection that never
// reconnects. It does not end by itself: not when the connection breaks, and not when this
// process dies. Thaw ends it, or SetFlags with the flags that were recorded.
type Freeze struct {
	server *Server
	conn   *solo
	found  Flags
	// took is from asking until it was had; with several attempts, of all together.
	took time.Duration
}

// ConnectionID is the id of the freezing connection on the server, for a new owner to kill
// before it acts.
func (f *Freeze) ConnectionID() uint64 { return f.conn.id }

// Found are the flags as they were before.
func (f *Freeze) Found() Flags { return f.found }

// Took is how long it took from asking for the freeze to having it.
func (f *Freeze) Took() time.Duration { return f.took }

// Close gives the connection up and leaves the server as it is, frozen or not.
func (f *Freeze) Close() { f.conn.close() }

// freezeRetry spaces attempts to freeze: while one waits, new writes queue behind it, and
// they must get through before the next.
const freezeRetry = 100 * time.Millisecond

// Freeze sets super_read_only, waiting at most lockWait for statements under way; past it
// ErrBusy, with nothing changed. From its return on no transaction commits on the server,
// not even a SUPER account's, except XA COMMIT of a prepared transaction (see PreparedXA).
//
// Needs SYSTEM_VARIABLES_ADMIN. Looking for long writers first is the caller's: a freeze
// that waits makes everybody wait.
func (s *Server) Freeze(ctx context.Context, lockWait time.Duration) (*Freeze, error) {
	conn, _, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	killer, _, err := s.dial(ctx)
	if err != nil {
		conn.close()
		return nil, err
	}
	defer killer.close()
	f := &Freeze{server: s, conn: conn}
	if f.found, err = s.flagsOn(ctx, conn); err != nil {
		conn.close()
		return nil, err
	}
	// One second is the least; the watchdog ends the statement earlier where the bound is.
	if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout=1"); err != nil {
		conn.close()
		return nil, s.failed("preparing the freeze", err)
	}
	start := time.Now()
	for {
		err = f.try(ctx, killer, lockWait-time.Since(start))
		f.took = time.Since(start)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, ErrBusy) || ctx.Err() != nil || time.Since(start)+freezeRetry >= lockWait {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(freezeRetry):
		}
	}
	if errors.Is(err, ErrBusy) {
		// The server answered that it did not freeze: there is nothing to put back, and if
		// it is frozen now somebody else did it.
		conn.close()
		return nil, fmt.Errorf("%s: freeze: %w within %s%s", s.target, err, lockWait, s.inTheWay(ctx))
	}
	// A lost reply or a cancelled attempt may have frozen the server.
	if undo := f.undo(ctx); undo != nil {
		err = fmt.Errorf("%w; and thawing failed: %w: check super_read_only on this server", err, undo)
	}
	conn.close()
	return nil, err
}

// try is one attempt; the server's own flag decides whether it succeeded, not the reply.
func (f *Freeze) try(ctx context.Context, killer *solo, bound time.Duration) error {
	inside, cancel := detached(ctx, bound+killTimeout)
	defer cancel()
	stop := watch(ctx, killer, "KILL QUERY", f.conn.id, bound)
	_, err := f.conn.ExecContext(inside, "SET GLOBAL super_read_only=1")
	struck := stop()
	if err != nil && mysqlconn.IsConnectionLost(err) {
		return f.server.failed("freezing", err)
	}
	now, ferr := f.server.flagsOn(inside, f.conn)
	if ferr != nil && mysqlconn.IsLockTimeout(ferr) {
		// A KILL QUERY that came late hits the next statement instead.
		now, ferr = f.server.flagsOn(inside, f.conn)
	}
	switch {
	case ferr != nil:
		return ferr
	case ctx.Err() != nil:
		return fmt.Errorf("%s: freeze: %w", f.server.target, ctx.Err())
	case now.SuperReadOnly && (err == nil || f.found.SuperReadOnly || struck):
		return nil
	case err != nil && !mysqlconn.IsLockTimeout(err):
		return f.server.failed("freezing", err)
	}
	return ErrBusy
}

// undo puts the flags back after a failed freeze: over its own connection, or, when that is
// gone, over a new one. A new one is right only here: nobody else can own a freeze that
// was never handed out.
func (f *Freeze) undo(ctx context.Context) error {
	ctx, cancel := detached(ctx, killTimeout)
	defer cancel()
	if err := f.server.setFlagsOn(ctx, f.conn, f.found); err == nil {
		return nil
	}
	// The broken connection may still be waiting on the server to freeze it.
	_ = f.server.KillConnection(ctx, f.conn.id)
	return f.server.SetFlags(ctx, f.found)
}

// Thaw puts back exactly the flags that were found, over the connection that froze, and
// ends that connection. When the connection is broken it is an error and nothing is
// changed: another owner may have taken over.
func (f *Freeze) Thaw(ctx context.Context) error {
	if err := f.server.setFlagsOn(ctx, f.conn, f.found); err != nil {
		return err
	}
	f.conn.close()
	return nil
}

// Check proves that the freezing connection lives and that the server is still frozen.
func (f *Freeze) Check(ctx context.Context) error {
	now, err := f.server.flagsOn(ctx, f.conn)
	if err != nil {
		return err
	}
	if !now.SuperReadOnly {
		return fmt.Errorf("%s: found %s, expected frozen: somebody thawed it", f.server.target, now)
	}
	return nil
}

// Flags are the server's flags now.
func (s *Server) Flags(ctx context.Context) (Flags, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return Flags{}, s.failed("reading the read-only flags", err)
	}
	defer conn.Close()
	return s.flagsOn(ctx, conn)
}

// SetFlags makes the flags exactly these. It is for thawing after a crash, with the flags
// that the state recorded, and only after the crashed owner's connections were killed.
func (s *Server) SetFlags(ctx context.Context, want Flags) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.failed("setting the read-only flags", err)
	}
	defer conn.Close()
	return s.setFlagsOn(ctx, conn, want)
}
