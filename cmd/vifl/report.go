package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/shardmove"
)

// reporter shows progress on stderr: a line that is drawn over on a terminal, a line every
// two seconds elsewhere.
type reporter struct {
	mu       sync.Mutex
	out      *os.File
	terminal bool
	last     time.Time
	drawn    bool
}

func newReporter(out *os.File) *reporter {
	return &reporter{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

const barWidth = 24

// Progress implements shardmove.Reporter.
func (r *reporter) Progress(p shardmove.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	every := 2 * time.Second
	if r.terminal {
		every = 100 * time.Millisecond
	}
	if time.Since(r.last) < every && !p.Final {
		return
	}
	r.last = time.Now()
	line := p.What
	if p.Total > 0 {
		share := min(p.Done/p.Total, 1)
		if r.terminal {
			full := int(share * barWidth)
			line += " [" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
		}
		line += fmt.Sprintf(" %3.0f%%", share*100)
	}
	if p.Detail != "" {
		line += "  " + p.Detail
	}
	if !r.terminal {
		fmt.Fprintln(r.out, "  "+line)
		return
	}
	fmt.Fprint(r.out, "\r\x1b[K  "+line)
	r.drawn = true
	if p.Final {
		r.endLine()
	}
}

func (r *reporter) endLine() {
	if r.drawn {
		fmt.Fprintln(r.out)
		r.drawn = false
	}
}

// Step implements shardmove.Reporter.
func (r *reporter) Step(t state.Timing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLine()
	fmt.Fprintf(r.out, "  %-44s %9.1f ms  %s\n", t.Name, t.Millis, t.Note)
}

// Note implements shardmove.Reporter.
func (r *reporter) Note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLine()
	fmt.Fprintf(r.out, "  "+format+"\n", args...)
}

// print writes a verb's result to stdout: as JSON, or by text.
func (a *app) print(v any, text func(io.Writer)) error {
	if a.output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	text(os.Stdout)
	return nil
}

// table writes aligned columns.
func table(w io.Writer, header []string, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush()
}
