// Package config owns vifl.yaml: its keys, its defaults, and what is wrong with it. It
// connects to nothing. docs/config.md is its reference.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// Config is a whole vifl.yaml.
type Config struct {
	// Topo is the topo server that the Vitess fleet uses; vifl keeps its state there too.
	Topo Topo `yaml:"topo"`
	// Vtctld is the gRPC address (host:port) of a vtctld.
	Vtctld string `yaml:"vtctld"`
	// Vtgate is where the application finds its data after the switch, and where the probe
	// of a cutover logs in.
	Vtgate Vtgate `yaml:"vtgate"`
	// Cells of the topo server in which landings have tablets.
	Cells []string `yaml:"cells"`
	// Landing says how landings are named and built.
	Landing Landing `yaml:"landing"`
	// Backup is the fleet's Vitess backup storage.
	Backup Backup `yaml:"backup"`
	// Tools are the programs a seed needs on this machine.
	Tools Tools `yaml:"tools"`
	// WorkDir is where seeds put their scratch servers; it needs the size of a shard.
	WorkDir string `yaml:"workdir"`
	// Legacy holds what all legacy shards share.
	Legacy Legacy `yaml:"legacy"`
	// Mains is the MySQL that maps workspaces to shards.
	Mains Mains `yaml:"mains"`
	// Hooks are programs of the operator's.
	Hooks Hooks `yaml:"hooks"`
	// Limits bound what vifl does to production.
	Limits Limits `yaml:"limits"`
	// Shards are the legacy shards of the fleet.
	Shards []Shard `yaml:"shards"`

	path string
}

// Topo is where a topo server is.
type Topo struct {
	Implementation string `yaml:"implementation"` // etcd2 by default
	Server         string `yaml:"server"`         // host:port
	Root           string `yaml:"root"`           // such as /vitess/global
}

// Vtgate is a vtgate's MySQL port.
type Vtgate struct {
	Address string     `yaml:"address"`
	Account Credential `yaml:"account"`
}

// Landing describes the keyspaces that legacy shards move into.
type Landing struct {
	Keyspace shardid.Template `yaml:"keyspace"`
	// Database is the database name the application gets after the switch: "keyspace"
	// (legacy_0123) or "shard" (legacy_0123:0).
	Database string `yaml:"database"`
	// Durability is Vitess' durability policy of the landings.
	Durability string `yaml:"durability"`
	// Tablets is how many tablets a landing must have before a cutover; two cannot fail
	// over under semi_sync.
	Tablets int `yaml:"tablets"`
	// Account is the account that every seed makes on its landing for vifl to read and to
	// probe with.
	Account Credential `yaml:"account"`
}

// Backup is a Vitess backup storage. This version writes to the file implementation.
type Backup struct {
	Implementation string `yaml:"implementation"` // file
	Root           string `yaml:"root"`
}

// Tools names the programs of a seed.
type Tools struct {
	// MySQLRoot has bin/mysqld, as Vitess' VT_MYSQL_ROOT. Empty: VT_MYSQL_ROOT, then the
	// project's own, then PATH.
	MySQLRoot string `yaml:"mysql_root"`
	// RunAs is the user that servers run as when vifl itself is root (Vitess and MySQL
	// refuse to run as root). Default nobody.
	RunAs string `yaml:"run_as"`
}

// Credential is an account whose password is kept elsewhere.
type Credential struct {
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	PasswordEnv  string `yaml:"password_env"`
	// TLS protects the connections of the account; nil is no TLS.
	TLS *TLS `yaml:"tls"`
}

// TLS says how a connection is encrypted. Files are PEM; relative ones are relative to vifl.yaml.
type TLS struct {
	// Mode is required, verify_ca or verify_identity (the default), as MySQL's --ssl-mode.
	Mode string `yaml:"mode"`
	CA   string `yaml:"ca"`   // empty: the system's authorities
	Cert string `yaml:"cert"` // our own certificate, for accounts that REQUIRE X509
	Key  string `yaml:"key"`
}

// Legacy holds the accounts and names that all legacy servers share.
type Legacy struct {
	// Admin is the account vifl itself uses on the legacy servers: docs/accounts.md.
	Admin Credential `yaml:"admin"`
	// StreamAccount is the user that the landings' tablets read the legacy as; its password
	// is in their configuration, not here.
	StreamAccount string `yaml:"stream_account"` // default vifl_stream
	// Exempt are accounts ('user' or 'user@host') that may be able to write under
	// read_only: the administrators' and the replication accounts, known by name.
	Exempt []string `yaml:"exempt_accounts"`
	// Application names the application's users; their connections are ended at a switch.
	// Empty: every account that is not exempt, not vifl's and not the server's own.
	Application []string `yaml:"application_accounts"`
	// Connection is the name, in the tablets' configuration file, of the external
	// connection to a side: {shard} and {side} are replaced. Default legacy_{shard}_{side}.
	Connection string `yaml:"tablet_connection"`
}

// Mains says where mains is, and how to ask and change it. In the statements, :shard,
// :host, :port, :database and :side are replaced by bound values.
type Mains struct {
	Address  string     `yaml:"address"`
	Account  Credential `yaml:"account"`
	Database string     `yaml:"database"`
	// Teams selects the ids of the teams that live on :shard (one column).
	Teams string `yaml:"teams"`
	// DataTeams selects, on the legacy server itself, the ids of the teams its data holds
	// (one column). It catches the wrong server behind a right name.
	DataTeams string `yaml:"data_teams"`
	// Map selects every team with its shard (two columns: id, shard number), for the team map
	// that vifl mains export writes. Optional: only that verb needs it.
	Map string `yaml:"map"`
	// Where selects where :shard is served: rows of side, host, port, database.
	Where string `yaml:"where"`
	// Switch changes where :shard's :side is served to :host, :port, :database. It is run
	// once per side in one transaction. It must change exactly one row for each side.
	Switch string `yaml:"switch"`
}

// Hooks are commands (program and arguments, no shell).
type Hooks struct {
	// Provision starts the tablets of a landing; it is run after the seed's backup is
	// there, with VIFL_SHARD, VIFL_KEYSPACE, VIFL_DATABASE, VIFL_SIDE_A and VIFL_SIDE_B in
	// its environment, and must be idempotent.
	Provision []string `yaml:"provision"`
	// Deprovision stops and removes the tablets of a landing, after an abort.
	Deprovision []string `yaml:"deprovision"`
}

// Limits bound what vifl does to the servers and how old a proof may be.
type Limits struct {
	MaxLag          time.Duration `yaml:"max_lag"`          // at a switch; default 5s
	MaxAge          time.Duration `yaml:"max_age"`          // of a certificate; default 15m
	MaxPause        time.Duration `yaml:"max_pause"`        // writes frozen at a switch; default 2s
	LockTimeout     time.Duration `yaml:"lock_timeout"`     // to get a lock on a legacy server; default 500ms
	CatchUpTimeout  time.Duration `yaml:"catch_up_timeout"` // for a stream to reach a position; default 2m
	TabletTimeout   time.Duration `yaml:"tablet_timeout"`   // for tablets to come up after provision; default 5m
	SeedParallelism int           `yaml:"seed_parallelism"` // connections; default 4
	DiffParallelism int           `yaml:"diff_parallelism"` // connections per server; default 2
	// DiffRowsPerSecond bounds the rows of side a that a diff reads in a second; default 0, no
	// bound.
	DiffRowsPerSecond int `yaml:"diff_rows_per_second"`
	// DiffThreadsRunning and DiffReplicaDelay pause a diff while a side runs more statements
	// than that, or is further behind the other; default 0, no bound.
	DiffThreadsRunning int           `yaml:"diff_threads_running"`
	DiffReplicaDelay   time.Duration `yaml:"diff_replica_delay"`
	// DiffHistory ends a diff whose snapshots keep side a from purging more undo history than
	// that, in transactions; default 5,000,000, 0 is no bound.
	DiffHistory     int           `yaml:"diff_history"`
	MaxReplicaDelay time.Duration `yaml:"max_replica_delay"` // of a side behind the other at preflight; default 30s
	ThrottleLag     time.Duration `yaml:"throttle_lag"`      // of a replica, from which on vifl's own stream waits; default 10s
}

// Shard is one legacy shard.
type Shard struct {
	Number   ID                `yaml:"shard"`
	Database string            `yaml:"database"`
	Sides    map[string]string `yaml:"sides"` // a and b: host:port
}

// ID reads a shard number from YAML as text: unquoted 0123 is octal 83 to a YAML parser.
type ID struct{ shardid.ID }

// UnmarshalYAML takes the number as it is written.
func (id *ID) UnmarshalYAML(n *yaml.Node) error {
	v, err := shardid.Parse(n.Value)
	if err != nil {
		return err // shape adds the line
	}
	id.ID = v
	return nil
}

// Side names.
const (
	SideA = "a"
	SideB = "b"
)

// Load reads and checks a vifl.yaml. The error names the file, and the line where the
// parser knows it; several faults are reported at once.
func Load(path string) (*Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w: name the file with --config or VIFL_CONFIG", err)
	}
	c := defaults()
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var file yaml.Node
	switch err := dec.Decode(&file); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("configuration %s: found nothing in it, expected topo, vtctld, mains, shards …: see docs/config.md", path)
	case err != nil:
		return nil, fmt.Errorf("configuration %s: %s", path, broken(raw, err))
	}
	// What stands behind a stray --- would be left out without a word.
	switch err := dec.Decode(new(yaml.Node)); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, fmt.Errorf("configuration %s: %s", path, broken(raw, err))
	default:
		return nil, fmt.Errorf("configuration %s: found a second document (a line ---), expected one: remove the line", path)
	}
	found := &shape{lines: map[string]int{}}
	found.walk(file.Content[0], reflect.TypeFor[Config](), "")
	if err := problems(found.bad); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if err := file.Decode(c); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	c.path = path
	if err := problems(c.validate(found.line)); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

func defaults() *Config {
	return &Config{
		Topo:    Topo{Implementation: "etcd2", Root: "/vitess/global"},
		Landing: Landing{Keyspace: "legacy_{shard}", Database: "keyspace", Durability: "semi_sync", Tablets: 3},
		Backup:  Backup{Implementation: "file"},
		Tools:   Tools{RunAs: "nobody"},
		WorkDir: os.TempDir(),
		Legacy:  Legacy{StreamAccount: "vifl_stream", Connection: "legacy_{shard}_{side}"},
		Limits: Limits{
			MaxLag: 5 * time.Second, MaxAge: 15 * time.Minute, MaxPause: 2 * time.Second,
			LockTimeout: 500 * time.Millisecond, CatchUpTimeout: 2 * time.Minute, TabletTimeout: 5 * time.Minute,
			SeedParallelism: 4, DiffParallelism: 2, DiffHistory: 5_000_000, MaxReplicaDelay: 30 * time.Second, ThrottleLag: 10 * time.Second,
		},
	}
}

// Path is the file the configuration was read from.
func (c *Config) Path() string { return c.path }

// validate reports everything that is wrong with the values, at once. line finds the line of
// a key by its path.
func (c *Config) validate(line func(path string) int) []problem {
	var bad []problem
	addAt := func(path, format string, args ...any) {
		bad = append(bad, problem{line(path), fmt.Sprintf(format, args...)})
	}
	// add is for problems of one key, whose path begins the message.
	add := func(key, format string, args ...any) { addAt(key, key+": "+format, args...) }
	addressAt := func(path, key, v string) {
		if v == "" {
			addAt(path, "%s: missing, expected host:port", key)
		} else if _, _, err := SplitAddress(v); err != nil {
			addAt(path, "%s: %v", key, err)
		}
	}
	address := func(key, v string) { addressAt(key, key, v) }
	credential := func(key string, cr Credential) {
		if cr.User == "" {
			add(key+".user", "missing")
		}
		switch {
		case cr.PasswordFile != "" && cr.PasswordEnv != "":
			add(key, "password_file and password_env are both given, expected one")
		case cr.PasswordFile == "" && cr.PasswordEnv == "":
			add(key, "neither password_file nor password_env is given, expected one")
		}
		if cr.TLS == nil {
			return
		}
		switch cr.TLS.Mode {
		case "", mysqlconn.TLSRequired, mysqlconn.TLSVerifyCA, mysqlconn.TLSVerifyIdentity:
		default:
			add(key+".tls.mode", "found %q, expected required, verify_ca or verify_identity", cr.TLS.Mode)
		}
		if (cr.TLS.Cert == "") != (cr.TLS.Key == "") {
			add(key+".tls", "one of cert and key is given, expected both or neither")
		}
	}
	address("topo.server", c.Topo.Server)
	address("vtctld", c.Vtctld)
	address("vtgate.address", c.Vtgate.Address)
	credential("vtgate.account", c.Vtgate.Account)
	address("mains.address", c.Mains.Address)
	credential("mains.account", c.Mains.Account)
	credential("legacy.admin", c.Legacy.Admin)
	credential("landing.account", c.Landing.Account)
	if err := c.Landing.Keyspace.Validate(); err != nil {
		add("landing.keyspace", "%v", err)
	}
	if c.Landing.Database != "keyspace" && c.Landing.Database != "shard" {
		add("landing.database", "found %q, expected keyspace or shard", c.Landing.Database)
	}
	switch c.Landing.Durability {
	case "none", "semi_sync", "cross_cell":
	default:
		add("landing.durability", "found %q, expected none, semi_sync or cross_cell", c.Landing.Durability)
	}
	// A negative bound would be over before it began, or never.
	for key, d := range map[string]time.Duration{
		"max_lag": c.Limits.MaxLag, "max_age": c.Limits.MaxAge, "max_pause": c.Limits.MaxPause, "lock_timeout": c.Limits.LockTimeout,
		"catch_up_timeout": c.Limits.CatchUpTimeout, "tablet_timeout": c.Limits.TabletTimeout, "max_replica_delay": c.Limits.MaxReplicaDelay, "throttle_lag": c.Limits.ThrottleLag,
	} {
		if d <= 0 {
			add("limits."+key, "found %s, expected a time above 0, such as 5s", d)
		}
	}
	for key, n := range map[string]int{"diff_rows_per_second": c.Limits.DiffRowsPerSecond, "diff_threads_running": c.Limits.DiffThreadsRunning, "diff_history": c.Limits.DiffHistory} {
		if n < 0 {
			add("limits."+key, "found %d, expected 0 (no bound) or more", n)
		}
	}
	if d := c.Limits.DiffReplicaDelay; d < 0 || d%time.Second != 0 {
		add("limits.diff_replica_delay", "found %s, expected 0 (no bound) or whole seconds, which is how a server tells it", d)
	}
	for key, n := range map[string]int{"seed_parallelism": c.Limits.SeedParallelism, "diff_parallelism": c.Limits.DiffParallelism} {
		if n < 1 {
			add("limits."+key, "found %d, expected 1 or more", n)
		}
	}
	if c.Landing.Tablets < 1 || (c.Landing.Durability == "semi_sync" && c.Landing.Tablets < 3) {
		add("landing.tablets", "found %d, expected 3 or more under semi_sync (two cannot fail over)", c.Landing.Tablets)
	}
	if c.Backup.Implementation != "file" {
		add("backup.implementation", "found %q, expected file", c.Backup.Implementation)
	}
	if c.Backup.Root == "" {
		add("backup.root", "missing")
	}
	if len(c.Cells) == 0 {
		add("cells", "none given")
	}
	for _, st := range []struct {
		key, text string
		allowed   []string
		needed    int // how many of allowed must be there, from the first on
	}{
		{"mains.teams", c.Mains.Teams, []string{":shard"}, 1},
		{"mains.data_teams", c.Mains.DataTeams, []string{":shard", ":database"}, 0},
		{"mains.where", c.Mains.Where, []string{":shard"}, 1},
		{"mains.switch", c.Mains.Switch, []string{":shard", ":side", ":host", ":port", ":database"}, 5},
	} {
		for _, fault := range statementFaults(st.text, st.allowed, st.allowed[:st.needed]) {
			add(st.key, "%s", fault)
		}
	}
	for _, fault := range switchFaults(c.Mains.Switch) {
		add("mains.switch", "%s", fault)
	}
	if !strings.Contains(c.Legacy.Connection, "{shard}") {
		add("legacy.tablet_connection", "found %q, expected {shard} in it: the tablets of every landing would read one shard", c.Legacy.Connection)
	}
	switch c.Topo.Implementation {
	case "etcd2", "zk2", "consul":
	default:
		add("topo.implementation", "found %q, expected etcd2, zk2 or consul", c.Topo.Implementation)
	}
	if c.Topo.Root == "" {
		add("topo.root", "missing, expected the global root of the fleet, such as /vitess/global")
	}
	seen := map[string]string{}
	numbers := map[shardid.ID]bool{}
	if len(c.Shards) == 0 {
		add("shards", "none given")
	}
	for i, s := range c.Shards {
		at := fmt.Sprintf("shards[%d]", i)
		if numbers[s.Number.ID] {
			addAt(at, "shards: %s is given twice", s.Number)
		}
		numbers[s.Number.ID] = true
		if s.Database == "" {
			addAt(at+".database", "shards: %s: database: missing", s.Number)
		}
		for side := range s.Sides {
			if side != SideA && side != SideB {
				addAt(at+".sides."+side, "shards: %s: sides: found %q, expected a and b", s.Number, side)
			}
		}
		for _, side := range []string{SideA, SideB} {
			addr := s.Sides[side]
			addressAt(at+".sides."+side, fmt.Sprintf("shards: %s: sides.%s", s.Number, side), addr)
			if other, dup := seen[addr]; dup && addr != "" {
				addAt(at+".sides."+side, "shards: %s side %s: the address %s is already %s", s.Number, side, addr, other)
			}
			seen[addr] = s.Number.String() + " side " + side
		}
	}
	return bad
}

// Shard finds a shard by number. The error lists what there is.
func (c *Config) Shard(id shardid.ID) (Shard, error) {
	var have []string
	for _, s := range c.Shards {
		if s.Number.ID == id {
			return s, nil
		}
		have = append(have, s.Number.String())
	}
	return Shard{}, fmt.Errorf("shard %s: not in %s, which has %s: check the number, or add the shard", id, c.path, strings.Join(have, ", "))
}

// SplitAddress takes host:port apart.
func SplitAddress(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("found %q, expected host:port", addr)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("found %q, expected a port between 1 and 65535", addr)
	}
	return host, port, nil
}

// Account reads the password from where the credential says, and the files of its TLS. Relative files are
// relative to vifl.yaml. The error never contains the password.
func (c *Config) Account(cr Credential) (mysqlconn.Account, error) {
	acc := mysqlconn.Account{User: cr.User}
	if cr.TLS != nil {
		var err error
		if acc.TLS, err = c.tls(*cr.TLS); err != nil {
			return acc, fmt.Errorf("tls of %q: %w", cr.User, err)
		}
	}
	switch {
	case cr.PasswordFile != "":
		file := c.file(cr.PasswordFile)
		raw, err := os.ReadFile(file)
		if err != nil {
			return acc, fmt.Errorf("password of %q: %w", cr.User, err)
		}
		password := strings.TrimRight(string(raw), "\r\n")
		// A file that was made and never filled would log in as an account without one.
		if password == "" {
			return acc, fmt.Errorf("password of %q: %s is empty, expected the password", cr.User, file)
		}
		acc.Password = mysqlconn.Secret(password)
	case cr.PasswordEnv != "":
		v, ok := os.LookupEnv(cr.PasswordEnv)
		if !ok {
			return acc, fmt.Errorf("password of %q: the variable %s is not set", cr.User, cr.PasswordEnv)
		}
		if v == "" {
			return acc, fmt.Errorf("password of %q: the variable %s is empty, expected the password", cr.User, cr.PasswordEnv)
		}
		acc.Password = mysqlconn.Secret(v)
	}
	return acc, nil
}

// tls reads the files.
func (c *Config) tls(t TLS) (mysqlconn.TLS, error) {
	out := mysqlconn.TLS{Mode: t.Mode}
	if out.Mode == "" {
		out.Mode = mysqlconn.TLSVerifyIdentity
	}
	var key string
	for _, f := range []struct {
		path string
		to   *string
	}{{t.CA, &out.CA}, {t.Cert, &out.Cert}, {t.Key, &key}} {
		if f.path == "" {
			continue
		}
		raw, err := os.ReadFile(c.file(f.path))
		if err != nil {
			return out, err
		}
		// Nothing would stand for the system's authorities.
		if *f.to = strings.TrimSpace(string(raw)); *f.to == "" {
			return out, fmt.Errorf("%s is empty, expected PEM", c.file(f.path))
		}
	}
	out.Key = mysqlconn.Secret(key)
	return out, nil
}

// file is a path of the configuration's; a relative one is relative to vifl.yaml.
func (c *Config) file(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.path), path)
}

// SideTarget is side a or b of a shard, as vifl's own account on it.
func (c *Config) SideTarget(s Shard, side string) (mysqlconn.Target, error) {
	acc, err := c.Account(c.Legacy.Admin)
	if err != nil {
		return mysqlconn.Target{}, fmt.Errorf("shard %s side %s: %w", s.Number, side, err)
	}
	return target(s.Number.String()+" side "+side, s.Sides[side], acc, "")
}

// MainsTarget is mains.
func (c *Config) MainsTarget() (mysqlconn.Target, error) {
	acc, err := c.Account(c.Mains.Account)
	if err != nil {
		return mysqlconn.Target{}, fmt.Errorf("mains: %w", err)
	}
	return target("mains", c.Mains.Address, acc, c.Mains.Database)
}

// VtgateTarget is vtgate, with a landing as the database.
func (c *Config) VtgateTarget(id shardid.ID) (mysqlconn.Target, error) {
	acc, err := c.Account(c.Vtgate.Account)
	if err != nil {
		return mysqlconn.Target{}, fmt.Errorf("vtgate: %w", err)
	}
	return target("vtgate", c.Vtgate.Address, acc, c.AppDatabase(id))
}

// AppDatabase is the database name that mains gives the application after the switch.
func (c *Config) AppDatabase(id shardid.ID) string {
	ks := c.Landing.Keyspace.Keyspace(id)
	if c.Landing.Database == "shard" {
		return ks + ":0"
	}
	return ks
}

// ExternalConnection is the name of a side in the tablets' configuration file.
func (c *Config) ExternalConnection(id shardid.ID, side string) string {
	return strings.NewReplacer("{shard}", id.String(), "{side}", side).Replace(c.Legacy.Connection)
}

func target(name, addr string, acc mysqlconn.Account, database string) (mysqlconn.Target, error) {
	host, port, err := SplitAddress(addr)
	if err != nil {
		return mysqlconn.Target{}, fmt.Errorf("%s: %w", name, err)
	}
	return mysqlconn.Target{Name: name, Host: host, Port: port, Account: acc, Database: database}, nil
}

// CheckCredentials reads every password and every file for TLS, and says of each that cannot be had why.
func (c *Config) CheckCredentials() error {
	var failed error
	for _, cr := range []Credential{c.Vtgate.Account, c.Mains.Account, c.Legacy.Admin, c.Landing.Account} {
		acc, err := c.Account(cr)
		if err == nil {
			_, err = mysqlconn.Target{Name: "account " + cr.User, Account: acc}.TLSConfig()
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
