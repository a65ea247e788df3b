package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// Methods of filling the scratch server.
const (
	MethodCopy  = "copy"
	MethodClone = "clone"
)

// Spec says what to seed. It is complete: the child reads no configuration.
type Spec struct {
	Shard    shardid.ID
	Keyspace string // the landing's
	Database string // the shard's, on the legacy servers and on the landing alike
	Method   string // MethodCopy (the default) or MethodClone

	// Source is the server that is read: side StreamSide, whose binlog the stream follows
	// from the seed's position.
	Source     mysqlconn.Target
	StreamSide string
	// Donor, for clone only, is a replica of Source to clone from instead of it. The
	// position is then still Source's: the donor must replicate from it by file and position.
	Donor *mysqlconn.Target
	// A and B are who the sides are. The side that is read must be the one named here.
	A, B legacy.Identity

	// Landing is the account made for vifl on the landing's servers.
	Landing mysqlconn.Account

	MySQLRoot  string // mysqld.Find's
	RunAs      string // the user when we are root
	WorkDir    string // scratch servers are made here; needs the size of the shard
	BackupRoot string // of Vitess' file backup storage

	Parallelism int           // connections to the source, for copy; default 4
	LockTimeout time.Duration // for the cut; default 500 ms
	BufferPool  int64         // bytes, of the scratch server; 0: a quarter of the memory, at most 4 GiB
	Replace     bool          // an earlier seed of this landing is removed once this one is complete
	Version     string        // vifl's own
}

func (s Spec) withDefaults() Spec {
	if s.Method == "" {
		s.Method = MethodCopy
	}
	if s.Parallelism == 0 {
		s.Parallelism = 4
	}
	if s.LockTimeout == 0 {
		s.LockTimeout = 500 * time.Millisecond
	}
	return s
}

// Validate reports what is missing, all at once.
func (s Spec) Validate() error {
	var bad []string
	for name, v := range map[string]string{"keyspace": s.Keyspace, "database": s.Database, "work folder": s.WorkDir, "backup root": s.BackupRoot, "landing account": s.Landing.User, "streamed side": s.StreamSide} {
		if v == "" {
			bad = append(bad, name+" is missing")
		}
	}
	if strings.ContainsAny(s.Keyspace, "/\\") {
		bad = append(bad, fmt.Sprintf("keyspace %q holds a slash", s.Keyspace))
	}
	if s.Method != MethodCopy && s.Method != MethodClone {
		bad = append(bad, fmt.Sprintf("method is %q, expected copy or clone", s.Method))
	}
	if s.StreamSide != "a" && s.StreamSide != "b" {
		bad = append(bad, fmt.Sprintf("streamed side is %q, expected a or b", s.StreamSide))
	}
	if s.source().ServerUUID == "" {
		bad = append(bad, "the identity of side "+s.StreamSide+" is missing")
	}
	if strings.HasPrefix(s.Landing.User, "vt_") || s.Landing.User == "root" || strings.HasPrefix(s.Landing.User, "mysql.") {
		bad = append(bad, fmt.Sprintf("landing account %q is a name of Vitess or MySQL themselves", s.Landing.User))
	}
	// MySQL's option files and Vitess' template take paths as they are.
	for name, p := range map[string]string{"work folder": s.WorkDir, "backup root": s.BackupRoot} {
		if !filepath.IsAbs(p) && p != "" {
			bad = append(bad, fmt.Sprintf("%s %q is not an absolute path", name, p))
		}
		if strings.ContainsAny(p, " #\"'\n\t") {
			bad = append(bad, fmt.Sprintf("%s %q holds a blank, # or quote, which MySQL's option file cannot", name, p))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("seed %s: %s", s.Shard, strings.Join(bad, "; "))
	}
	return nil
}

// source is the identity of the side that is read.
func (s Spec) source() legacy.Identity {
	if s.StreamSide == "b" {
		return s.B
	}
	return s.A
}

// wire is how a Spec reaches the child: with its secrets in clear, which a Secret itself
// refuses to be encoded with.
type wire struct {
	Spec      Spec          `json:"spec"`
	Secrets   [3]wireSecret `json:"secrets"` // of Source, Landing, Donor
	User      wireUser      `json:"user"`
	MySQL     wireServer    `json:"mysql"`
	Dir       string        `json:"dir"`
	SocketDir string        `json:"socket_dir"`
}

type wireSecret struct {
	Password string `json:"password"`
	TLSKey   string `json:"tls_key"`
}

type wireUser struct {
	Name, Home string
	UID, GID   int
}

type wireServer struct{ Root, Cnf string }

// accounts are those that have Secrets, in their order.
func (w *wire) accounts() []*mysqlconn.Account {
	out := []*mysqlconn.Account{&w.Spec.Source.Account, &w.Spec.Landing}
	if w.Spec.Donor != nil {
		out = append(out, &w.Spec.Donor.Account)
	}
	return out
}

func (w *wire) encode() ([]byte, error) {
	for i, a := range w.accounts() {
		w.Secrets[i] = wireSecret{Password: a.Password.Reveal(), TLSKey: a.TLS.Key.Reveal()}
	}
	b, err := json.Marshal(w)
	return append(b, '\n'), err
}

func (w *wire) decode(line []byte) error {
	if err := json.Unmarshal(line, w); err != nil {
		// The error's text would quote what was read, secrets too.
		return errors.New("seed: the description on standard input cannot be read: this command is started by vifl itself")
	}
	for i, a := range w.accounts() {
		a.Password, a.TLS.Key = mysqlconn.Secret(w.Secrets[i].Password), mysqlconn.Secret(w.Secrets[i].TLSKey)
	}
	return nil
}
