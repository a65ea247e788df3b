package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/load"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// errNotVerified is a ledger that the servers do not bear out; the list has been printed.
var errNotVerified = errors.New("the servers do not hold what the ledger says")

// devLoad are the flags of `vifl dev load`.
type devLoad struct {
	user, passwordFile string
	shards             []string
	options            load.Options
	progress           bool
}

func newDevLoadCommand() *cobra.Command {
	d := &devLoad{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Write like the old application, and keep a ledger of what was acknowledged",
		Long: `load looks teams up in mains, connects to the side that each prefers (even ids a, odd ids
b), and writes: single statements and transactions, rows with ids of its own and with
AUTO_INCREMENT, updates and deletes. A read-only error or a broken connection makes it look
the team up again. It runs until --duration is over, or until it is interrupted (Ctrl-C,
SIGTERM), and then prints how long every writer had to wait at most.

The ledger is written before and after every operation; "vifl dev load verify" reads it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&d.user, "app-user", "app", "the application's account on mains, the legacy servers and vtgate")
	f.StringVar(&d.passwordFile, "app-password-file", "", "its password (default: secrets/app beside the configuration file)")
	f.StringSliceVar(&d.shards, "shards", nil, "only the teams of these shards, such as 0123,4567 (default: all in mains)")
	f.StringVar(&d.options.Ledger, "ledger", "load.ledger", "the ledger, appended to when it is there")
	f.IntVar(&d.options.Writers, "writers", 16, "clients that write at once")
	f.Float64Var(&d.options.Rate, "rate", 400, "operations a second of all writers together; 0 is as fast as it goes")
	f.DurationVar(&d.options.Duration, "duration", 0, "end after this time; 0 is until interrupted")
	f.Uint64Var(&d.options.Seed, "seed", 1, "another number gives another sequence of operations")
	f.BoolVar(&d.progress, "progress", false, "a line a second on stderr")
	cmd.AddCommand(newDevLoadVerifyCommand())
	return cmd
}

func (d *devLoad) run(cmd *cobra.Command) error {
	c, err := devConfig(cmd)
	if err != nil {
		return err
	}
	account, err := d.account(c)
	if err != nil {
		return usageError{err}
	}
	o, err := load.FromConfig(c, account)
	if err != nil {
		return err
	}
	d.options.Mains, d.options.App = o.Mains, o.App
	for _, s := range d.shards {
		id, err := shardid.Parse(s)
		if err != nil {
			return usageError{fmt.Errorf("--shards: %w", err)}
		}
		d.options.Shards = append(d.options.Shards, id)
	}
	ctx := cmd.Context()
	run, err := load.Start(ctx, d.options)
	if err != nil {
		return err
	}
	if d.progress {
		go progressLines(cmd.ErrOrStderr(), run)
	}
	// The end of ctx has stopped the load; what was sent is still waited for.
	summary, err := run.Wait(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return devPrint(cmd, summary, summary.Text())
}

func progressLines(w io.Writer, run *load.Run) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before := run.Snapshot()
	for {
		select {
		case <-run.Done():
			return
		case <-tick.C:
			now := run.Snapshot()
			fmt.Fprintln(w, now.Line(before))
			before = now
		}
	}
}

// account reads the application's password; the error never contains it.
func (d *devLoad) account(c *config.Config) (mysqlconn.Account, error) {
	file := d.passwordFile
	if file == "" {
		file = filepath.Join(filepath.Dir(c.Path()), "secrets", "app")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return mysqlconn.Account{}, fmt.Errorf("password of %q: %w: name the file with --app-password-file", d.user, err)
	}
	return mysqlconn.Account{User: d.user, Password: mysqlconn.Secret(strings.TrimRight(string(raw), "\r\n"))}, nil
}

func newDevLoadVerifyCommand() *cobra.Command {
	var ledger string
	var wait time.Duration
	var problems int
	var follows bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every write of a ledger against all servers; exit code 1 when one is not as it must be",
		Long: `verify reads every row that the ledger names on both legacy servers and, where mains serves
the shard from Vitess, on the landing through vtgate. What the legacy acknowledged must be
on both sides, and on the landing; what vtgate acknowledged must be on the landing and not
on the legacy, or there too with --legacy-follows; what was deleted or rolled back must be nowhere; a write whose reply was lost
may be there or not, but the same everywhere. The load must have ended.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := devConfig(cmd)
			if err != nil {
				return err
			}
			o, err := load.VerifyFromConfig(c, ledger)
			if err != nil {
				return err
			}
			o.Wait, o.MaxProblems, o.Follows = wait, problems, follows
			result, err := load.Verify(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := devPrint(cmd, result, result.Text()); err != nil {
				return err
			}
			if !result.OK() {
				return silentError{errNotVerified}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&ledger, "ledger", "load.ledger", "the ledger")
	f.DurationVar(&wait, "wait", 30*time.Second, "how long a row may take to reach the other side")
	f.BoolVar(&follows, "legacy-follows", false, "a stream back keeps the legacy in step: it must have all of the landing's writes too")
	f.IntVar(&problems, "max-problems", 100, "how many problems are listed")
	return cmd
}

// devConfig reads the configuration that the root's --config names.
func devConfig(cmd *cobra.Command) (*config.Config, error) {
	c, err := config.Load(cmd.Flag("config").Value.String())
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// devPrint writes a result to stdout, as the root's --output says.
func devPrint(cmd *cobra.Command, v any, text string) error {
	out := cmd.OutOrStdout()
	if cmd.Flag("output").Value.String() != "json" {
		_, err := io.WriteString(out, text)
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
