package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/fleet"
	"github.com/vifl/vifl/workflows/shardmove"
)

// diffMode is what vifl diff does instead of a diff.
type diffMode struct {
	explain, accept, withdraw, accepted, reverse, last bool
	why                                                string
	spread                                             fleet.SpreadOptions
}

// name is the flag of the mode, empty for a diff; two modes at once are an error.
func (d *diffMode) name() (string, error) {
	name := ""
	for _, f := range []struct {
		set  bool
		flag string
	}{{d.explain, "--explain"}, {d.accept, "--accept-drift"}, {d.withdraw, "--withdraw-drift"}, {d.accepted, "--accepted-drift"}, {d.reverse && !d.last, "--reverse"}, {d.last, "--last"}, {d.spread.From != "" || d.spread.To != "", "--from"}} {
		switch {
		case f.set && name != "":
			return "", usageError{fmt.Errorf("%s and %s: give one of them", name, f.flag)}
		case f.set:
			name = f.flag
		}
	}
	return name, nil
}

func (d *diffMode) args(cmd *cobra.Command, args []string) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	switch name {
	case "--explain":
		if len(args) != 3 {
			return usageError{fmt.Errorf("--explain: found %d arguments, expected a shard number, a table and a key", len(args))}
		}
	case "--accept-drift", "--withdraw-drift":
		if len(args) < 3 {
			return usageError{fmt.Errorf("%s: found %d arguments, expected a shard number, a table and one key or more, each in single quotes", name, len(args))}
		}
	case "--from":
		if len(args) > 0 {
			return usageError{fmt.Errorf("--from and --to: found the argument %q, expected none: both sides are named by the flags", args[0])}
		}
		return nil
	default:
		return oneShard(cmd, args)
	}
	return oneShard(cmd, args[:1])
}

func (a *app) newDiffCommand() *cobra.Command {
	var o shardmove.DiffOptions
	var mode diffMode
	cmd := &cobra.Command{
		Use: "diff SHARD [--reverse | --last [--reverse] | --explain TABLE KEY | --accept-drift TABLE KEY... | --withdraw-drift TABLE KEY... | --accepted-drift] | --from SIDE --to SIDE --table TABLE", Short: "compare legacy and landing at one instant; equal gives a certificate",
		Long: `Compares side a with every tablet of the landing at one instant, and side b with side a, and
lists the rows that differ with both values. When nothing differs it writes a certificate.

With --reverse, behind a cutover, it compares the legacy, which the stream back keeps in step,
with the landing: a clean one is what vifl complete wants.

With --last it compares nothing, and prints the report of the last diff that ran to its end, as the
landing keeps it; exit code 4 when that one found differences.

With --explain it does not compare tables: it reads one row now, on both sides and every
tablet, and shows in whole the columns that differ. KEY is the key as a diff printed it; give
it in single quotes, and -- before a table or key that begins with a dash.

With --accept-drift it records that rows which differ between side a and side b may do so:
after a cutover Vitess has side a's row, and side b's content of it is given up. The record
holds for exactly what both sides have now; the next change of either row ends it. Only a new
diff takes it into account. --withdraw-drift takes it back, --accepted-drift lists what is
accepted.

With --from and --to, and no SHARD, it compares one table on two sides that are sharded
differently. A side is legacy shards (0123,0124) or a keyspace; every server is read as it is
now, and rows that differ are read again for --settle. It gives no certificate.`,
		Args: mode.args,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			name, err := mode.name()
			switch {
			case err != nil:
				return err
			case mode.reverse && o.Repair:
				return usageError{errors.New("--repair makes the landing equal to side a; behind a cutover it is the landing that counts: give only --reverse")}
			case name != "" && o.Repair:
				return usageError{fmt.Errorf("--repair is of a whole diff, %s of single rows: give one of them", name)}
			case o.Apply && !o.Repair:
				return usageError{errors.New("--apply is of --repair: give both")}
			case mode.why != "" && !mode.accept && !mode.withdraw:
				return usageError{errors.New("--why is of --accept-drift and --withdraw-drift")}
			case o.MaxRowsPerSecond < 0:
				return usageError{fmt.Errorf("--max-rows-per-second: found %d, expected 1 or more, or 0 for what vifl.yaml says", o.MaxRowsPerSecond)}
			case name == "--from" && (mode.spread.From == "" || mode.spread.To == "" || mode.spread.Table == ""):
				return usageError{errors.New("--from, --to and --table: give all three")}
			case name != "--from" && slices.ContainsFunc(spreadFlags, cmd.Flags().Changed):
				return usageError{fmt.Errorf("--%s are of --from and --to: give both", strings.Join(spreadFlags, ", --"))}
			case mode.spread.Settle < 0:
				return usageError{fmt.Errorf("--settle: found %s, expected a time above 0", mode.spread.Settle)}
			case o.MaxRows < 1:
				return usageError{fmt.Errorf("--max-rows: found %d, expected 1 or more", o.MaxRows)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if mode.spread.From != "" {
				mode.spread.MaxListed, mode.spread.MaxRowsPerSecond = o.MaxRows, o.MaxRowsPerSecond
				return a.diffSpread(cmd.Context(), mode.spread)
			}
			return a.withMove(cmd.Context(), args, func(ctx context.Context, m *shardmove.Move) error {
				switch {
				case mode.last:
					return a.lastDiff(ctx, m, mode.reverse)
				case mode.explain:
					return a.explainRow(ctx, m, args[1], args[2])
				case mode.accept, mode.withdraw, mode.accepted:
					return a.drift(ctx, m, mode, args[1:])
				}
				run, show := m.Diff, printDiff
				if mode.reverse {
					run, show = m.DiffBack, printDiffBack
				}
				report, err := run(ctx, o)
				if report != nil {
					if perr := a.print(report, func(w io.Writer) { show(w, m.Show(), report) }); perr != nil {
						return errors.Join(err, perr)
					}
					if len(report.Refusals) > 0 {
						return explained{err}
					}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "when rows differ, print the SQL that would make the landing equal to side a; runs it only with --apply")
	cmd.Flags().BoolVar(&o.Apply, "apply", false, "with --repair: run it on the landing's primary, with the values of a new cut; only before the cutover")
	cmd.Flags().BoolVar(&mode.reverse, "reverse", false, "behind a cutover: compare the legacy with the landing")
	cmd.Flags().BoolVar(&mode.last, "last", false, "compare nothing: print the report of the last diff (or, with --reverse, of that kind) again")
	cmd.Flags().BoolVar(&mode.explain, "explain", false, "read one row now on all servers and show what differs: --explain TABLE KEY")
	cmd.Flags().BoolVar(&mode.accept, "accept-drift", false, "accept that rows differ between side a and side b as they do now: --accept-drift TABLE KEY...")
	cmd.Flags().BoolVar(&mode.withdraw, "withdraw-drift", false, "take that back: --withdraw-drift TABLE KEY...")
	cmd.Flags().BoolVar(&mode.accepted, "accepted-drift", false, "list the accepted rows, and whether they still are what was accepted")
	cmd.Flags().StringVar(&mode.why, "why", "", "the reason for accepting or withdrawing, for the list and the history")
	cmd.Flags().IntVar(&o.MaxRowsPerSecond, "max-rows-per-second", 0, "read no more rows of side a in a second (default limits.diff_rows_per_second)")
	cmd.Flags().IntVar(&o.MaxRows, "max-rows", shardmove.DefaultMaxRows, "list so many differing rows of each tablet and of side b; more are only counted")
	cmd.Flags().StringVar(&mode.spread.From, "from", "", "legacy shards (0123,0124: side a of each) or a keyspace, to compare with --to")
	cmd.Flags().StringVar(&mode.spread.To, "to", "", "the same, of the other side")
	cmd.Flags().StringVar(&mode.spread.Table, "table", "", "with --from: the table")
	cmd.Flags().StringVar(&mode.spread.ToTable, "to-table", "", "with --from: the table's name on the other side, where it is another one")
	cmd.Flags().StringSliceVar(&mode.spread.Columns, "columns", nil, "with --from: compare only these columns, which both tables have")
	cmd.Flags().StringSliceVar(&mode.spread.Key, "key", nil, "with --from: the columns that tell rows apart (default: the table's key)")
	cmd.Flags().StringVar(&mode.spread.Where, "where", "", "with --from: an SQL condition for the rows of both tables")
	cmd.Flags().DurationVar(&mode.spread.Settle, "settle", 30*time.Second, "with --from: read rows that differ again for so long")
	return cmd
}

// spreadFlags are of no use without --from and --to.
var spreadFlags = []string{"table", "to-table", "columns", "key", "where", "settle"}

// drift accepts drift, withdraws or lists what was accepted. args are a table and keys.
func (a *app) drift(ctx context.Context, m *shardmove.Move, mode diffMode, args []string) error {
	var report *shardmove.DriftReport
	var err error
	did := "accepted"
	switch {
	case mode.accept:
		report, err = m.AcceptDrift(ctx, args[0], args[1:], mode.why)
	case mode.withdraw:
		did = "withdrawn"
		report, err = m.WithdrawDrift(ctx, args[0], args[1:], mode.why)
	default:
		report, err = m.AcceptedDrift(ctx)
	}
	if errors.Is(err, diff.ErrKey) || errors.Is(err, diff.ErrSame) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return a.print(report, func(w io.Writer) {
		if len(report.Rows) == 0 {
			fmt.Fprintf(w, "%s: no drift is accepted\n", report.Shard)
		}
		for _, r := range report.Rows {
			printAccepted(w, did, r)
		}
		if mode.accept {
			fmt.Fprintf(w, "after a cutover Vitess has side a's content of these rows; now: vifl diff %s\n", m.Number())
		}
	})
}

func printAccepted(w io.Writer, did string, r shardmove.AcceptedDrift) {
	status := ""
	switch r.Status {
	case "holds":
		status = "; both sides are as they were"
	case "void":
		status = "; VOID: a side has changed since"
	case "over":
		status = "; over: both sides are the same now"
	}
	if did == "accepted" {
		did = fmt.Sprintf("accepted by %s, %s", r.Who, ago(r.At))
	}
	fmt.Fprintf(w, "%s: key (%s): %s%s\n", r.Table, r.Key, did, status)
	if r.Newer != "" {
		fmt.Fprintf(w, "      side %s was written last by its %s\n", r.Newer, r.NewerBy)
	}
	if r.Why != "" {
		fmt.Fprintf(w, "      %s\n", r.Why)
	}
}

// lastDiff prints what the landing keeps of the last diff.
func (a *app) lastDiff(ctx context.Context, m *shardmove.Move, reverse bool) error {
	kept, err := m.LastDiff(ctx, reverse)
	if err != nil {
		return err
	}
	if err := a.print(kept, func(w io.Writer) {
		fmt.Fprintf(w, "the last diff, ended %s (%s):\n", ago(kept.At), kept.At.Format(time.RFC3339))
		if reverse {
			printDiffBack(w, kept.Shard, &kept.DiffReport)
		} else {
			printDiff(w, kept.Shard, &kept.DiffReport)
		}
	}); err != nil {
		return err
	}
	if kept.Different > 0 {
		return &shardmove.Different{Shard: kept.Shard, Rows: int64(kept.Different)}
	}
	return nil
}

func printDiff(w io.Writer, shard string, r *shardmove.DiffReport) {
	fmt.Fprintf(w, "diff of %s at %s: writes blocked %.1f ms\n", shard, r.Position, r.BlockedMillis)
	fmt.Fprintf(w, "%d tables, %d rows, %.0f rows/s; side a against %d tablet(s) and side b\n", r.Tables, r.Rows, r.RowsPerSecond, len(r.Tablets))
	printDifferences(w, r, "; no certificate")
	if r.Equal && r.Digest != "" {
		fmt.Fprintf(w, "equal at %s; certificate %s\n", r.Position, r.Digest)
	} else if r.Equal {
		fmt.Fprintf(w, "what was compared is equal at %s; no certificate\n", r.Position)
		printFindings(w, r.Refusals)
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
		printEntry(w, d)
	}
	if len(r.Accepted) > 0 {
		fmt.Fprintf(w, "%d row(s) of side b differ as they were accepted:\n", len(r.Accepted))
	}
	for _, d := range r.Accepted {
		printEntry(w, d)
	}
	if len(r.Unkeyed) > 0 {
		fmt.Fprintf(w, "without a key, compared with the tablets and not between the sides: %s\n", strings.Join(r.Unkeyed, ", "))
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
		atLeast := ""
		if t.AtLeast {
			atLeast = "at least "
		}
		fmt.Fprintf(w, "%s: %s%d row(s) differ: %s\n", t.Target, atLeast, t.Different, strings.Join(tables, ", "))
		if t.Listed < t.Different {
			fmt.Fprintf(w, "%s: only %d of them are listed, %d are only counted (--max-rows %d)\n", t.Target, t.Listed, t.Different-t.Listed, r.MaxRows)
		}
	}
	fmt.Fprintf(w, "%d row(s) differ%s\n", r.Different, so)
	printRepair(w, r)
}

func printEntry(w io.Writer, d shardmove.DiffEntry) {
	newer := ""
	if d.Newer != "" {
		newer = fmt.Sprintf("; side %s was written last by its %s", d.Newer, d.NewerBy)
	}
	if d.Copies > 0 {
		newer = fmt.Sprintf(", %d time(s)", d.Copies)
	}
	fmt.Fprintf(w, "  %s: %s: %s key (%s)%s\n", d.Target, d.Table, d.Kind, d.Key, newer)
	for _, c := range d.Columns {
		fmt.Fprintf(w, "      %s\n", c)
	}
}

// printRepair prints the statements with comments of SQL around them, so that they can be
// cut out and run as they are.
func printRepair(w io.Writer, r *shardmove.DiffReport) {
	for _, t := range r.Repair {
		if t.Problem != "" {
			fmt.Fprintf(w, "-- %s: no statements: %s\n", t.Target, strings.ReplaceAll(t.Problem, "\n", " "))
			continue
		}
		if t.AppliedAt != "" {
			fmt.Fprintf(w, "-- Repair of %s of %s: %d row(s) still differed at %s and have been repaired by this. Diff again.\n", t.Target, r.Shard, t.Applied, t.AppliedAt)
		} else {
			fmt.Fprintf(w, "-- Repair of %s of %s: nothing of this has been run. Values are those of side a at %s.\n", t.Target, r.Shard, r.Position)
			fmt.Fprintln(w, "-- Stop the stream, make sure that these rows have not been written since, run it on the primary, start the stream, diff again. Or --apply.")
		}
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
