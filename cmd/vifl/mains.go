package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/teammap"
)

func (a *app) newMainsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mains", Short: "the MySQL that maps teams to legacy shards"}
	cmd.AddCommand(&cobra.Command{
		Use: "export FILE", Short: "write the team map that the vindex legacy_shard reads in tablets",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usageError{fmt.Errorf("found %d arguments, expected one file, such as /var/lib/vitess/teams.map", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			target, err := c.MainsTarget()
			if err != nil {
				return usageError{err}
			}
			m, err := mains.Open(cmd.Context(), target, c.Mains)
			if err != nil {
				return err
			}
			defer m.Close()
			teams, err := m.TeamMap(cmd.Context())
			if err != nil {
				return err
			}
			if err := teams.Write(args[0]); err != nil {
				return err
			}
			e := exportJSON{Path: args[0], Teams: teams.Count(), Shards: teams.Shards(), Bytes: teams.Size(), Version: teammap.Version, Digest: teams.Digest(), ReadAt: teams.Created()}
			return a.print(e, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d team(s) on %d shard(s), %d bytes, digest %s\n", e.Path, e.Teams, e.Shards, e.Bytes, e.Digest)
			})
		},
	})
	return cmd
}

// exportJSON is the result of mains export: docs/cli.md.
type exportJSON struct {
	Path    string    `json:"path"`
	Teams   int       `json:"teams"`
	Shards  int       `json:"shards"`
	Bytes   int64     `json:"bytes"`
	Version int       `json:"version"`
	Digest  string    `json:"digest"`
	ReadAt  time.Time `json:"read_at"`
}
