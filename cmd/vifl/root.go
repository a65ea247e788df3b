package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/workflows/shardmove"
)

// app is what all verbs share: the global flags and where output goes.
type app struct {
	configPath string
	output     string
}

func newRootCommand() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:   "vifl",
		Short: "Vitess In Front of Legacy: move legacy MySQL shards into Vitess",
		Long: `vifl moves legacy MySQL shards (pairs of writable masters, no GTIDs) into Vitess: it seeds
a Vitess shard from the legacy, keeps it in sync from the binlog, proves both equal at one
instant, and cuts over. It refuses to cut over any shard but the one it validated.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by a guard, 4 differences found
or a limit of vifl audit --fail-on exceeded.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "text" && a.output != "json" {
				return usageError{fmt.Errorf("--output: found %q, expected text or json", a.output)}
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	path := os.Getenv("VIFL_CONFIG")
	if path == "" {
		path = "vifl.yaml"
	}
	root.PersistentFlags().StringVar(&a.configPath, "config", path, "the configuration file (VIFL_CONFIG)")
	root.PersistentFlags().StringVar(&a.output, "output", "text", "text or json")
	root.AddCommand(
		newDevCommand(),
		a.newConfigCommand(), a.newShardsCommand(), a.newMainsCommand(), a.newAuditCommand(),
		a.newPreflightCommand(), a.newSeedCommand(), newSeedChildCommand(), a.newSyncCommand(), a.newDiffCommand(),
		a.newRehearseCommand(), a.newCutoverCommand(), a.newRollbackCommand(), a.newCompleteCommand(), a.newAbortCommand(), a.newThawCommand(),
		a.newStatusCommand(), a.newHistoryCommand(), a.newCertCommand(), a.newHoldCommand(), a.newUnholdCommand(), a.newServeCommand(),
	)
	return root
}

// load reads the configuration; what is wrong with it is a fault of usage.
func (a *app) load() (*config.Config, error) {
	c, err := config.Load(a.configPath)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// oneShard is the argument check of verbs that work on one shard.
func oneShard(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("found %d arguments, expected one shard number, such as 0123", len(args))}
	}
	if _, err := shardid.Parse(args[0]); err != nil {
		return usageError{err}
	}
	return nil
}

// noVerb is the argument check of a command that only groups others: what is left over is a
// verb that it does not have, which must not end with a help text and exit code 0.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var have []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			have = append(have, c.Name())
		}
	}
	return usageError{fmt.Errorf("%s: found %q, expected one of %s", cmd.CommandPath(), args[0], strings.Join(have, ", "))}
}

// helpOnly is the body of such a command.
func helpOnly(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// withMove opens the move of the shard that args name, runs the verb, and closes it.
func (a *app) withMove(ctx context.Context, args []string, run func(context.Context, *shardmove.Move) error) error {
	id, err := shardid.Parse(args[0])
	if err != nil {
		return usageError{err}
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	if _, err := c.Shard(id); err != nil {
		return usageError{err}
	}
	m, err := shardmove.Open(ctx, c, id, newReporter(os.Stderr))
	if err != nil {
		return err
	}
	defer m.Close()
	return a.explain(m.Show(), run(ctx, m))
}

// explained is an error whose findings have been printed already.
type explained struct{ error }

func (e explained) Unwrap() error { return e.error }

// explain prints the findings of a verb that guards refused, where the verb has no report of
// its own that shows them: numbers alone say neither what was found nor what to do.
func (a *app) explain(shard string, err error) error {
	var refused *shardmove.Refused
	var done explained
	if !errors.As(err, &refused) || errors.As(err, &done) {
		return err
	}
	if perr := a.print(refusedJSON{Shard: shard, Refusals: refused.Findings}, func(w io.Writer) { printFindings(w, refused.Findings) }); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}

// onShard is the body of a verb that does nothing but run on the move of its shard.
func (a *app) onShard(run func(context.Context, *shardmove.Move) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return a.withMove(cmd.Context(), args, run) }
}
