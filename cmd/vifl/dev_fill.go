package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/load"
	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
)

func newDevFillCommand() *cobra.Command {
	o := load.FillOptions{Size: appschema.DefaultSize()}
	var user, passwordFile, schema string
	cmd := &cobra.Command{
		Use:   "fill",
		Short: "Fill the empty legacy servers of vifl.yaml, and mains; for trying and for tests",
		Long: `fill makes tables and data on side a of every shard of vifl.yaml that mains does not know, and
tells mains where the shard is served. Shards that mains knows are left alone. It is what fills
the containers of docker/compose.yaml. With --schema it runs an SQL script of yours instead; the
teams that it tells mains are then what mains.data_teams finds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := devConfig(cmd)
			if err != nil {
				return err
			}
			raw, err := os.ReadFile(passwordFile)
			if err != nil {
				return usageError{fmt.Errorf("password of %q: %w: name the file with --owner-password-file", user, err)}
			}
			o.Owner = mysqlconn.Account{User: user, Password: mysqlconn.Secret(strings.TrimRight(string(raw), "\r\n"))}
			if schema != "" {
				script, err := os.ReadFile(filepath.Clean(schema))
				if err != nil {
					return usageError{fmt.Errorf("--schema: %w", err)}
				}
				o.Schema = string(script) + "\n"
			}
			o.Config, o.Say = c, func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			return load.Fill(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&user, "owner", "owner", "an account that may make databases and tables on the legacy servers and on mains")
	f.StringVar(&passwordFile, "owner-password-file", "", "its password")
	f.StringVar(&schema, "schema", "", "an SQL script of your application's tables and rows (default: the demo's)")
	f.DurationVar(&o.Wait, "wait", 0, "how long the servers may take to let the owner in")
	f.IntVar(&o.Size.Teams, "teams", o.Size.Teams, "workspaces of each legacy shard")
	f.IntVar(&o.Size.MessagesPerTeam, "messages", o.Size.MessagesPerTeam, "messages of each workspace")
	return cmd
}
