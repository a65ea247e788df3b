package legacy

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// Identity says which server this is. Two servers with the same address can be told apart
// by it, and one server under two addresses recognised.
type Identity struct {
	ServerUUID string `json:"server_uuid"`
	// Hostname is what the server calls its machine; Host and Port are where we reach it.
	Hostname string `json:"hostname"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	ServerID uint32 `json:"server_id"`
	Version  string `json:"version"`
	// Database is the shard's database on it.
	Database string `json:"database"`
}

// String is for messages: uuid, address and database.
func (i Identity) String() string {
	return fmt.Sprintf("%s at %s:%d, database %q", i.ServerUUID, i.Host, i.Port, i.Database)
}

// Server is one side of a legacy shard.
type Server struct {
	db       *sql.DB
	target   mysqlconn.Target
	shard    shardid.ID
	side     string
	database string
	version  Version
}

// Open connects to a side of a shard and reads its version. It does not ask whether the
// version is supported (preflight does, with a remedy). The pool has no default database
// unless the target has one: everything here is written with the database's name.
func Open(ctx context.Context, t mysqlconn.Target, shard shardid.ID, side, database string) (*Server, error) {
	if t.Name == "" {
		t.Name = shard.String() + " side " + side
	}
	db, err := mysqlconn.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	s := &Server{db: db, target: t, shard: shard, side: side, database: database}
	var text string
	if err := db.QueryRowContext(ctx, "SELECT @@version").Scan(&text); err != nil {
		_ = db.Close()
		return nil, s.failed("reading its version", err)
	}
	if s.version, err = ParseVersion(text); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return s, nil
}

// DB is the pool, for queries of other packages. Statements that lock or freeze do not
// belong on it: a pool reconnects.
func (s *Server) DB() *sql.DB { return s.db }

// Name is what people call the server, such as "0123 side a".
func (s *Server) Name() string { return s.target.Name }

// Side is a or b.
func (s *Server) Side() string { return s.side }

// Shard is the legacy shard that the server belongs to, by the configuration.
func (s *Server) Shard() shardid.ID { return s.shard }

// Target is where and as whom we connect.
func (s *Server) Target() mysqlconn.Target { return s.target }

// Database is the name of the shard's database.
func (s *Server) Database() string { return s.database }

// Version is the version read at Open.
func (s *Server) Version() Version { return s.version }

// Close ends the pool. Cuts and freezes have connections of their own and live on.
func (s *Server) Close() error { return s.db.Close() }

func (s *Server) failed(doing string, err error) error {
	return fmt.Errorf("%s: %w", doing, mysqlconn.Explain(s.target, err))
}

// Identity reads who the server is, now.
func (s *Server) Identity(ctx context.Context) (Identity, error) {
	id := Identity{Host: s.target.Host, Port: s.target.Port, Database: s.database}
	var port int
	err := s.db.QueryRowContext(ctx, "SELECT @@server_uuid, @@hostname, @@port, @@server_id, @@version").
		Scan(&id.ServerUUID, &id.Hostname, &port, &id.ServerID, &id.Version)
	if err != nil {
		return Identity{}, s.failed("reading the identity", err)
	}
	if s.target.Socket != "" {
		id.Host, id.Port = "localhost", port
	}
	return id, nil
}

// Variables are all global variables, by lower-case name.
func (s *Server) Variables(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.QueryContext(ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return nil, s.failed("reading the global variables", err)
	}
	defer rows.Close()
	vars := map[string]string{}
	for rows.Next() {
		var name, value sql.NullString
		if err := rows.Scan(&name, &value); err != nil {
			return nil, s.failed("reading the global variables", err)
		}
		vars[strings.ToLower(name.String)] = value.String
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed("reading the global variables", err)
	}
	return vars, nil
}
