package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vifl/vifl/pkg/diff"
	"github.com/vifl/vifl/pkg/fleet"
	"github.com/vifl/vifl/workflows/shardmove"
)

// spreadDiffers is a comparison of two spread tables that found differing rows.
type spreadDiffers struct{ r *diff.SpreadReport }

func (e spreadDiffers) Error() string {
	return fmt.Sprintf("%s and %s: %d row(s) differ", e.r.From, e.r.To, e.r.Differing)
}

// diffSpread compares tables that are spread over servers by two rules.
func (a *app) diffSpread(ctx context.Context, o fleet.SpreadOptions) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	reporter := newReporter(os.Stderr)
	report, err := fleet.DiffSpread(ctx, c, o, func(p diff.Progress) {
		detail := fmt.Sprintf("%d rows, %.0f rows/s", p.Rows, p.RowsPerSecond)
		if p.Differing > 0 {
			detail += fmt.Sprintf("; %d key(s) still differ and are read again", p.Differing)
		}
		reporter.Progress(shardmove.Progress{What: "diff of " + o.Table, Detail: detail})
	})
	if errors.Is(err, diff.ErrSpread) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) { printSpread(w, report) }); err != nil {
		return err
	}
	if report.Differing > 0 {
		return spreadDiffers{report}
	}
	return nil
}

func printSpread(w io.Writer, r *diff.SpreadReport) {
	fmt.Fprintf(w, "diff of %s (%s) and %s (%s)\n", r.From, strings.Join(r.FromParts, ", "), r.To, strings.Join(r.ToParts, ", "))
	fmt.Fprintf(w, "columns %s; rows told apart by %s\n", strings.Join(r.Columns, ", "), strings.Join(r.KeyNames, ", "))
	fmt.Fprintf(w, "%d rows against %d, %.1f s; %d key(s) differed at first and were read again\n", r.FromRows, r.ToRows, r.Seconds, r.Rechecked)
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s key (%s): %s\n", d.Kind, d.KeyText(), places(d))
		for _, c := range d.Columns {
			fmt.Fprintf(w, "      %s\n", c)
		}
	}
	if n := uint64(len(r.Differences)); n < r.Differing {
		fmt.Fprintf(w, "only %d of them are listed, %d are only counted\n", n, r.Differing-n)
	}
	if r.Differing == 0 {
		fmt.Fprintln(w, "no row differs")
		return
	}
	fmt.Fprintf(w, "%d row(s) differ\n", r.Differing)
}

// places says on which servers a row is.
func places(d diff.SpreadDifference) string {
	from, to := strings.Join(d.From, ", "), strings.Join(d.To, ", ")
	switch {
	case from == "":
		return "only on " + to
	case to == "":
		return "only on " + from
	}
	return "on " + from + " and on " + to
}
