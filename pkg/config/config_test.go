package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

const good = `
topo: {server: "127.0.0.1:2379"}
vtctld: 127.0.0.1:15999
vtgate: {address: "127.0.0.1:15306", account: {user: vifl, password_env: VIFL_TEST_PASSWORD}}
cells: [zone1]
landing: {account: {user: vifl, password_file: secret}}
backup: {root: /backups}
legacy: {admin: {user: vifl, password_file: secret}}
mains:
  address: 127.0.0.1:3306
  account: {user: vifl, password_file: secret}
  teams: SELECT team_id FROM teams WHERE shard = :shard
  data_teams: SELECT team_id FROM teams
  where: SELECT side, host, port, db FROM shard_addresses WHERE shard = :shard
  switch: UPDATE shard_addresses SET host = :host, port = :port, db = :database WHERE shard = :shard AND side = :side
limits: {max_age: 5m}
shards:
  - {shard: 0123, database: slack, sides: {a: "10.0.0.1:3306", b: "10.0.0.2:3306"}}
  - {shard: 4567, database: slack, sides: {a: "10.0.0.3:3306", b: "10.0.0.4:3306"}}
`

func load(t *testing.T, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "vifl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestLoad(t *testing.T) {
	c, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Shards) != 2 || c.Shards[0].Number.String() != "0123" {
		t.Errorf("unquoted 0123 was read as %v, not in decimal", c.Shards[0].Number)
	}
	if c.Limits.MaxAge != 5*time.Minute || c.Limits.MaxPause != 2*time.Second || c.Landing.Durability != "semi_sync" {
		t.Errorf("defaults and given values are mixed up: %+v", c.Limits)
	}
	target, err := c.SideTarget(c.Shards[0], SideB)
	if err != nil || target.Addr() != "10.0.0.2:3306" || target.Password.Reveal() != "hunter2" {
		t.Errorf("side b is %v, %v", target, err)
	}
	if _, err := c.VtgateTarget(c.Shards[0].Number.ID); err == nil || !strings.Contains(err.Error(), "VIFL_TEST_PASSWORD is not set") {
		t.Errorf("an unset variable gives %v", err)
	}
	if got := c.ExternalConnection(c.Shards[0].Number.ID, SideA); got != "legacy_0123_a" {
		t.Errorf("connection %q", got)
	}
}

func TestBrokenFilesAreRefusedWithTheLine(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"an unknown key":           {"cells: [zone1]", "cells: [zone1]\nsells: [zone1]", "line 6: sells: unknown key, expected one of topo"},
		"a shard in hex":           {"shard: 0123", "shard: 0x7b", "found 'x', expected decimal digits"},
		"a shard twice":            {"shard: 4567", "shard: 123", "0123 is given twice"},
		"an address twice":         {"10.0.0.4:3306", "10.0.0.1:3306", "is already 0123 side a"},
		"no port":                  {"10.0.0.4:3306", "10.0.0.4", `found "10.0.0.4", expected host:port`},
		"a side c":                 {`b: "10.0.0.4:3306"`, `c: "10.0.0.4:3306"`, `found "c", expected a and b`},
		"two password sources":     {"password_env: VIFL_TEST_PASSWORD", "password_env: X, password_file: Y", "expected one"},
		"a switch for all shards":  {"WHERE shard = :shard AND side = :side", "", "does not use :shard"},
		"two tablets":              {"landing: {", "landing: {tablets: 2, ", "found 2, expected 3 or more"},
		"a template for nothing":   {"landing: {", "landing: {keyspace: legacy, ", "expected exactly one {shard}"},
		"a durability with a typo": {"landing: {", "landing: {durability: semisink, ", `found "semisink", expected none, semi_sync`},
		"a negative bound":         {"{max_age: 5m}", "{max_pause: -15s}", "limits.max_pause: found -15s"},
		"no connection at all":     {"{max_age: 5m}", "{diff_parallelism: 0}", "limits.diff_parallelism: found 0"},
		"a second document":        {"shards:", "---\nshards:", "found a second document"},
		"an empty file":            {good, "", "found nothing in it"},
		"a tab":                    {"topo:", "\ttopo:", "line 2"},
		"a tab inside":             {"  address: 127.0.0.1:3306", "\taddress: 127.0.0.1:3306", "line 10: found a tab"},
		"a quote left open":        {"vtctld: 127.0.0.1:15999", "vtctld: \"127.0.0.1:15999", "line 3: this is no YAML from here on"},
		"a text for a number":      {"landing: {", "landing: {tablets: three, ", `line 6: landing.tablets: found "three", expected a whole number`},
		"a negative rate":          {"{max_age: 5m}", "{diff_rows_per_second: -1}", "limits.diff_rows_per_second: found -1"},
		"a part of a second":       {"{max_age: 5m}", "{diff_replica_delay: 1500ms}", "limits.diff_replica_delay: found 1.5s"},
		"a time without a unit":    {"{max_age: 5m}", "{max_age: 15}", `line 16: limits.max_age: found "15", expected a time with its unit`},
		"a text for a list":        {"[zone1]", "zone1", "line 5: cells: found a single value, expected a list"},
		"a value for keys":         {"{user: vifl, password_env: VIFL_TEST_PASSWORD}", "vifl", "line 4: vtgate.account: found a single value, expected the keys user, password_file, password_env, tls"},
		"a key twice":              {"cells: [zone1]", "cells: [zone1]\ncells: [zone2]", "line 6: cells: it is given twice, first in line 5"},
		"an empty shard":           {"shards:\n", "shards:\n  -\n", "line 18: shards[0]: found an item with nothing in it"},
		"a value with its line":    {"10.0.0.4:3306", "10.0.0.4", "line 19: shards: 4567: sides.b: found"},
		"no password at all":       {", password_env: VIFL_TEST_PASSWORD", "", "line 4: vtgate.account: neither password_file nor password_env"},
		"a switch of both sides":   {"AND side = :side", "OR side = :side", "line 15: mains.switch: found an OR outside parentheses"},
		"a switch that deletes":    {"switch: UPDATE", "switch: DELETE", "found DELETE, expected a plain UPDATE"},
		"a switch and more":        {"AND side = :side", "AND side = :side; DROP TABLE t", "found more than one statement"},
		"a name with a typo":       {"AND side = :side", "AND side = :side AND x = :shrad", "unknown name :shrad, expected :shard, :side"},
		"teams of all shards":      {"FROM teams WHERE shard = :shard", "FROM teams", "line 12: mains.teams: does not use :shard"},
		"places of all shards":     {"shard_addresses WHERE shard = :shard\n", "shard_addresses\n", "line 14: mains.where: does not use :shard"},
		"one connection for all":   {"legacy: {", "legacy: {tablet_connection: legacy, ", "legacy.tablet_connection: found \"legacy\", expected {shard}"},
		"an unknown topo server":   {"topo: {", "topo: {implementation: etcd3, ", "expected etcd2, zk2 or consul"},
		"a keyspace with a blank":  {"landing: {", "landing: {keyspace: 'my {shard}', ", "expected letters, digits, _ and - only"},
		"an unknown mode of TLS":   {"legacy: {admin: {", "legacy: {admin: {tls: {mode: preferred}, ", `line 8: legacy.admin.tls.mode: found "preferred", expected required, verify_ca or verify_identity`},
		"a certificate, no key":    {"legacy: {admin: {", "legacy: {admin: {tls: {cert: c.pem}, ", "line 8: legacy.admin.tls: one of cert and key is given"},
		"an unknown key of TLS":    {"legacy: {admin: {", "legacy: {admin: {tls: {pem: c.pem}, ", "line 8: legacy.admin.tls.pem: unknown key, expected one of mode, ca, cert, key"},
		"no shards":                {good[strings.Index(good, "shards:"):], "", "shards: none given"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%s: nothing replaced", name)
		}
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "vifl.yaml") {
			t.Errorf("%s: error %v, want the file's name and %q", name, err, c.want)
		}
	}
}

func TestUnknownShardSaysWhichThereAre(t *testing.T) {
	c, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Shard(999); err == nil || !strings.Contains(err.Error(), "0999") || !strings.Contains(err.Error(), "0123, 4567") {
		t.Errorf("error %v", err)
	}
}

// A password that was written into the file, or a file of passwords that was named by
// mistake, must not be shown by the error about it.
func TestAValueThatDoesNotFitIsNotShownWhereItMayBeAPassword(t *testing.T) {
	for name, text := range map[string]string{
		"an account in one text": strings.Replace(good, "{user: vifl, password_env: VIFL_TEST_PASSWORD}", "hunter2", 1),
		"a password as a key":    strings.Replace(good, "password_env: VIFL_TEST_PASSWORD", "password: hunter2", 1),
		"a file of a password":   "hunter2\n",
		"an account list":        strings.Replace(good, "cells: [zone1]", "cells: hunter2", 1),
	} {
		_, err := load(t, text)
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASwitchMayHaveAnORInsideParentheses(t *testing.T) {
	if _, err := load(t, strings.Replace(good, "AND side = :side", "AND (side = :side OR 'x;' = 'OR') # OR ; :x", 1)); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyPasswordIsRefused(t *testing.T) {
	c, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(c.Path()), "secret"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIFL_TEST_PASSWORD", "")
	for key, cr := range map[string]Credential{"the file": c.Legacy.Admin, "the variable": c.Vtgate.Account} {
		if _, err := c.Account(cr); err == nil || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%s: %v, expected an error that it is empty", key, err)
		}
	}
}

// TLS is the strictest that can be asked for unless the file says otherwise, and what the files hold.
func TestTLSOfAnAccount(t *testing.T) {
	c, err := load(t, strings.Replace(good, "legacy: {admin: {", "legacy: {admin: {tls: {ca: ca.pem, cert: both.pem, key: both.pem}, ", 1))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(c.Path()), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Account(c.Legacy.Admin); err == nil || !strings.Contains(err.Error(), "ca.pem: no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	write("ca.pem", "\n")
	if _, err := c.Account(c.Legacy.Admin); err == nil || !strings.Contains(err.Error(), "ca.pem is empty, expected PEM") {
		t.Errorf("a file with nothing in it: %v; without authorities the system's would count", err)
	}
	write("ca.pem", "authorities\n")
	write("both.pem", "certificate and key\n")
	target, err := c.SideTarget(c.Shards[0], SideA)
	want := mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: "authorities", Cert: "certificate and key", Key: "certificate and key"}
	if err != nil || target.TLS != want {
		t.Errorf("TLS of mode %s, %v", target.TLS.Mode, err)
	}
	t.Setenv("VIFL_TEST_PASSWORD", "x")
	if err := c.CheckCredentials(); err == nil || !strings.Contains(err.Error(), "tls.ca: found no certificate in it") {
		t.Errorf("what is no certificate: %v", err)
	}
	if target, err := c.MainsTarget(); err != nil || target.TLS != (mysqlconn.TLS{}) {
		t.Errorf("an account without tls has some, %v", err)
	}
}
