// Package state owns what vifl knows of a legacy shard: a document, a history and a lease,
// kept in the Vitess topo server under vifl/<keyspace>.
//
// Invariants: the document is written by compare-and-swap of its version, by the holder of
// the shard's lease only; the epoch in it grows by one with every acquisition, so what a
// former owner still sends can be told apart and refused; no secret is ever stored.
package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"time"

	"vitess.io/vitess/go/vt/topo"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
)

// Phase is where a shard's move stands. A step in progress is Shard.Step, not a phase.
type Phase string

// The phases. They are compared by name, never by order.
const (
	New         Phase = "new"
	Preflighted Phase = "preflighted"
	Seeded      Phase = "seeded"
	Syncing     Phase = "syncing"
	Validated   Phase = "validated"
	Switched    Phase = "switched"
	Completed   Phase = "completed"
	Aborted     Phase = "aborted"
)

// format is the version of the document's layout. A document of a newer layout is refused:
// writing it back would lose what this program does not know.
const format = 1

// Shard is the document of one legacy shard.
type Shard struct {
	Format   int        `json:"format"`
	Shard    shardid.ID `json:"shard"`
	Keyspace string     `json:"keyspace"`
	Phase    Phase      `json:"phase"`
	Step     *Step      `json:"step,omitempty"`
	Epoch    uint64     `json:"epoch"`
	Owner    string     `json:"owner,omitempty"` // who wrote last

	Audit       *Audit            `json:"audit,omitempty"`
	Preflight   *Preflight        `json:"preflight,omitempty"`
	Seed        *Seed             `json:"seed,omitempty"`
	Stream      *Stream           `json:"stream,omitempty"`
	Certificate *cert.Certificate `json:"certificate,omitempty"`
	// CertificateVoid says why the certificate no longer counts; empty while it does.
	CertificateVoid string   `json:"certificate_void,omitempty"`
	Attempt         *Attempt `json:"attempt,omitempty"`
	Switch          *Switch  `json:"switch,omitempty"`
	Reverse         *Reverse `json:"reverse,omitempty"`
	Hold            *Hold    `json:"hold,omitempty"`
	// AcceptedDrift are rows that differ between the legacy's sides and that somebody accepted.
	AcceptedDrift []cert.AcceptedRow `json:"accepted_drift,omitempty"`
	// LegacyWrites lists every change vifl made on a legacy server, with its undo.
	LegacyWrites []LegacyWrite `json:"legacy_writes,omitempty"`
}

// Step is work in progress: a verb and how far it came.
type Step struct {
	Verb    string    `json:"verb"`
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
}

// Audit is the outcome of the last audit of the shard's queries that was kept. It holds no query:
// those are in the audit's own output.
type Audit struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	Vitess string    `json:"vitess"` // the version whose planner judged
	Inputs []string  `json:"inputs"`
	// Calls is all calls, Judged those that could be judged, Queries how many distinct ones.
	Calls   uint64 `json:"calls"`
	Judged  uint64 `json:"judged"`
	Queries int    `json:"queries"`
	// Breaks are the findings whose queries fail on a landing, or mean something else there.
	Breaks []AuditFinding `json:"breaks,omitempty"`
}

// AuditFinding is one kind of finding of an audit.
type AuditFinding struct {
	ID    string `json:"id"` // L03: stable, documented in docs/audit.md
	Title string `json:"title"`
	Calls uint64 `json:"calls"`
}

// Preflight is the outcome of the last preflight.
type Preflight struct {
	At       time.Time `json:"at"`
	Stream   string    `json:"stream"` // the kind picked
	Why      string    `json:"why"`
	Warnings int       `json:"warnings"`
	Refused  int       `json:"refused"`
}

// Seed is the outcome of the seed whose backup the landing restored.
type Seed struct {
	At           time.Time        `json:"at"`
	Method       string           `json:"method"`
	SourceA      cert.Server      `json:"source_a"`
	SourceB      cert.Server      `json:"source_b"`
	StreamSide   string           `json:"stream_side"`
	Database     string           `json:"database"`
	Position     position.FilePos `json:"position"`
	SchemaDigest string           `json:"schema_digest"`
	Backup       string           `json:"backup"`
	Bytes        int64            `json:"bytes"`
	Rows         int64            `json:"rows"`
	Seconds      float64          `json:"seconds"`
}

// Kinds of streams.
const (
	VReplication = "vreplication" // Vitess' own, from an external MySQL by file and offset
	Binlog       = "binlog"       // vifl's own
)

// Stream is the stream that keeps the landing in step.
type Stream struct {
	Kind       string           `json:"kind"`
	ID         int64            `json:"id"`
	Side       string           `json:"side"`
	Connection string           `json:"connection"`
	Start      position.FilePos `json:"start"`
	// Inspected is how far the binlog was read for events that the stream would lose.
	Inspected position.FilePos `json:"inspected"`
	// Halted says who stopped the stream on purpose; empty while it is meant to run.
	Halted string `json:"halted,omitempty"`
	// Taints are such events. One is enough: they are never taken back.
	Taints []Taint `json:"taints,omitempty"`
}

// Taint is one event that the stream lost or cannot apply.
type Taint struct {
	Position position.FilePos `json:"position"`
	Kind     string           `json:"kind"`
	Detail   string           `json:"detail"`
}

// Flags are a legacy server's own as they were found before a freeze.
type Flags struct {
	ReadOnly      bool `json:"read_only"`
	SuperReadOnly bool `json:"super_read_only"`
	OfflineMode   bool `json:"offline_mode"`
}

// Frozen is one side that a freeze has closed, or is about to close.
type Frozen struct {
	Side   string `json:"side"`
	Server string `json:"server_uuid"`
	Found  Flags  `json:"found"`
}

// Attempt is a rehearsal, cutover or rollback under way or interrupted: what a new owner must
// undo or finish. It is nil when nothing is frozen.
type Attempt struct {
	Verb    string    `json:"verb"`
	Epoch   uint64    `json:"epoch"`
	Started time.Time `json:"started"`
	Frozen  []Frozen  `json:"frozen,omitempty"`
	// OneWay says that a cutover makes no stream back.
	OneWay bool `json:"one_way,omitempty"`
	// FenceOpen says that the landing was, or was about to be, opened for writes.
	FenceOpen bool `json:"fence_open,omitempty"`
	// NoUndo is set before the change of mains is attempted: from here only forward.
	NoUndo bool `json:"no_undo,omitempty"`
	// Final is the position at which the stream had to stop; of a rollback, that of side a
	// from which the landing follows it again.
	Final position.FilePos `json:"final"`
	// LandingGTID is what the landing had executed when it was about to be opened: a stream
	// back starts there, also when another vifl ends the cutover. Of a rollback it is what it
	// had executed when it was frozen.
	LandingGTID string `json:"landing_gtid,omitempty"`
}

// Switch is a cutover that happened.
type Switch struct {
	At          time.Time        `json:"at"`
	Final       position.FilePos `json:"final"`
	LandingGTID string           `json:"landing_gtid"` // executed by the landing when it opened
	Frozen      []Frozen         `json:"frozen"`       // the flags a rollback would restore
	PauseMillis float64          `json:"pause_ms"`
}

// Reverse is the stream back, from the landing to the legacy, that a cutover made.
type Reverse struct {
	Start string `json:"start"` // the landing's GTIDs that it began behind
	Side  string `json:"side"`  // that it writes to
	// Ended says how the end of the move has ended it; empty while it is wanted.
	Ended string `json:"ended,omitempty"`
	// Diff is the last comparison of the legacy with the landing.
	Diff *ReverseDiff `json:"diff,omitempty"`
}

// ReverseDiff is a comparison of both sides of the legacy with the landing.
type ReverseDiff struct {
	At        time.Time `json:"at"` // of the cut
	Tablet    string    `json:"tablet"`
	Position  string    `json:"position"` // in that tablet's binlog
	Tables    int       `json:"tables"`
	Rows      uint64    `json:"rows"`
	Differing uint64    `json:"differing"`
}

// Timing is how long one step took.
type Timing struct {
	Name   string  `json:"name"`
	Millis float64 `json:"ms"`
	Note   string  `json:"note,omitempty"`
}

// Hold forbids a cutover until it is taken back.
type Hold struct {
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// LegacyWrite is a change that vifl made on a legacy server.
type LegacyWrite struct {
	Server string `json:"server"`
	What   string `json:"what"`
	// Undo is the SQL statement that takes the change back.
	Undo string    `json:"undo"`
	At   time.Time `json:"at"`
	// Kept changes stay when the move is completed: the legacy is kept closed.
	Kept bool `json:"kept,omitempty"`
	// Temporary changes end with the command that made them, or with the next one.
	Temporary bool `json:"temporary,omitempty"`
}

// Event is one line of a shard's history.
type Event struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	Verb   string    `json:"verb"`
	From   Phase     `json:"from"`
	To     Phase     `json:"to"`
	What   string    `json:"what"`
	Millis float64   `json:"ms,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// ErrConflict means that somebody else wrote the document in between.
var ErrConflict = errors.New("the shard's state was changed by somebody else")

// Store reads and writes documents.
type Store struct{ conn topo.Conn }

// Open uses the global cell of the fleet's topo server.
func Open(ctx context.Context, ts *topo.Server) (*Store, error) {
	conn, err := ts.ConnForCell(ctx, topo.GlobalCell)
	if err != nil {
		return nil, fmt.Errorf("open the state store in the topo server: %w", err)
	}
	return &Store{conn: conn}, nil
}

func dir(keyspace string) string { return path.Join("vifl", keyspace) }

// Load reads a shard's document. A shard that was never touched is New, with a nil version.
func (s *Store) Load(ctx context.Context, id shardid.ID, keyspace string) (*Shard, topo.Version, error) {
	raw, version, err := s.conn.Get(ctx, path.Join(dir(keyspace), "state"))
	if topo.IsErrType(err, topo.NoNode) {
		return &Shard{Format: format, Shard: id, Keyspace: keyspace, Phase: New}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("shard %s (%s): read its state: %w", id, keyspace, err)
	}
	var doc Shard
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fmt.Errorf("shard %s (%s): its state in the topo server cannot be read: %w", id, keyspace, err)
	}
	if doc.Format > format {
		return nil, nil, fmt.Errorf("shard %s (%s): its state has format %d, this vifl knows %d: use the newer vifl", id, keyspace, doc.Format, format)
	}
	if doc.Shard != id {
		return nil, nil, fmt.Errorf("shard %s (%s): the state there is of shard %s: two shards share a keyspace name, check landing.keyspace", id, keyspace, doc.Shard)
	}
	return &doc, version, nil
}

// save writes the document if its version is still the one given (nil: it must not exist).
func (s *Store) save(ctx context.Context, doc *Shard, version topo.Version) (topo.Version, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("shard %s: encode its state: %w", doc.Shard, err)
	}
	file := path.Join(dir(doc.Keyspace), "state")
	if version == nil {
		version, err = s.conn.Create(ctx, file, raw)
	} else {
		version, err = s.conn.Update(ctx, file, raw, version)
	}
	switch {
	case topo.IsErrType(err, topo.BadVersion), topo.IsErrType(err, topo.NodeExists), topo.IsErrType(err, topo.NoNode):
		return nil, fmt.Errorf("shard %s (%s): %w: run the command again", doc.Shard, doc.Keyspace, ErrConflict)
	case err != nil:
		return nil, fmt.Errorf("shard %s (%s): write its state: %w", doc.Shard, doc.Keyspace, err)
	}
	return version, nil
}

// List is the keyspaces that have a document, sorted.
func (s *Store) List(ctx context.Context) ([]string, error) {
	entries, err := s.conn.ListDir(ctx, "vifl", false)
	if topo.IsErrType(err, topo.NoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the shards in the state store: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	sort.Strings(names)
	return names, nil
}

// History reads a shard's history, oldest first.
func (s *Store) History(ctx context.Context, keyspace string) ([]Event, error) {
	folder := path.Join(dir(keyspace), "history")
	entries, err := s.conn.ListDir(ctx, folder, false)
	if topo.IsErrType(err, topo.NoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: list its history: %w", keyspace, err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	sort.Strings(names)
	events := make([]Event, 0, len(names))
	for _, name := range names {
		raw, _, err := s.conn.Get(ctx, path.Join(folder, name))
		if err != nil {
			return nil, fmt.Errorf("%s: read its history: %w", keyspace, err)
		}
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("%s: history entry %s cannot be read: %w", keyspace, name, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Append adds a line to a shard's history.
func (s *Store) Append(ctx context.Context, keyspace string, e Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("%s: encode a history entry: %w", keyspace, err)
	}
	// Fixed width, so that the names' order is the order of time. Create fails on a name
	// that exists, so two writers within one nanosecond do not overwrite one another.
	for range 10 {
		name := e.At.UTC().Format("20060102T150405.000000000")
		_, err = s.conn.Create(ctx, path.Join(dir(keyspace), "history", name), raw)
		if !topo.IsErrType(err, topo.NodeExists) {
			break
		}
		e.At = e.At.Add(time.Nanosecond)
	}
	if err != nil {
		return fmt.Errorf("%s: write its history: %w", keyspace, err)
	}
	return nil
}
