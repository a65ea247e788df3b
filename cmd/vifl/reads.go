package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/workflows/shardmove"
)

func (a *app) newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "the configuration file", Args: noVerb, RunE: helpOnly}
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "read the configuration file and say what is wrong with it; connects to nothing", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := c.CheckCredentials(); err != nil {
				return usageError{err}
			}
			return a.print(map[string]any{"path": c.Path(), "shards": len(c.Shards), "ok": true}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: ok, %d shard(s)\n", c.Path(), len(c.Shards))
			})
		},
	})
	return cmd
}

func (a *app) newShardsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "shards", Short: "the legacy shards of the fleet", Args: noVerb, RunE: helpOnly}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "list the shards with their phase", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			list, err := shardmove.List(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.print(list, func(w io.Writer) {
				var rows [][]string
				for _, s := range list {
					rows = append(rows, []string{c.Landing.Keyspace.Show(s.Shard), string(s.Phase), s.Database, s.Sides[config.SideA], s.Sides[config.SideB], s.Next})
				}
				table(w, []string{"SHARD", "PHASE", "DATABASE", "SIDE A", "SIDE B", "NEXT"}, rows)
			})
		},
	})
	return cmd
}

func (a *app) newStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status SHARD", Short: "where the move stands, what comes next, and why it would be refused", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			s, err := m.Status(ctx)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { printStatus(w, s) })
		}),
	}
}

func printStatus(w io.Writer, s *shardmove.Status) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", key+":", fmt.Sprintf(format, args...))
	}
	line("shard", "%s", s.Shard)
	line("phase", "%s (epoch %d)", s.Document.Phase, s.Document.Epoch)
	if s.Holder != "" {
		line("at work", "%s", s.Holder)
	}
	if at := s.Document.Attempt; at != nil && s.Holder == "" {
		clears := "vifl thaw, or the same verb again, clears it up"
		if at.NoUndo {
			clears = "it is behind the point of no undo, writes may be stopped, and only the same verb again ends it"
		}
		line("interrupted", "a %s begun %s did not end: %s", at.Verb, ago(at.Started), clears)
	}
	if h := s.Document.Hold; h != nil {
		line("hold", "%s, by %s, %s", h.Why, h.Who, ago(h.At))
	}
	line("traffic", "%s", s.Traffic)
	if s.Document.Seed != nil {
		line("seed", "%s at %s, %s", s.Document.Seed.Method, s.Document.Seed.Position, ago(s.Document.Seed.At))
	}
	if s.Sync != nil {
		line("stream", "%s %s at %s, lag %.2f s, %d bytes", s.Sync.Kind, s.Sync.State, s.Sync.Position, s.Sync.LagSeconds, s.Sync.LagBytes)
	}
	if b := s.Back; b != nil {
		window := "for ever"
		if b.WindowSeconds >= 0 {
			window = fmt.Sprintf("%.1f h", b.WindowSeconds/3600)
		}
		line("stream back", "%s, %d transaction(s) behind, lag %.2f s; rollback window left: %s", b.State, b.Behind, b.LagSeconds, window)
		if b.Message != "" {
			line("message", "%s", b.Message)
		}
		if d := s.Document.Reverse.Diff; d != nil {
			line("reverse diff", "%d differing row(s) at %s of %s, %s", d.Differing, d.Position, d.Tablet, ago(d.At))
		}
	}
	if c := s.Document.Certificate; c != nil {
		void := ""
		if s.Document.CertificateVoid != "" {
			void = ", void: " + s.Document.CertificateVoid
		}
		line("certificate", "equal at %s, %s%s", c.Cut, ago(c.CutAt), void)
	}
	if n := len(s.Document.AcceptedDrift); n > 0 {
		line("drift", "%d row(s) accepted: vifl diff %s --accepted-drift lists them", n, s.Document.Shard)
	}
	if sw := s.Document.Switch; sw != nil {
		line("switched", "%s at %s, writes paused %.0f ms", ago(sw.At), sw.Final, sw.PauseMillis)
	}
	for _, p := range s.Problems {
		line("problem", "%s", p)
	}
	next := s.Next
	if next == "" {
		next = "nothing: the move is over"
	} else {
		next = "vifl " + next
	}
	line("next", "%s", next)
	for _, f := range s.Refusals {
		line("refused", "%s %s: found %s, expected %s: %s", f.ID, f.Name, f.Found, f.Expected, f.Remedy)
	}
}

func (a *app) newHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "history SHARD", Short: "what was done to a shard, when, by whom", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			events, err := m.History(ctx)
			if err != nil {
				return err
			}
			return a.print(events, func(w io.Writer) {
				var rows [][]string
				for _, e := range events {
					outcome := e.What
					if e.Error != "" {
						outcome = "failed: " + e.Error
					}
					rows = append(rows, []string{e.At.Format(time.RFC3339), e.Who, e.Verb, string(e.From) + " -> " + string(e.To), fmt.Sprintf("%.0f ms", e.Millis), outcome})
				}
				table(w, []string{"WHEN", "WHO", "VERB", "PHASE", "TOOK", "OUTCOME"}, rows)
			})
		}),
	}
}

func (a *app) newCertCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cert", Short: "the certificate of the last equal diff", Args: noVerb, RunE: helpOnly}
	cmd.AddCommand(&cobra.Command{
		Use: "show SHARD", Short: "show the certificate", Args: oneShard,
		RunE: a.onShard(func(ctx context.Context, m *shardmove.Move) error {
			doc, err := m.Document(ctx)
			if err != nil {
				return err
			}
			c := doc.Certificate
			if c == nil {
				return errors.New("shard " + m.Show() + " has no certificate: vifl diff makes one when both sides are equal")
			}
			if err := c.Verify(); err != nil {
				fmt.Fprintln(os.Stderr, "vifl: the certificate does not verify:", err)
			}
			return a.print(c, func(w io.Writer) {
				fmt.Fprintf(w, "certificate of %s, %s, digest %s\n", m.Show(), ago(c.CutAt), c.Digest)
				fmt.Fprintf(w, "equal at %s of %s\n", c.Cut, c.A.ServerUUID)
				if doc.CertificateVoid != "" {
					fmt.Fprintf(w, "VOID: %s\n", doc.CertificateVoid)
				}
				for _, r := range c.Drift.Accepted {
					fmt.Fprintf(w, "but for drift: ")
					printAccepted(w, "accepted", shardmove.AcceptedDrift{AcceptedRow: r})
				}
				var rows [][]string
				for _, t := range c.Tables {
					rows = append(rows, []string{t.Name, fmt.Sprint(t.Rows), t.Sum})
				}
				table(w, []string{"TABLE", "ROWS", "SUM"}, rows)
			})
		}),
	})
	return cmd
}
