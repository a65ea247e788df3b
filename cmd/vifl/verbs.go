package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/seed"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
	"github.com/vifl/vifl/workflows/shardmove"
)

func (a *app) newPreflightCommand() *cobra.Command {
	var stream string
	cmd := &cobra.Command{
		Use: "preflight SHARD", Short: "look whether a shard can be moved; changes nothing on any server", Args: oneShard,
		PreRunE: func(*cobra.Command, []string) error {
			switch stream {
			case "auto", state.VReplication, state.Binlog:
				return nil
			}
			return usageError{fmt.Errorf("--stream: found %q, expected auto, %s or %s", stream, state.VReplication, state.Binlog)}
		},
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			want := stream
			if want == "auto" {
				want = ""
			}
			report, err := m.Preflight(ctx, want)
			if report != nil {
				if perr := a.print(report, func(w io.Writer) {
					fmt.Fprintf(w, "preflight of %s\n", m.Show())
					printFindings(w, report.Findings)
					fmt.Fprintf(w, "%d ok, %d warning(s), %d refused; stream: %s (%s)\n", report.OK, report.Warnings, report.Refused, report.Stream, report.Why)
				}); perr != nil {
					return errors.Join(err, perr)
				}
				if err != nil {
					err = explained{err}
				}
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&stream, "stream", "auto", "what keeps the landing in step: auto (picked, the reason is said), vreplication (Vitess' own) or binlog (vifl's own)")
	return cmd
}

// printFindings shows what is not in order in full and the rest as one line each.
func printFindings(w io.Writer, findings []guard.Finding) {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.ID, string(f.Level), f.Name, f.Server, f.Found})
	}
	table(w, []string{"ID", "LEVEL", "CHECK", "SERVER", "FOUND"}, rows)
	for _, f := range findings {
		if f.Level != guard.OK {
			fmt.Fprintf(w, "%s %s: %s\n    found:    %s\n    expected: %s\n    remedy:   %s\n", f.ID, f.Level, f.Name, f.Found, f.Expected, f.Remedy)
		}
	}
}

func (a *app) newSeedCommand() *cobra.Command {
	var method string
	cmd := &cobra.Command{
		Use: "seed SHARD", Short: "fill the landing from one consistent snapshot of the legacy", Args: oneShard,
		RunE: func(cmd *cobra.Command, args []string) error {
			if method != "copy" && method != "clone" {
				return usageError{fmt.Errorf("--method: found %q, expected copy or clone", method)}
			}
			return a.withMove(cmd.Context(), args, func(ctx context.Context, m *shardmove.Move) error {
				s, err := m.Seed(ctx, method)
				if err != nil {
					return err
				}
				return a.print(s, func(w io.Writer) {
					fmt.Fprintf(w, "seeded %s by %s: %s, %.1f MB in %.1f s (%.1f MB/s); backup %s\n", m.Show(), s.Method, shardmove.RowsText(s), float64(s.Bytes)/1e6, s.Seconds, float64(s.Bytes)/1e6/max(s.Seconds, 0.001), s.Backup)
					fmt.Fprintf(w, "position %s of side %s (%s)\n", s.Position, s.StreamSide, s.SourceA.ServerUUID)
				})
			})
		},
	}
	cmd.Flags().StringVar(&method, "method", "copy", "copy (snapshot by SQL, any version) or clone (MySQL's CLONE plugin, same series)")
	return cmd
}

// newSeedChildCommand is what a seed runs in a process of its own.
func newSeedChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "seed-child", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return seed.Child(cmd.Context(), os.Stdin, os.Stdout) },
	}
}

func (a *app) newSyncCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "keep the landing in step with the legacy's binlog", Args: noVerb, RunE: helpOnly}
	show := func(m *shardmove.Move, s *shardmove.SyncStatus) error {
		return a.print(s, func(w io.Writer) {
			if s.Kind == "" {
				fmt.Fprintf(w, "%s has no stream: vifl sync start %s makes it, behind a seed\n", m.Show(), m.Number())
				return
			}
			lag := "unknown"
			if s.LagSeconds >= 0 {
				lag = fmt.Sprintf("%.2f s", s.LagSeconds)
			}
			fmt.Fprintf(w, "stream of %s: %s %s at %s; the legacy is at %s: lag %s, %d bytes\n", m.Show(), s.Kind, s.State, s.Position, s.Source, lag, s.LagBytes)
			if s.Message != "" {
				fmt.Fprintf(w, "message: %s\n", s.Message)
			}
			if s.Inspected != "" {
				fmt.Fprintf(w, "binlog inspected up to %s: %d event(s) that the stream loses\n", s.Inspected, len(s.Taints))
			}
			for _, t := range s.Taints {
				fmt.Fprintf(w, "  tainted at %s: %s: %s\n", t.Position, t.Kind, t.Detail)
			}
		})
	}
	cmd.AddCommand(
		&cobra.Command{Use: "start SHARD", Short: "start the stream from the seed's position and wait until it has caught up", Args: oneShard, RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			s, err := m.SyncStart(ctx)
			if err != nil {
				return err
			}
			return show(m, s)
		})},
		&cobra.Command{Use: "stop SHARD", Short: "stop the stream at the end of a transaction", Args: oneShard, RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			return a.done(ctx, m, "sync stop", m.SyncStop(ctx), "stream stopped")
		})},
		&cobra.Command{Use: "status SHARD", Short: "where the stream is, and how far behind", Args: oneShard, RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			s, err := m.SyncStatus(ctx)
			if err != nil {
				return err
			}
			return show(m, s)
		})},
	)
	return cmd
}

func switchFlags(cmd *cobra.Command, o *shardmove.CutoverOptions) {
	cmd.Flags().DurationVar(&o.MaxAge, "max-age", 0, "accept a certificate up to this old (default limits.max_age)")
	cmd.Flags().DurationVar(&o.MaxLag, "max-lag", 0, "accept a stream lag up to this (default limits.max_lag)")
}

func (a *app) newRehearseCommand() *cobra.Command {
	var o shardmove.CutoverOptions
	cmd := &cobra.Command{
		Use: "rehearse SHARD", Short: "freeze, catch up, verify, measure, thaw; never switches", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			report, err := m.Rehearse(ctx, o)
			return a.switched(m, report, err)
		}),
	}
	switchFlags(cmd, &o)
	return cmd
}

func (a *app) newCutoverCommand() *cobra.Command {
	var o shardmove.CutoverOptions
	var dry bool
	cmd := &cobra.Command{
		Use: "cutover SHARD --confirm SHARD", Short: "switch the shard's traffic to the landing", Args: oneShard,
		Long: `Freezes both sides of the legacy pair, brings the landing to their final position, verifies,
opens the landing, changes mains, and keeps the legacy closed. Until mains is changed any
failure takes everything back. Behind it a stream back keeps the legacy in step with the
landing (vifl serve runs its worker), so that vifl rollback loses nothing. With --one-way
there is none, and what is written behind the cutover cannot be brought back.`,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			if dry {
				refused, err := m.Refusals(ctx, o)
				return a.wouldRefuse(m, "cutover", refused, err)
			}
			report, err := m.Cutover(ctx, o)
			return a.switched(m, report, err)
		}),
	}
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "the shard's number, typed again")
	cmd.Flags().BoolVar(&o.OneWay, "one-way", false, "make no stream back: the cutover can never be rolled back")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list all refusals at once, change nothing")
	switchFlags(cmd, &o)
	return cmd
}

// wouldRefuse prints what a dry run found.
func (a *app) wouldRefuse(m *shardmove.Move, verb engine.Verb, refused []guard.Finding, err error) error {
	if err != nil {
		return err
	}
	if err := a.print(refusedJSON{Shard: m.Show(), Refusals: refused}, func(w io.Writer) {
		if len(refused) == 0 {
			fmt.Fprintf(w, "%s of %s would not be refused\n", verb, m.Show())
			return
		}
		printFindings(w, refused)
	}); err != nil {
		return err
	}
	if len(refused) > 0 {
		return explained{&shardmove.Refused{Verb: verb, Shard: m.Show(), Findings: refused}}
	}
	return nil
}

// doneJSON is the result of a verb that has nothing to tell but that it is done.
type doneJSON struct {
	Shard string      `json:"shard"`
	Verb  string      `json:"verb"`
	Phase state.Phase `json:"phase"`
	What  string      `json:"what"`
	Hold  *state.Hold `json:"hold,omitempty"`
}

// done prints that a verb is done, and in which phase the shard is now; a script and a
// person both want to see more than silence.
func (a *app) done(ctx context.Context, m *shardmove.Move, verb string, err error, what string) error {
	if err != nil {
		return err
	}
	doc, err := m.Document(ctx)
	if err != nil {
		return fmt.Errorf("%s of %s is done, but: %w", verb, m.Show(), err)
	}
	return a.print(doneJSON{Shard: m.Show(), Verb: verb, Phase: doc.Phase, What: what, Hold: doc.Hold}, func(w io.Writer) {
		fmt.Fprintf(w, "%s of %s: %s (the shard is %s)\n", verb, m.Show(), what, doc.Phase)
	})
}

type refusedJSON struct {
	Shard    string          `json:"shard"`
	Refusals []guard.Finding `json:"refusals"`
}

// switched prints the outcome of a rehearsal or cutover.
func (a *app) switched(m *shardmove.Move, r *shardmove.SwitchReport, err error) error {
	if err != nil || r == nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s of %s at %s: writes paused %.0f ms, %d of the newest rows compared, %d connection(s) ended\n", r.Verb, m.Show(), r.Final, r.PauseMillis, r.Newest, r.Killed)
	})
}

func (a *app) newRollbackCommand() *cobra.Command {
	var o shardmove.CutoverOptions
	var dry bool
	cmd := &cobra.Command{
		Use: "rollback SHARD --confirm SHARD", Short: "bring the shard's traffic back to the legacy, with all that was written since", Args: oneShard,
		Long: `Fences and freezes the landing, waits until the legacy has the landing's last transaction,
verifies, changes mains back, and opens the legacy as it was before the cutover. Until mains is
changed any failure takes everything back. Behind it the landing follows the legacy again: a
diff gives a new certificate for the next cutover.`,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			if dry {
				refused, err := m.RollbackRefusals(ctx, o)
				return a.wouldRefuse(m, "rollback", refused, err)
			}
			report, err := m.Rollback(ctx, o)
			return a.switched(m, report, err)
		}),
	}
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "the shard's number, typed again")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list all refusals at once, change nothing")
	cmd.Flags().DurationVar(&o.MaxLag, "max-lag", 0, "accept a lag of the stream back up to this (default limits.max_lag)")
	return cmd
}

func (a *app) newCompleteCommand() *cobra.Command {
	var o shardmove.CutoverOptions
	cmd := &cobra.Command{
		Use: "complete SHARD --confirm SHARD", Short: "end the move: the one-way door", Args: oneShard,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := shardid.Parse(o.Confirm); err != nil {
				return usageError{fmt.Errorf("--confirm: %w", err)}
			}
			return a.withMove(cmd.Context(), args, func(ctx context.Context, m *shardmove.Move) error {
				return a.done(ctx, m, "complete", m.Complete(ctx, o), "the move is over; the legacy pair stays closed, its data is untouched")
			})
		},
	}
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "the shard's number, typed again")
	cmd.Flags().BoolVar(&o.OneWay, "one-way", false, "give the way back up as it is, without a vifl diff --reverse")
	cmd.Flags().DurationVar(&o.MaxLag, "max-lag", 0, "accept a lag of the stream back up to this (default limits.max_lag)")
	return cmd
}

func (a *app) newAbortCommand() *cobra.Command {
	return &cobra.Command{
		Use: "abort SHARD", Short: "give the move up before the switch; removes stream, landing and backup", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			return a.done(ctx, m, "abort", m.Abort(ctx), "stream, landing and backup removed; the legacy is as it was")
		}),
	}
}

func (a *app) newThawCommand() *cobra.Command {
	return &cobra.Command{
		Use: "thaw SHARD", Short: "take back what an interrupted rehearsal or cutover left frozen", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			what, err := m.Thaw(ctx)
			return a.done(ctx, m, "thaw", err, what)
		}),
	}
}

func (a *app) newHoldCommand() *cobra.Command {
	return a.holdCommand("hold", "forbid a cutover until unhold", (*shardmove.Move).Hold)
}

func (a *app) newUnholdCommand() *cobra.Command {
	return a.holdCommand("unhold", "take a hold back", (*shardmove.Move).Unhold)
}

func (a *app) holdCommand(verb, short string, do func(*shardmove.Move, context.Context, string) error) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use: verb + " SHARD --why TEXT", Short: short, Args: oneShard,
		RunE: func(cmd *cobra.Command, args []string) error {
			if why == "" {
				return usageError{fmt.Errorf("%s: --why is missing: say it for those who find the hold", verb)}
			}
			return a.withMove(cmd.Context(), args, func(ctx context.Context, m *shardmove.Move) error {
				return a.done(ctx, m, verb, do(m, ctx, why), why)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason, for the history and for whoever is refused by it")
	return cmd
}

// ago prints how long ago something was, in whole seconds.
func ago(t time.Time) string { return time.Since(t).Round(time.Second).String() + " ago" }
