package load

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
)

const (
	// connectTimeout bounds connecting and asking a server who it is. Short: while one
	// server hangs, mains may already name another.
	connectTimeout = time.Second
	// replyTimeout bounds one statement. Past it the outcome counts as unknown.
	replyTimeout = 15 * time.Second
	// sessionAge is when a connection is replaced, as applications do.
	sessionAge = 15 * time.Second
)

// asApplication is what an ordinary application's connections are like: the server's own
// sql_mode and time zone, bounded waits.
func asApplication(c *mysql.Config) {
	c.Params = nil
	c.Timeout, c.ReadTimeout, c.WriteTimeout = connectTimeout, replyTimeout, replyTimeout
	c.MaxAllowedPacket = 16 << 20 // not asked for at every connect
}

// servers are the application's pools, one per place that mains ever named. They keep no
// idle connections: each writer holds its own.
type servers struct {
	account mysqlconn.Account
	mu      sync.Mutex
	pools   map[string]*sql.DB
}

func (s *servers) pool(p appschema.Place) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := endpoint(p)
	if db := s.pools[at]; db != nil {
		return db, nil
	}
	db, err := mysqlconn.Open(mysqlconn.Target{Name: "side " + p.Side, Host: p.Host, Port: p.Port, Database: p.Database, Account: s.account}, asApplication)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1)
	s.pools[at] = db
	return db, nil
}

func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, db := range s.pools {
		_ = db.Close()
	}
}

// session is one writer's connection to one place.
type session struct {
	conn   *sql.Conn
	server string // server_uuid of whoever answered
	until  time.Time
}

// sessions are one writer's connections, by endpoint.
type sessions struct {
	servers *servers
	open    map[string]*session
}

func (s *sessions) get(ctx context.Context, p appschema.Place) (*session, error) {
	at := endpoint(p)
	if c := s.open[at]; c != nil {
		if time.Now().Before(c.until) {
			return c, nil
		}
		s.drop(at)
	}
	db, err := s.servers.pool(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", at, err)
	}
	c := &session{conn: conn, until: time.Now().Add(sessionAge)}
	if err := conn.QueryRowContext(ctx, "SELECT @@server_uuid").Scan(&c.server); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("ask %s who it is: %w", at, err)
	}
	s.open[at] = c
	return c, nil
}

// drop closes a connection, which rolls back what is open on it.
func (s *sessions) drop(at string) {
	if c := s.open[at]; c != nil {
		_ = c.conn.Close()
		delete(s.open, at)
	}
}

func (s *sessions) close() {
	for at := range s.open {
		s.drop(at)
	}
}
