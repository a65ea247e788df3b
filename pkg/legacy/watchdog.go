package legacy

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// killTimeout bounds a KILL. It runs on a connection that was opened and tried before the
// statement it may have to end, so it takes a round trip; more means the server is gone.
const killTimeout = 5 * time.Second

// solo is a pool of one physical connection that is never opened again: when it breaks,
// every further use is an error. Freezing and locking depend on that: a new connection
// would not hold the lock, and nobody would notice.
type solo struct {
	pool *sql.DB
	*sql.Conn
	id uint64
}

// dial opens a connection of its own to the server and reads its id and the server_uuid.
func (s *Server) dial(ctx context.Context) (*solo, string, error) {
	pool, err := mysqlconn.Open(s.target)
	if err != nil {
		return nil, "", err
	}
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		_ = pool.Close()
		return nil, "", mysqlconn.Explain(s.target, err)
	}
	c := &solo{pool: pool, Conn: conn}
	var uuid string
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), @@server_uuid").Scan(&c.id, &uuid); err != nil {
		c.close()
		return nil, "", mysqlconn.Explain(s.target, err)
	}
	return c, uuid, nil
}

// close ends the connection; whatever it held is released by the server.
func (c *solo) close() {
	if c == nil {
		return
	}
	// The pool first: a connection that goes back to a closed pool is closed, one that goes
	// back to an open pool is kept, with all its session holds.
	_ = c.pool.Close()
	_ = c.Conn.Close()
}

// watch ends what connection id does when bound has passed or ctx ends, by the statement
// kill (KILL or KILL QUERY) over the second connection. A client-side timeout is no
// substitute: the server does not notice that a client left while its statement waits for
// a lock, and everybody else goes on waiting behind it.
//
// The returned function ends the watch and says whether it struck; when it returns, no
// KILL is under way any more.
func watch(ctx context.Context, killer *solo, kill string, id uint64, bound time.Duration) (stop func() bool) {
	ended, done := make(chan struct{}), make(chan struct{})
	struck := false
	go func() {
		defer close(done)
		timer := time.NewTimer(bound)
		defer timer.Stop()
		select {
		case <-ended:
			return
		case <-ctx.Done():
		case <-timer.C:
		}
		struck = true
		kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		// An error is not reported: either the victim is gone already, or the server is,
		// and lock_wait_timeout is the second bound.
		_, _ = killer.ExecContext(kctx, fmt.Sprintf("%s %d", kill, id))
	}()
	return func() bool {
		close(ended)
		<-done
		return struck
	}
}

// detached is a context for work that must not be abandoned half way on the client's side
// only: it outlives ctx, but not for longer than d.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// wholeSeconds rounds up: lock_wait_timeout has no fractions and no zero.
func wholeSeconds(d time.Duration) int64 {
	return int64(max(1, (d+time.Second-1)/time.Second))
}
