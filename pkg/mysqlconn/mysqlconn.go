// Package mysqlconn owns connections to MySQL servers: whom to connect to, with which
// account, and what the errors of the server mean. It has no policy.
package mysqlconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Secret is a password. It prints as *** by every verb of fmt and in JSON, so that it
// cannot reach a log or an error by accident; Reveal is the only way to its text.
type Secret string

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "***" }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Reveal is the secret's text, for the one place that hands it to a server.
func (s Secret) Reveal() string { return string(s) }

// Account is a user of a MySQL server, and how a connection of its is protected.
type Account struct {
	User     string
	Password Secret
	TLS      TLS
}

// Target says which server to connect to, as whom.
type Target struct {
	// Name is what people call the server, such as "0123 side a"; every error carries it.
	Name string
	// Host and Port, or Socket (which wins).
	Host   string
	Port   int
	Socket string
	Account
	// Database is the default database; empty for none.
	Database string
}

// Addr is host:port, or the socket's path.
func (t Target) Addr() string {
	if t.Socket != "" {
		return t.Socket
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
}

// String is the name with the address: 0123 side a (127.0.0.1:3306).
func (t Target) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Addr()) }

// dialTimeout bounds connecting. A server that takes longer is as good as down for a tool
// that holds a lock elsewhere.
const dialTimeout = 10 * time.Second

// Option changes the driver's configuration before a pool is made.
type Option func(*mysql.Config)

// WithParam sets a session variable on every connection of the pool, such as
// ("sql_mode", "”"). The value is put into a SET statement as written.
func WithParam(name, value string) Option {
	return func(c *mysql.Config) { c.Params[name] = value }
}

// Plain sets no session variables at login: a vtgate reserves a connection of its own for
// every session that sets some.
func Plain() Option { return func(c *mysql.Config) { c.Params = map[string]string{} } }

// Config is the driver's configuration for a target: times are kept as the server's text
// (parsing loses zero dates), the session's time zone is UTC (a TIMESTAMP read under
// another zone is ambiguous when clocks are put back) and sql_mode is empty (a value
// that is stored must be readable and storable, zero dates too).
func Config(t Target, opts ...Option) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = t.User, t.Password.Reveal(), t.Database
	if t.Socket != "" {
		c.Net, c.Addr = "unix", t.Socket
	} else {
		c.Net, c.Addr = "tcp", t.Addr()
	}
	c.Timeout = dialTimeout
	c.InterpolateParams = true
	c.MaxAllowedPacket = 0 // ask the server
	c.Logger = silent{}
	c.Params = map[string]string{"time_zone": "'+00:00'", "sql_mode": "'NO_AUTO_VALUE_ON_ZERO'"}
	for _, o := range opts {
		o(c)
	}
	return c
}

// silent drops the driver's own log lines: each of them is also returned as an error.
type silent struct{}

func (silent) Print(...any) {}

// Open makes a pool without connecting.
func Open(t Target, opts ...Option) (*sql.DB, error) {
	c := Config(t, opts...)
	var err error
	if c.TLS, err = t.TLSConfig(); err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("%s: account %q: %w", t, t.User, err)
	}
	return sql.OpenDB(connector), nil
}

// Connect makes a pool and proves that the server answers and lets the account in. The
// error names the server, its address, the account, and what to do.
func Connect(ctx context.Context, t Target, opts ...Option) (*sql.DB, error) {
	db, err := Open(t, opts...)
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, Explain(t, err)
	}
	return db, nil
}

// Explain wraps the error of connecting with whom, where and what to do. Errors of other
// kinds are wrapped with the server's name only.
func Explain(t Target, err error) error {
	var ne net.Error
	switch {
	case errors.Is(err, mysql.ErrNoTLS):
		return fmt.Errorf("%s: the server does not speak TLS, which the account %q is to use: %w: check the server's ssl_cert and ssl_key, or leave out tls of the account in vifl.yaml", t, t.User, err)
	case numbered(err, 3159):
		return fmt.Errorf("%s: the server wants TLS (require_secure_transport): %w: give the account %q tls in vifl.yaml", t, err, t.User)
	case isHandshake(err):
		return fmt.Errorf("%s: the server's certificate was not accepted, or ours was not: %w: check tls of the account %q in vifl.yaml, and that this is the right server", t, err, t.User)
	case IsAccessDenied(err) && !numbered(err, 1045, 1698):
		return fmt.Errorf("%s: the account %q lacks a privilege: %w: see docs/accounts.md", t, t.User, err)
	case IsAccessDenied(err):
		return fmt.Errorf("%s: the server turned the account %q away: %w: check its name, password and host part%s", t, t.User, err, t.withoutTLS())
	case IsUnknownDatabase(err):
		return fmt.Errorf("%s: no database %q there: %w: is this the right server?", t, t.Database, err)
	case errors.As(err, &ne), IsConnectionLost(err):
		return fmt.Errorf("%s: cannot be reached: %w: check that it runs, its address, and the network between", t, err)
	}
	return fmt.Errorf("%s: %w", t, err)
}

// Number is the server's error number, 0 when err is not an error of a MySQL server.
func Number(err error) uint16 {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

func numbered(err error, numbers ...uint16) bool {
	n := Number(err)
	for _, want := range numbers {
		if n == want {
			return true
		}
	}
	return false
}

// IsAccessDenied reports a refused login or a missing privilege (1044, 1045, 1142, 1143,
// 1227, 1370, 1410, 1698).
func IsAccessDenied(err error) bool {
	return numbered(err, 1044, 1045, 1142, 1143, 1227, 1370, 1410, 1698)
}

// IsUnknownDatabase reports 1049.
func IsUnknownDatabase(err error) bool { return numbered(err, 1049) }

// IsNoSuchTable reports 1146, and 1049 for the database around it.
func IsNoSuchTable(err error) bool { return numbered(err, 1146, 1049) }

// IsReadOnly reports a write refused by read_only or super_read_only (1290, 1836), or a
// login refused by offline_mode (3032).
func IsReadOnly(err error) bool { return numbered(err, 1290, 1836, 3032) }

// IsLockTimeout reports a lock not had in time (1205), also a statement that was killed or
// ran into max_execution_time while it waited (1317, 3024).
func IsLockTimeout(err error) bool { return numbered(err, 1205, 1317, 3024) }

// IsDeadlock reports 1213.
func IsDeadlock(err error) bool { return numbered(err, 1213) }

// IsDuplicateKey reports 1062.
func IsDuplicateKey(err error) bool { return numbered(err, 1062) }

// IsConnectionLost reports that the connection broke, so that the outcome of what was sent
// last is not known: read the server before deciding.
func IsConnectionLost(err error) bool {
	var ne *net.OpError
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &ne) || numbered(err, 1053, 1927)
}
