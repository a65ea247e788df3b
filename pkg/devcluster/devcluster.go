// Package devcluster owns a whole local fleet: mains, legacy shards as pairs of MySQL
// servers, a topo server, vtctld, vtgate, vtorc, and the tablets of landings, which are
// started when a landing is provisioned. It is for trying and for tests; nothing in it is
// a fake, and nothing in it is kept: the fleet's data lives as long as the fleet.
//
// It does not move shards and knows nothing of how they are moved.
//
// One process, the supervisor, starts everything and holds the topo server. What must hold:
//   - Nothing outlives the supervisor, however it ends: its children get SIGKILL from the
//     kernel, and a watchdog ends what is not its child (the mysqld of a tablet is the
//     tablet's child).
//   - A process belongs to a cluster if, and only if, its environment holds the cluster's
//     marker. Nothing else is ever signalled.
//   - The data folder is recorded in the cluster's folder before it is made, so Down finds
//     what an Up that was killed has left.
//   - Nothing runs as root.
package devcluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/runas"
)

// Database is the name of the application's database on every legacy server: one name on
// all shards, as in the fleets where a wrong shard is an easy mistake.
const Database = "slack"

// Cell is the topo server's one cell.
const Cell = "zone1"

// topoRoot is the root of the global topo.
const topoRoot = "/vitess/global"

// markerEnv is the variable in the environment of every process of a cluster; its value is
// the cluster's data folder, which no two clusters share.
const markerEnv = "VIFL_DEV_CLUSTER"

// ErrAbsent says that there is no cluster in the folder.
var ErrAbsent = errors.New("no local fleet there: start one with vifl dev up")

// folder is the cluster's folder (.dev): what people look at. The data is elsewhere, see
// newDataDir.
type folder string

func openFolder(dir string) (folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("folder of the local fleet: %w", err)
	}
	return folder(abs), nil
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// record holds the path of the data folder.
func (f folder) record() string { return f.path("data") }

// Config is the vifl.yaml of the fleet.
func (f folder) config() string { return f.path("vifl.yaml") }

// state is cluster.json: processes, ports, paths; no secrets.
func (f folder) state() string { return f.path("cluster.json") }

func (f folder) secrets() string { return f.path("secrets") }

// authorities are those that sign the legacy servers' certificates.
func (f folder) authorities() string { return f.path("legacy-ca.pem") }

// log is the supervisor's own log.
func (f folder) log() string { return f.path("supervisor.log") }

// lockPath is the file whose lock the supervisor holds while it lives.
func (f folder) lockPath() string { return f.path("lock") }

// dataDir reads the record. ErrAbsent when there is none.
func (f folder) dataDir() (string, error) {
	raw, err := os.ReadFile(f.record())
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", string(f), ErrAbsent)
	}
	if err != nil {
		return "", fmt.Errorf("local fleet: %w", err)
	}
	data := strings.TrimSpace(string(raw))
	if !filepath.IsAbs(data) || !strings.HasPrefix(filepath.Base(data), dataPrefix) {
		return "", fmt.Errorf("local fleet: %s holds %q, expected the path of a folder %s…: remove the file", f.record(), data, dataPrefix)
	}
	return data, nil
}

// dataPrefix begins the names of data folders.
const dataPrefix = "vifl-dev-"

// maxDataDir bounds the data folder's path: a tablet's socket,
// vt/vt_0000000101/mysql.sock.lock, must fit into the kernel's 108 bytes.
const maxDataDir = 64

// newDataDir chooses the data folder, records it, and makes it, in that order. It is in the
// folder for temporary files, so that it is short and servers that run as another user
// reach it.
func (f folder) newDataDir(u runas.User) (string, error) {
	parent := os.TempDir()
	if !u.CanReach(parent) || len(parent)+len(dataPrefix)+9 > maxDataDir || strings.ContainsAny(parent, " :,;'\"\\") {
		parent = "/tmp"
	}
	var b [4]byte
	_, _ = rand.Read(b[:])
	data := filepath.Join(parent, dataPrefix+hex.EncodeToString(b[:]))
	if err := os.WriteFile(f.record(), []byte(data+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("local fleet: %w", err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", fmt.Errorf("local fleet: data folder: %w", err)
	}
	return data, u.Chown(data)
}

// errLocked says that the lock is held: a supervisor lives.
var errLocked = errors.New("a local fleet is up there already: take it down with vifl dev down")

// lock takes the cluster's lock and leaves the file open for as long as it is held.
func (f folder) lock() (*os.File, error) {
	file, err := os.OpenFile(f.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("local fleet: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", string(f), errLocked)
		}
		return nil, fmt.Errorf("local fleet: lock %s: %w", f.lockPath(), err)
	}
	return file, nil
}

// remove removes what the cluster put into its folder, and the folder when nothing else is
// in it. The record goes last: as long as it is there, Down can be run again.
func (f folder) remove() error {
	var errs []error
	for _, p := range []string{f.config(), f.state(), f.authorities(), f.secrets(), f.log(), f.record(), f.lockPath()} {
		errs = append(errs, os.RemoveAll(p))
	}
	_ = os.Remove(string(f)) // not empty when people keep things in it
	return errors.Join(errs...)
}

// Limits of the waits.
const (
	upTimeout   = 3 * time.Minute
	downTimeout = 30 * time.Second
)
