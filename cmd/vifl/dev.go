package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/devcluster"
	"github.com/vifl/vifl/pkg/load/appschema"
)

// devDir is the default folder of the local fleet.
const devDir = ".dev"

func newDevCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "A local fleet and Vitess, for trying and for tests",
		Long: `A local fleet: mains, the legacy shards 0123 and 4567 as pairs of MySQL servers, and a Vitess
fleet (etcd, vtctld, vtgate, vtorc) whose landings get their tablets when they are seeded.
Everything is real, small, unprivileged, and ends with its supervisor.`,
		Args: noVerb, RunE: helpOnly,
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", devDir, "the fleet's folder: vifl.yaml, cluster.json, passwords; status and down take that of VIFL_CONFIG")
	cmd.AddCommand(
		newDevUpCommand(&dir), newDevDownCommand(&dir), newDevStatusCommand(&dir), newDevLoadCommand(), newDevFillCommand(),
		newDevProvisionCommand(&dir), newDevDeprovisionCommand(&dir), newDevSuperviseCommand(), newDevWatchdogCommand(),
	)
	return cmd
}

func newDevUpCommand(dir *string) *cobra.Command {
	var o devcluster.Options
	var foreground bool
	o.Size = appschema.DefaultSize()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the local fleet up; vifl.yaml for it is left in its folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o.Dir, o.Self = *dir, []string{exe, "dev"}
			if foreground {
				o.StopAtEOF = true
				return devcluster.Foreground(cmd.Context(), o, os.Stderr)
			}
			if err := devcluster.Up(cmd.Context(), o, os.Stderr); err != nil {
				return err
			}
			fmt.Printf("the local fleet is up: VIFL_CONFIG=%s\n", filepath.Join(*dir, "vifl.yaml"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&foreground, "foreground", false, "stay; end with a signal or the end of standard input")
	cmd.Flags().StringVar(&o.Bin, "bin", "", "folder of vtgate, vttablet, vtctld, vtorc, mysqlctl (default: that of vifl)")
	cmd.Flags().StringVar(&o.MySQLRoot, "mysql-root", "", "folder that has bin/mysqld (default: VT_MYSQL_ROOT, then what scripts/setup.sh made)")
	cmd.Flags().StringVar(&o.RunAs, "run-as", "nobody", "user that everything runs as when started by root")
	cmd.Flags().IntVar(&o.Size.Teams, "teams", o.Size.Teams, "workspaces of each legacy shard")
	cmd.Flags().IntVar(&o.Size.MessagesPerTeam, "messages", o.Size.MessagesPerTeam, "messages of each workspace")
	return cmd
}

func newDevDownCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take the local fleet down and remove its data; twice is fine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir := fleetDir(cmd, *dir)
			found, err := devcluster.Down(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if found {
				fmt.Fprintln(cmd.OutOrStdout(), "the local fleet is down, its data is removed")
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "no local fleet in %s\n", dir)
			}
			return nil
		},
	}
}

func newDevStatusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the processes of the local fleet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			processes, err := devcluster.Status(cmd.Context(), fleetDir(cmd, *dir))
			if err != nil {
				return err
			}
			if output, err := cmd.Flags().GetString("output"); err == nil && output == "json" {
				enc := json.NewEncoder(os.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(processes)
			}
			var rows [][]string
			var total int64
			for _, p := range processes {
				up := "up"
				if !p.Up {
					up = "DOWN"
				}
				total += p.Memory
				rows = append(rows, []string{p.Name, fmt.Sprint(p.Pid), p.Address, up, fmt.Sprintf("%d MB", p.Memory>>20), p.Landing})
			}
			rows = append(rows, []string{"all", "", "", "", fmt.Sprintf("%d MB", total>>20), ""})
			table(os.Stdout, []string{"PROCESS", "PID", "ADDRESS", "STATE", "MEMORY", "LANDING"}, rows)
			return nil
		},
	}
}

// fleetDir is the folder of the local fleet that a command means: --dir, or the folder of the
// configuration that --config or VIFL_CONFIG names, where a fleet left it there.
func fleetDir(cmd *cobra.Command, dir string) string {
	if f := cmd.Flag("dir"); f != nil && f.Changed {
		return dir
	}
	if f := cmd.Flag("config"); f != nil {
		beside := filepath.Dir(f.Value.String())
		if _, err := os.Stat(filepath.Join(beside, "cluster.json")); err == nil {
			return beside
		}
	}
	return dir
}

// landingFromEnv is the landing that vifl's hooks are about.
func landingFromEnv() devcluster.Landing {
	return devcluster.Landing{Keyspace: os.Getenv("VIFL_KEYSPACE"), Database: os.Getenv("VIFL_DATABASE"), Shard: os.Getenv("VIFL_SHARD")}
}

func newDevProvisionCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:    "provision",
		Short:  "The hook hooks.provision: start a landing's tablets",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return devcluster.Provision(cmd.Context(), *dir, landingFromEnv(), func(line string) { fmt.Fprintln(os.Stderr, line) })
		},
	}
}

func newDevDeprovisionCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:    "deprovision",
		Short:  "The hook hooks.deprovision: remove a landing's tablets",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return devcluster.Deprovision(cmd.Context(), *dir, landingFromEnv())
		},
	}
}

func newDevSuperviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return devcluster.SuperviseFromEnv(cmd.Context()) },
	}
}

func newDevWatchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "watchdog",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return devcluster.Watchdog(os.Stdin) },
	}
}
