package diff

import (
	"fmt"
	"strings"
	"time"
)

// Kind says how a row differs, seen from the source.
type Kind string

// The kinds of differences.
const (
	Missing Kind = "missing" // on the source only
	Extra   Kind = "extra"   // on the target only
	Changed Kind = "changed" // on both, with other values
)

// Difference is one row that is not the same.
type Difference struct {
	Table string `json:"table"`
	// Key holds the columns of the table's key (schema.Table.RowKey) in key order, for people: numbers and dates bare,
	// text bare or, where that would be ambiguous, quoted as in Go, binary values as 0x and
	// hex digits, ENUM and SET by name, or as #NUMBER where the name is empty. Joined by ", "
	// it is what Explain takes. Of a row whose key is spelled differently on the two sides
	// (equal under the collation), it is the source's spelling.
	Key  []string `json:"key"`
	Kind Kind     `json:"kind"`
	// Copies is how many times more the side has a row, of a table without a key (see Unkeyed).
	// Such rows are missing or extra, never changed, and their Key is row: and the first half
	// of the row's SHA-256 in hex, which Explain does not take. 0 for other tables.
	Copies uint64 `json:"copies,omitempty"`
	// Columns are those that differ, or all of a row that one side only has.
	Columns []ColumnDifference `json:"columns,omitempty"`
	// Pair is the row on both sides by its digests. Only Drift and DriftOf fill it in.
	Pair Pair `json:"pair,omitzero"`
	// Newer is the side, "source" or "target", that a column says was written last, and
	// NewerBy that column; empty where none tells. Only Drift and DriftOf fill them in.
	Newer   string `json:"newer,omitempty"`
	NewerBy string `json:"newer_by,omitempty"`

	key keyValue // exact
	row hash     // of a table without a key
}

// rows is how many rows differ.
func (d *Difference) rows() uint64 { return max(d.Copies, 1) }

// KeyText is the key as one text, in the form that Explain takes.
func (d Difference) KeyText() string { return strings.Join(d.Key, ", ") }

// String is one line for an operator, without values.
func (d Difference) String() string {
	s := fmt.Sprintf("%s (%s) %s", d.Table, d.KeyText(), d.Kind)
	if d.Copies > 1 {
		s += fmt.Sprintf(" %d times", d.Copies)
	}
	if len(d.Columns) > 0 && d.Kind == Changed {
		names := make([]string, len(d.Columns))
		for i, c := range d.Columns {
			names[i] = c.Column
		}
		s += " in " + strings.Join(names, ", ")
	}
	return s
}

// TableReport is one table of one side.
type TableReport struct {
	Name string `json:"name"`
	Rows uint64 `json:"rows"`
	// Sum is the XOR of the rows' SHA-256, of a table without a key their sum modulo 2^256, in
	// hex. Two sides at one cut have the same when their rows are the same.
	Sum string `json:"sum"`
}

// TargetReport is what was found on one target.
type TargetReport struct {
	Name   string        `json:"name"`
	Tables []TableReport `json:"tables"`
	// Differing counts all differing rows, also those beyond the bound of Differences.
	Differing uint64 `json:"differing"`
	// AtLeast: Differing and ByTable are lower bounds, because a table without a key has more
	// rows that differ than are listed, and the rest was counted by sums.
	AtLeast bool `json:"at_least,omitempty"`
	// Differences are listed by table and in no further order, at most Options.MaxListed.
	Differences []Difference `json:"differences"`
	// ByTable counts the differing rows of each table that has some.
	ByTable map[string]uint64 `json:"by_table,omitempty"`
}

// Truncated reports that not all differing rows are listed.
func (t *TargetReport) Truncated() bool { return t.Listed() < t.Differing }

// Listed is how many differing rows are in Differences, each as often as it differs.
func (t *TargetReport) Listed() (n uint64) {
	for i := range t.Differences {
		n += t.Differences[i].rows()
	}
	return n
}

// Report is the outcome of a comparison that ran to its end.
type Report struct {
	Source string `json:"source"`
	// Tables are the source's, by name.
	Tables  []TableReport  `json:"tables"`
	Targets []TargetReport `json:"targets"`
	// Rows is the number of rows of the source.
	Rows uint64 `json:"rows"`
	// NotCompared are tables without a key, which Drift leaves out: a report with any is not
	// one of equality.
	NotCompared []string `json:"not_compared,omitempty"`
	// Accepted are the rows that differ as Options.Accepted says they may; they are not counted
	// among the differing ones.
	Accepted []Difference `json:"accepted,omitempty"`
	// Rechecked counts the keys that Drift had to read again because they differed at first.
	Rechecked uint64        `json:"rechecked,omitempty"`
	Elapsed   time.Duration `json:"elapsed_ns"`
}

// Differing is the number of differing rows, of all targets together.
func (r *Report) Differing() uint64 {
	var n uint64
	for i := range r.Targets {
		n += r.Targets[i].Differing
	}
	return n
}

// First is the first listed difference with its target, for a message; "" without one.
func (r *Report) First() string {
	for i := range r.Targets {
		if d := r.Targets[i].Differences; len(d) > 0 {
			return r.Targets[i].Name + ": " + d[0].String()
		}
	}
	return ""
}

// Equal reports that every target holds the source's rows and no others. A report that left
// a table out proves nothing of it, and is not equal.
func (r *Report) Equal() bool { return r.Differing() == 0 && len(r.NotCompared) == 0 }

// Progress is where a running comparison is.
type Progress struct {
	TablesDone, Tables int
	Rows               uint64 // of the source, compared so far
	RowsPerSecond      float64
	Differing          uint64 // found so far, of all targets together
	Paused             string // why nothing is read at the moment; empty while it is
}
