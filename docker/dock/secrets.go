package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vifl/vifl/pkg/config"
)

// The passwords, by the names of their files.
const (
	secretLegacy  = "legacy"  // vifl on the legacy servers
	secretMains   = "mains"   // vifl on mains
	secretVtgate  = "vtgate"  // vifl on vtgate
	secretLanding = "landing" // vifl on the landings' servers
	secretStream  = "stream"  // the tablets' connections to the legacy
	secretRepl    = "repl"    // between the sides of a pair
	secretOwner   = "owner"   // whoever makes tables, on the legacy and on mains
	secretApp     = "app"     // the application, on mains, the legacy and vtgate alike
)

var secretNames = []string{secretLegacy, secretMains, secretVtgate, secretLanding, secretStream, secretRepl, secretOwner, secretApp}

// runSecrets makes the passwords that are missing, and from all of them the files that Vitess
// wants them in: vtgate's accounts, and for each landing how its tablets reach the legacy. What
// is there is kept, so an operator's own files win, and a second start changes nothing.
func runSecrets(_ context.Context, args []string) error {
	f := flag.NewFlagSet("dock secrets", flag.ContinueOnError)
	path := f.String("config", "", "vifl.yaml")
	dir := f.String("dir", "", "folder of the passwords")
	if err := parse(f, args, "config", "dir"); err != nil {
		return err
	}
	c, err := config.Load(*path)
	if err != nil {
		return err
	}
	for _, name := range secretNames {
		if err := newSecret(filepath.Join(*dir, name)); err != nil {
			return err
		}
	}
	if err := writeVtgateUsers(*dir); err != nil {
		return err
	}
	for _, s := range c.Shards {
		if err := writeExternal(*dir, c, s); err != nil {
			return err
		}
	}
	say("the passwords are in %s", *dir)
	return nil
}

// newSecret makes a password unless there is one.
func newSecret(path string) error {
	if info, err := os.Stat(path); err == nil {
		if info.Size() == 0 {
			return fmt.Errorf("password %s: found an empty file, expected one line: write it, or remove the file", path)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("password: %w", err)
	}
	var b [16]byte
	_, _ = rand.Read(b[:])
	return writeFile(path, []byte(hex.EncodeToString(b[:])+"\n"))
}

// readSecret is a password's one line. The error never holds it.
func readSecret(dir, name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" || strings.ContainsAny(text, "'\\\n\r") {
		return "", fmt.Errorf("password %s: found an empty one, or a quote, backslash or line break in it, expected one line without them", filepath.Join(dir, name))
	}
	return text, nil
}

// writeFile writes a file that only we can read, whole or not at all.
func writeFile(path string, content []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func writeVtgateUsers(dir string) error {
	type user struct{ Password, UserData string }
	users := map[string][]user{}
	for name, secret := range map[string]string{"vifl": secretVtgate, "app": secretApp} {
		password, err := readSecret(dir, secret)
		if err != nil {
			return err
		}
		users[name] = []user{{password, name}}
	}
	raw, err := json.Marshal(users)
	if err != nil {
		return fmt.Errorf("vtgate's accounts: %w", err)
	}
	return writeFile(filepath.Join(dir, "vtgate-users.json"), raw)
}

// writeExternal writes the --tablet-config of a landing's tablets: docs/config.md.
func writeExternal(dir string, c *config.Config, s config.Shard) error {
	password, err := readSecret(dir, secretStream)
	if err != nil {
		return err
	}
	user := map[string]string{"user": c.Legacy.StreamAccount, "password": password}
	connections := map[string]any{}
	for side, address := range s.Sides {
		host, port, err := config.SplitAddress(address)
		if err != nil {
			return fmt.Errorf("shard %s side %s: %w", s.Number, side, err)
		}
		connections[c.ExternalConnection(s.Number.ID, side)] = map[string]any{
			"host": host, "port": port, "flavor": "FilePos", "dbName": s.Database, "charset": "utf8mb4",
			"app": user, "dba": user, "filtered": user, "repl": user, "allprivs": user, "appdebug": user,
		}
	}
	raw, err := yaml.Marshal(map[string]any{"externalConnections": connections})
	if err != nil {
		return fmt.Errorf("shard %s: tablets' configuration: %w", s.Number, err)
	}
	return writeFile(filepath.Join(dir, externalName(c.Landing.Keyspace.Keyspace(s.Number.ID))), raw)
}

// externalName is the file of a landing's external connections.
func externalName(keyspace string) string { return "external-" + keyspace + ".yaml" }
