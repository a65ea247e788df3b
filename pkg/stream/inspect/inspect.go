// Package inspect reads a legacy server's binlog beside a VReplication stream and tells
// what that stream would lose.
//
// VReplication by file and position drops events that it does not know without a word,
// while its position moves on. Sessions can cause such events by themselves, so that no
// setting looked at before is proof. The inspector goes through every event from the
// stream's start on: one that would be lost, or that stops the stream for good, taints it.
// A taint is for good: the landing must be seeded again.
//
// Events of other databases pass, as do accounts, grants and vifl's own database. When in
// doubt it taints: a change that was logged as a statement, whichever database was the
// default, because what it does to the shard's tables cannot be seen in it.
//
// It cannot see what the binlog does not hold (sql_log_bin=0). Memory is bounded: it keeps
// no rows, and at most maxTaints taints.
package inspect

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

const (
	// maxTaints are kept in full. One is enough to refuse; more only help to find the cause.
	maxTaints = 100
	// heartbeat is how often an idle server says that it is still there; silence for
	// silence ends the connection.
	heartbeat = 2 * time.Second
	silence   = 15 * time.Second
	// retryDelay lies between two attempts to reach the server.
	retryDelay = time.Second
)

// ErrGone is returned when the binlog that is needed is not there any more.
var ErrGone = errors.New("the binlog is not there any more")

// Inspector reads one server's binlog. Run it once; the other methods may be called at the
// same time, before and after.
type Inspector struct {
	target   mysqlconn.Target
	server   string
	database string

	mu      sync.Mutex
	at      position.FilePos // everything up to here was read
	resume  position.FilePos // where to go on reading, between two transactions
	taints  []Taint
	more    int // taints that were not kept
	last    position.FilePos
	waiters map[*waiter]struct{}
	ended   bool
	err     error
}

type waiter struct {
	p    position.FilePos
	done chan struct{}
}

// New makes an inspector for the stream of the database from a position on. server is the
// server_uuid that the server must have. It connects to nothing yet.
func New(target mysqlconn.Target, server, database string, from position.FilePos) (*Inspector, error) {
	if from.Server != server {
		return nil, fmt.Errorf("%s: inspecting from %s: the position is of server %s, expected %s", target, from, from.Server, server)
	}
	if from.Pos > math.MaxUint32 {
		return nil, fmt.Errorf("%s: inspecting from %s: a replica cannot start behind 4 GiB in a binlog", target, from)
	}
	if database == "" {
		return nil, fmt.Errorf("%s: inspecting: no database given", target)
	}
	return &Inspector{target: target, server: server, database: database, at: from, resume: from, waiters: map[*waiter]struct{}{}}, nil
}

// Run follows the binlog until ctx ends (it then returns ctx's cause) or something is wrong
// that waiting does not mend: the binlog is gone (ErrGone), the server is another, the
// account is turned away. A connection that breaks is made again.
func (i *Inspector) Run(ctx context.Context) error {
	err := i.follow(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended, i.err = true, err
	for w := range i.waiters {
		close(w.done)
		delete(i.waiters, w)
	}
	return err
}

func (i *Inspector) follow(ctx context.Context) error {
	for {
		err := i.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// permanent marks an error that trying again does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

func final(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// once follows the binlog over one connection, until it breaks.
func (i *Inspector) once(ctx context.Context) error {
	i.mu.Lock()
	from := i.resume
	i.mu.Unlock()
	id, err := i.unusedServerID(ctx)
	if err != nil {
		return err
	}
	secure, err := i.target.TLSConfig()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	h := &handler{i: i, r: &reader{database: i.database, at: from, boundary: from, tables: map[uint64]table{}}}
	h.r.taint = h.found
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: id, Flavor: mysql.MySQLFlavor, Host: i.target.Host, Port: uint16(i.target.Port),
		User: i.target.User, Password: i.target.Password.Reveal(), TLSConfig: secure, Localhost: "vifl",
		RawModeEnabled: true, DisableRetrySync: true, HeartbeatPeriod: heartbeat, ReadTimeout: silence,
		Logger: slog.New(slog.DiscardHandler), Option: i.sameServer, Dialer: i.dial,
		SynchronousEventHandler: h,
	})
	streamer, err := syncer.StartSync(mysql.Position{Name: from.File, Pos: uint32(from.Pos)})
	if err != nil {
		syncer.Close()
		return i.explain(from, err)
	}
	go func() {
		_, err := streamer.GetEvent(ctx)
		ended <- err
	}()
	err = <-ended
	syncer.Close()
	return i.explain(from, err)
}

func (i *Inspector) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if i.target.Socket != "" {
		network, addr = "unix", i.target.Socket
	}
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, addr)
}

// sameServer is asked on the very connection that the events will come over.
func (i *Inspector) sameServer(c *client.Conn) error {
	r, err := c.Execute("select @@global.server_uuid")
	if err != nil {
		return err
	}
	got, err := r.GetString(0, 0)
	if err != nil {
		return err
	}
	if got != i.server {
		return permanent{fmt.Errorf("found server_uuid %s, expected %s: it is another server than the stream was started from", got, i.server)}
	}
	return nil
}

// explain names the server and tells what waiting does not mend.
func (i *Inspector) explain(from position.FilePos, err error) error {
	// go-mysql wraps with a trace that errors.As goes through, except for our own type.
	var p permanent
	if errors.As(err, &p) {
		return permanent{fmt.Errorf("%s: inspecting the binlog from %s: %w", i.target, from, p.error)}
	}
	wrapped := fmt.Errorf("%s: inspecting the binlog from %s: %w", i.target, from, err)
	var me *mysql.MyError
	if !errors.As(err, &me) {
		return wrapped
	}
	switch me.Code {
	case 1236: // ER_SOURCE_FATAL_ERROR_READING_BINLOG
		return permanent{fmt.Errorf("%s: inspecting the binlog from %s: %w: %s: seed the landing again", i.target, from, ErrGone, me.Message)}
	case mysql.ER_ACCESS_DENIED_ERROR, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR, mysql.ER_DBACCESS_DENIED_ERROR:
		return permanent{fmt.Errorf("%s: inspecting the binlog: the server turned the account %q away: %w: it needs REPLICATION SLAVE", i.target, i.target.User, err)}
	}
	return wrapped
}

// unusedServerID is a random one that no replica of the server uses: the server ends the
// older of two replicas with the same. Ids of Vitess' tablets and of DBAs are small.
func (i *Inspector) unusedServerID(ctx context.Context) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, i.target)
	if err != nil {
		if mysqlconn.IsAccessDenied(err) {
			return 0, permanent{err}
		}
		return 0, err
	}
	defer db.Close()
	used, err := replicaIDs(ctx, db)
	if err != nil {
		return 0, mysqlconn.Explain(i.target, err)
	}
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("random server id: %w", err)
		}
		id := binary.LittleEndian.Uint32(b[:]) | 1<<31
		if !used[id] {
			return id, nil
		}
	}
}

func replicaIDs(ctx context.Context, db *sql.DB) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	var own uint32
	if err := db.QueryRowContext(ctx, "select @@global.server_id").Scan(&own); err != nil {
		return nil, err
	}
	used[own] = true
	rows, err := db.QueryContext(ctx, "show replicas")
	if mysqlconn.Number(err) == 1064 { // before 8.0.22
		rows, err = db.QueryContext(ctx, "show slave hosts")
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var id uint32
		rest := make([]any, len(columns))
		rest[0] = &id
		for n := 1; n < len(rest); n++ {
			rest[n] = new(sql.RawBytes)
		}
		if err := rows.Scan(rest...); err != nil {
			return nil, err
		}
		used[id] = true
	}
	return used, rows.Err()
}
