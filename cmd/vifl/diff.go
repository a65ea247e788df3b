package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/workflows/shardmove"
)

func (a *app) newDiffCommand() *cobra.Command {
	var o shardmove.DiffOptions
	var explain, reverse bool
	cmd := &cobra.Command{
		Use: "diff SHARD [--reverse | --explain TABLE KEY]", Short: "compare legacy and landing at one instant; equal gives a certificate",
		Long: `Compares side a with every tablet of the landing at one instant, and side b with side a, and
lists the rows that differ with both values. When nothing differs it writes a certificate.

With --reverse, behind a cutover, it compares the legacy, which the stream back keeps in step,
with the landing: a clean one is what vifl complete wants.

With --explain it does not compare tables: it reads one row now, on both sides and every
tablet, and shows in whole the columns that differ. KEY is the key as a diff printed it; give
it in single quotes, and -- before a table or key that begins with a dash.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !explain {
				return oneShard(cmd, args)
			}
			if len(args) != 3 {
				return usageError{fmt.Errorf("--explain: found %d arguments, expected a shard number, a table and a key", len(args))}
			}
			return oneShard(cmd, args[:1])
		},
		PreRunE: func(*cobra.Command, []string) error {
			if explain && o.Repair {
				return usageError{errors.New("--repair is of a whole diff, --explain of one row: give one of them")}
			}
			if reverse && (explain || o.Repair) {
				return usageError{errors.New("--reverse compares the legacy with the landing: it goes with neither --explain nor --repair")}
			}
			if o.MaxRows < 1 {
				return usageError{fmt.Errorf("--max-rows: found %d, expected 1 or more", o.MaxRows)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMove(cmd.Context(), args, func(ctx context.Context, m *shardmove.Move) error {
				if explain {
					return a.explainRow(ctx, m, args[1], args[2])
				}
				run, show := m.Diff, printDiff
				if reverse {
					run, show = m.DiffBack, printDiffBack
				}
				report, err := run(ctx, o)
				if report != nil {
					if perr := a.print(report, func(w io.Writer) { show(w, m.Show(), report) }); perr != nil {
						return errors.Join(err, perr)
					}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&reverse, "reverse", false, "behind a cutover: compare the legacy with the landing")
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "when rows differ, print the SQL that would make the landing equal to side a; never runs it")
	cmd.Flags().BoolVar(&explain, "explain", false, "read one row now on all servers and show what differs: --explain TABLE KEY")
	cmd.Flags().IntVar(&o.MaxRows, "max-rows", shardmove.DefaultMaxRows, "list so many differing rows of each tablet and of side b; more are only counted")
	return cmd
}

func printDiff(w io.Writer, shard string, r *shardmove.DiffReport) {
	fmt.Fprintf(w, "diff of %s at %s: writes blocked %.1f ms\n", shard, r.Position, r.BlockedMillis)
	fmt.Fprintf(w, "%d tables, %d rows, %.0f rows/s; side a against %d tablet(s) and side b\n", r.Tables, r.Rows, r.RowsPerSecond, len(r.Tablets))
	printDifferences(w, r, "; no certificate")
	if r.Equal {
		fmt.Fprintf(w, "equal at %s; certificate %s\n", r.Position, r.Digest)
	}
}

func printDiffBack(w io.Writer, shard string, r *shardmove.DiffReport) {
	fmt.Fprintf(w, "reverse diff of %s at %s of tablet %s: its replication blocked %.1f ms\n", shard, r.Position, strings.Join(r.Tablets, ", "), r.BlockedMillis)
	fmt.Fprintf(w, "%d tables, %d rows, %.0f rows/s; the tablet against both sides of the legacy\n", r.Tables, r.Rows, r.RowsPerSecond)
	printDifferences(w, r, "")
	if r.Equal {
		fmt.Fprintf(w, "equal at %s\n", r.Position)
	}
}

// printDifferences ends its count with what follows from it.
func printDifferences(w io.Writer, r *shardmove.DiffReport, so string) {
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s: %s: %s key (%s)\n", d.Target, d.Table, d.Kind, d.Key)
		for _, c := range d.Columns {
			fmt.Fprintf(w, "      %s\n", c)
		}
	}
	if r.Equal {
		return
	}
	for _, t := range r.Targets {
		if t.Different == 0 {
			continue
		}
		var tables []string
		for _, name := range slices.Sorted(maps.Keys(t.ByTable)) {
			tables = append(tables, fmt.Sprintf("%s %d", name, t.ByTable[name]))
		}
		fmt.Fprintf(w, "%s: %d row(s) differ: %s\n", t.Target, t.Different, strings.Join(tables, ", "))
		if t.Listed < t.Different {
			fmt.Fprintf(w, "%s: only %d of them are listed, %d are only counted (--max-rows %d)\n", t.Target, t.Listed, t.Different-t.Listed, r.MaxRows)
		}
	}
	fmt.Fprintf(w, "%d row(s) differ%s\n", r.Different, so)
	printRepair(w, r)
}

// printRepair prints the statements with comments of SQL around them, so that they can be
// cut out and run as they are.
func printRepair(w io.Writer, r *shardmove.DiffReport) {
	for _, t := range r.Repair {
		if t.Problem != "" {
			fmt.Fprintf(w, "-- %s: no statements: %s\n", t.Target, strings.ReplaceAll(t.Problem, "\n", " "))
			continue
		}
		fmt.Fprintf(w, "-- Repair of %s of %s: nothing of this has been run. Values are those of side a at %s.\n", t.Target, r.Shard, r.Position)
		fmt.Fprintln(w, "-- Stop the stream, make sure that these rows have not been written since, run it on the primary, start the stream, diff again.")
		if t.Unlisted > 0 {
			fmt.Fprintf(w, "-- %d more differing row(s) are not listed and have no statement here: raise --max-rows.\n", t.Unlisted)
		}
		for _, s := range t.Statements {
			fmt.Fprintln(w, s+";")
		}
	}
}

// explainRow shows one row as all servers have it.
func (a *app) explainRow(ctx context.Context, m *shardmove.Move, table, key string) error {
	report, err := m.Explain(ctx, table, key)
	if errors.Is(err, diff.ErrKey) {
		return usageError{err}
	}
	if report == nil {
		return err
	}
	if perr := a.print(report, func(w io.Writer) { printExplanation(w, report) }); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}

func printExplanation(w io.Writer, r *shardmove.Explanation) {
	fmt.Fprintf(w, "%s: table %s, key (%s), read now\n", r.Shard, r.Table, r.Key)
	found := 0
	for _, s := range r.Servers {
		if s.Found {
			found++
			continue
		}
		fmt.Fprintf(w, "  %s: no such row\n", s.Server)
	}
	for _, c := range r.Columns {
		fmt.Fprintf(w, "  %s\n", c.Column)
		for i, v := range c.Values {
			if v == nil {
				continue // said above
			}
			digest := ""
			if v.Digest != "" {
				digest = " (digest " + v.Digest + ")"
			}
			fmt.Fprintf(w, "      %s: %s%s\n", r.Servers[i].Server, v, digest)
		}
	}
	switch {
	case found == 0:
		fmt.Fprintln(w, "no server has such a row")
	case r.Equal:
		fmt.Fprintf(w, "the same on all %d servers\n", len(r.Servers))
	case len(r.Columns) == 0:
		fmt.Fprintln(w, "the same on the servers that have it")
	}
}
