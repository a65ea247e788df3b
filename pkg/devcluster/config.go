package devcluster

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"text/template"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/load/appschema"
)

//go:embed vifl.yaml.tmpl
var configText string

// writeConfig writes the fleet's vifl.yaml and proves that vifl takes it.
func (c *cluster) writeConfig() error {
	type shard struct{ Number, A, B string }
	var shards []shard
	for _, sh := range c.legacy {
		shards = append(shards, shard{sh.id.String(), serverAddress(sh.sides[0]), serverAddress(sh.sides[1])})
	}
	if err := c.writeAuthorities(); err != nil {
		return err
	}
	hook := func(verb string) []string { return append(append([]string{}, c.o.Self...), verb, "--dir", c.o.Dir) }
	tmpl, err := template.New("vifl.yaml").Funcs(template.FuncMap{"q": quote}).Parse(configText)
	if err != nil {
		return fmt.Errorf("local fleet: vifl.yaml: %w", err)
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, map[string]any{
		"Topo": c.etcd.Address, "TopoRoot": topoRoot, "Vtctld": c.vtctldAddress(), "Vtgate": c.vtgateAddress(),
		"Cell": Cell, "Backups": c.backupRoot(), "MySQL": c.programs.mysql.Root, "RunAs": c.runAs(),
		"WorkDir": filepath.Join(c.o.Data, "work"), "Mains": serverAddress(c.mains), "MainsDatabase": mainsDatabase,
		"Teams": appschema.MainsTeams, "DataTeams": appschema.MainsDataTeams, "Map": appschema.MainsMap, "Where": appschema.MainsWhere, "Switch": appschema.MainsSwitch,
		"Provision": hook("provision"), "Deprovision": hook("deprovision"), "Shards": shards, "Database": Database,
		"Secrets": c.folder.secrets(), "Authorities": c.folder.authorities(), "Tablets": tabletsPerLanding,
	})
	if err != nil {
		return fmt.Errorf("local fleet: vifl.yaml: %w", err)
	}
	if err := rewrite(c.files.config, b.Bytes()); err != nil {
		return err
	}
	// When the folder is closed to the user that we became, the proof is vifl's first run.
	if c.root {
		return nil
	}
	if _, err := config.Load(c.folder.config()); err != nil {
		return fmt.Errorf("local fleet: %w", err)
	}
	return nil
}

// writeAuthorities collects what vifl verifies the legacy servers by: MySQL makes an authority, and a
// certificate that it signs, with a data folder.
func (c *cluster) writeAuthorities() error {
	var all []byte
	for _, sh := range c.legacy {
		for _, s := range sh.sides {
			pem, err := os.ReadFile(filepath.Join(s.DataDir(), "ca.pem"))
			if err != nil {
				return fmt.Errorf("local fleet: the authority of %s: %w", s.Name(), err)
			}
			all = append(all, pem...)
		}
	}
	return rewrite(c.files.authorities, all)
}

func (c *cluster) runAs() string {
	if c.o.RunAs == "" {
		return "nobody"
	}
	return c.o.RunAs
}

// quote writes a YAML double-quoted string: Go's quoting of printable text is YAML's.
func quote(s string) string { return strconv.Quote(s) }
