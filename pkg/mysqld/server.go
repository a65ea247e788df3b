package mysqld

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vifl/vifl/pkg/child"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/runas"
)

// Options says what server to start.
type Options struct {
	// Dir is the server's own folder: my.cnf, mysqld.log, data/, tmp/. The user RunAs must
	// be able to reach the folder above it. An empty or missing data/ is initialised.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Host is the name that other machines know this server by, which it reports to the servers
	// that it replicates from; it then listens on all addresses. Empty: on 127.0.0.1 only.
	Host string
	// ServerID; 0 takes a random one.
	ServerID uint32
	// Extra are lines for my.cnf such as gtid_mode=OFF; they win over our settings.
	Extra []string
	// RunAs is whom the server runs as.
	RunAs runas.User
	// Name is used in messages; default mysqld.
	Name string
	// Template is a data folder, as Template returns, to copy when data/ is empty; default
	// is to ask Template for it.
	Template string
}

// Server is a mysqld that we started. Its methods may be used from several goroutines.
type Server struct {
	inst      *Installation
	o         Options
	socket    string
	socketDir string // to be removed at Stop; empty when the socket is in Dir

	mu   sync.Mutex
	proc *child.Process
}

const (
	startTimeout = 90 * time.Second // when the caller's context has no deadline
	stopTimeout  = 60 * time.Second
	socketName   = "mysqld.sock"
	portAttempts = 5
)

// Start initialises the data folder if it is empty, starts the server and waits until it
// answers. ctx bounds the start, not the server's life: the server runs until Stop, Kill,
// or the end of this process. Without a deadline in ctx 90 seconds are the bound.
func Start(ctx context.Context, inst *Installation, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "mysqld"
	}
	fail := func(err error) (*Server, error) { return nil, fmt.Errorf("%s: start: %w", o.Name, err) }
	if o.Dir == "" {
		return fail(errors.New("no folder given"))
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fail(err)
	}
	o.Dir = dir
	if o.ServerID == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:])
		o.ServerID = binary.BigEndian.Uint32(b[:])>>1 + 1
	}
	s := &Server{inst: inst, o: o}
	if err := s.prepare(ctx); err != nil {
		return fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.startLocked(ctx); err != nil {
		s.removeSocketDir()
		return nil, err
	}
	return s, nil
}

func (s *Server) prepare(ctx context.Context) error {
	for _, d := range []string{s.o.Dir, filepath.Join(s.o.Dir, "tmp")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(s.DataDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) == 0 {
		if s.o.Template == "" {
			if s.o.Template, err = Template(ctx, s.inst, s.o.RunAs); err != nil {
				return err
			}
		}
		_ = os.Remove(s.DataDir())
		if err := CopyTree(s.o.Template, s.DataDir(), false); err != nil {
			return fmt.Errorf("copy the initialised data folder: %w", err)
		}
	}
	if err := writeCnf(filepath.Join(s.o.Dir, "my.cnf"), s.inst, s.o.Extra); err != nil {
		return err
	}
	if err := s.o.RunAs.Chown(s.o.Dir); err != nil {
		return err
	}
	socketDir, made, err := s.o.RunAs.SocketDir(s.o.Dir, len(socketName))
	if err != nil {
		return fmt.Errorf("folder for the socket: %w", err)
	}
	if made {
		s.socketDir = socketDir
	}
	s.socket = filepath.Join(socketDir, socketName)
	return nil
}

// startLocked starts the process and waits until it answers. A port that was ours to choose
// and was taken by somebody between choosing and binding is chosen again.
func (s *Server) startLocked(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	choose := s.o.Port == 0
	for attempt := 1; ; attempt++ {
		if choose {
			port, err := FreePort()
			if err != nil {
				return fmt.Errorf("%s: start: %w", s.o.Name, err)
			}
			s.o.Port = port
		}
		logStart := fileSize(s.LogFile())
		err := s.run(ctx)
		if err == nil {
			return nil
		}
		if !choose || attempt == portAttempts || ctx.Err() != nil || !portTaken(s.LogFile(), logStart) {
			return err
		}
	}
}

func (s *Server) run(ctx context.Context) error {
	out, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("%s: log file: %w", s.o.Name, err)
	}
	defer out.Close()
	if err := s.o.RunAs.Chown(s.LogFile()); err != nil {
		return fmt.Errorf("%s: log file: %w", s.o.Name, err)
	}
	cmd := exec.Command(s.inst.Program(), s.arguments()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.o.Dir, out, out
	s.o.RunAs.Apply(cmd)
	p, err := child.Start(s.o.Name, cmd, s.LogFile())
	if err != nil {
		return err
	}
	s.proc = p
	db, err := mysqlconn.Open(s.Target(s.o.Name))
	if err != nil {
		_ = p.Kill()
		return err
	}
	defer db.Close()
	for {
		// A server that turns root away (accounts of a clone's donor, offline_mode) answers.
		if err = db.PingContext(ctx); err == nil || mysqlconn.IsAccessDenied(err) || mysqlconn.Number(err) == 3032 {
			return nil
		}
		select {
		case <-p.Exited():
			return p.ExitError()
		case <-ctx.Done():
			_ = p.Kill()
			return fmt.Errorf("%s: wait until the server answers: %w (last: %v)%s", s.o.Name, ctx.Err(), err, child.Tail(s.LogFile()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop shuts the server down in order and waits for it; when ctx ends first (or a minute
// has passed, without a deadline in ctx) it is killed, and the error says so. Stopping a
// server that does not run is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.removeSocketDir()
	return s.stopLocked(ctx)
}

func (s *Server) stopLocked(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopTimeout)
		defer cancel()
	}
	return s.proc.Stop(ctx)
}

// Kill ends the server as a power cut would (SIGKILL) and waits until it is gone. Restart
// starts it again.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Kill()
}

// Restart stops the server if it runs and starts it again, on the same port, with the same
// settings.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stopLocked(ctx); err != nil {
		return err
	}
	if s.socketDir != "" {
		if err := os.MkdirAll(s.socketDir, 0o700); err != nil {
			return fmt.Errorf("%s: restart: folder for the socket: %w", s.o.Name, err)
		}
		if err := s.o.RunAs.Chown(s.socketDir); err != nil {
			return fmt.Errorf("%s: restart: folder for the socket: %w", s.o.Name, err)
		}
	}
	return s.startLocked(ctx)
}

func (s *Server) removeSocketDir() {
	if s.socketDir != "" {
		_ = os.RemoveAll(s.socketDir)
	}
}

// Pid of the process, also after its end.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Pid()
}

// Exited is closed when the process that runs now has ended, however.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Exited()
}

// Port on 127.0.0.1.
func (s *Server) Port() int { return s.o.Port }

// Name is what messages call the server.
func (s *Server) Name() string { return s.o.Name }

// Socket is the path of the server's Unix socket.
func (s *Server) Socket() string { return s.socket }

// DataDir is the server's datadir.
func (s *Server) DataDir() string { return filepath.Join(s.o.Dir, "data") }

// LogFile is the server's error log.
func (s *Server) LogFile() string { return filepath.Join(s.o.Dir, "mysqld.log") }

// Target connects as root over the socket, without a password.
func (s *Server) Target(name string) mysqlconn.Target {
	return mysqlconn.Target{Name: name, Socket: s.socket, Account: mysqlconn.Account{User: "root"}}
}

// firstPort and ports are where FreePort looks: below the range from which Linux takes the
// ports of outgoing connections (32768 and up by default). A port from that range, free
// now, is any client's a moment later: a tablet whose mysqld starts after its restore found
// its port gone.
const (
	firstPort = 12000
	ports     = 20000
)

// nextPort makes FreePort give no port twice in one process: several servers are being
// started at once, and one that has been given a port binds it only seconds later. It starts
// anywhere, so that two processes do not meet.
var nextPort = func() *atomic.Uint32 {
	n := &atomic.Uint32{}
	n.Store(mathrand.Uint32N(ports))
	return n
}()

// FreePort is a TCP port on 127.0.0.1 that nobody listened on just now, and that this
// process was not given before. Another process may take it before it is used: whoever
// asks must be ready to ask again.
func FreePort() (int, error) {
	var last error
	for range 200 {
		port := firstPort + int(nextPort.Add(1)%ports)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("free port: none of 200 tried between %d and %d: %w", firstPort, firstPort+ports, last)
}

// portTaken looks in what the log has got since start for MySQL's message that it could
// not bind.
func portTaken(log string, start int64) bool {
	raw, err := os.ReadFile(log)
	if err != nil || int64(len(raw)) < start {
		return false
	}
	raw = raw[start:]
	return bytes.Contains(raw, []byte("Can't start server: Bind on TCP/IP port")) || bytes.Contains(raw, []byte("Address already in use"))
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
