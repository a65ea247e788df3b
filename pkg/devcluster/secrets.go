package devcluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// The passwords of a cluster, by the name of the file in its folder secrets.
const (
	secretLegacy  = "legacy"  // vifl on the legacy servers
	secretMains   = "mains"   // vifl on mains
	secretVtgate  = "vtgate"  // vifl on vtgate
	secretLanding = "landing" // vifl on landings' mysqlds
	secretStream  = "stream"  // vifl_stream: the tablets' connections to the legacy
	secretRepl    = "repl"    // repl: between the sides of a pair
	secretApp     = "app"     // app: the application, on mains, legacy and vtgate alike
)

type secrets map[string]mysqlconn.Secret

// newSecrets makes the passwords and writes them to files that only we can read.
func newSecrets(f folder) (secrets, error) {
	if err := os.RemoveAll(f.secrets()); err != nil {
		return nil, fmt.Errorf("local fleet: passwords: %w", err)
	}
	if err := os.Mkdir(f.secrets(), 0o700); err != nil {
		return nil, fmt.Errorf("local fleet: passwords: %w", err)
	}
	s := secrets{}
	for _, name := range []string{secretLegacy, secretMains, secretVtgate, secretLanding, secretStream, secretRepl, secretApp} {
		var b [12]byte
		_, _ = rand.Read(b[:])
		s[name] = mysqlconn.Secret(hex.EncodeToString(b[:]))
		if err := os.WriteFile(filepath.Join(f.secrets(), name), []byte(s[name].Reveal()+"\n"), 0o600); err != nil {
			return nil, fmt.Errorf("local fleet: passwords: %w", err)
		}
	}
	return s, nil
}

// files are the files in the cluster's folder that are written after root's rights are gone; opened
// before, so that they stay root's: vifl.yaml names commands that vifl runs.
type files struct{ config, state, authorities *os.File }

func openFiles(f folder) (*files, error) {
	var opened files
	for path, to := range map[string]**os.File{f.config(): &opened.config, f.state(): &opened.state, f.authorities(): &opened.authorities} {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, fmt.Errorf("local fleet: %w", err)
		}
		*to = file
	}
	return &opened, nil
}

func rewrite(file *os.File, content []byte) error {
	if _, err := file.WriteAt(content, 0); err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	return nil
}

// State is cluster.json: what is where. It is rewritten whenever a landing comes or goes.
type State struct {
	Supervisor int       `json:"supervisor"` // pid
	Data       string    `json:"data"`
	Logs       string    `json:"logs"`
	Config     string    `json:"config"` // vifl.yaml
	Topo       string    `json:"topo"`   // host:port of etcd
	Vtctld     string    `json:"vtctld"` // gRPC
	Vtgate     string    `json:"vtgate"` // MySQL
	Mains      string    `json:"mains"`
	Bin        string    `json:"bin"`
	MySQL      string    `json:"mysql"` // VT_MYSQL_ROOT
	Processes  []Process `json:"processes"`
}

func (c *cluster) writeState() error {
	raw, err := json.MarshalIndent(State{
		Supervisor: os.Getpid(), Data: c.o.Data, Logs: filepath.Join(c.o.Data, "log"), Config: c.folder.config(),
		Topo: c.etcd.Address, Vtctld: c.vtctldAddress(), Vtgate: c.vtgateAddress(), Mains: serverAddress(c.mains),
		Bin: c.programs.bin, MySQL: c.programs.mysql.Root, Processes: c.processes(),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	return rewrite(c.files.state, append(raw, '\n'))
}
