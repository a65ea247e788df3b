package seed

import (
	"time"

	"github.com/vifl/vifl/pkg/position"
)

// Phases of a seed, in their order.
const (
	PhasePrepare = "prepare" // folders, leftovers, scratch server
	PhaseCut     = "cut"     // snapshots and position
	PhaseFill    = "fill"    // rows, or the clone
	PhaseConvert = "convert" // accounts, record, binlogs
	PhaseBackup  = "backup"
	PhaseDone    = "done"
)

// Event is something to show while a seed runs. Totals are estimates and may be 0.
type Event struct {
	Phase      string           `json:"phase"`
	Message    string           `json:"message,omitempty"`
	BytesDone  uint64           `json:"bytes_done,omitempty"`
	BytesTotal uint64           `json:"bytes_total,omitempty"`
	RowsDone   uint64           `json:"rows_done,omitempty"`
	RowsTotal  uint64           `json:"rows_total,omitempty"`
	Tables     int              `json:"tables,omitempty"`
	TablesDone int              `json:"tables_done,omitempty"`
	Elapsed    time.Duration    `json:"elapsed_ns,omitempty"` // since the phase began
	Position   position.FilePos `json:"position,omitzero"`

	// The last event of a child has one of these.
	Result *Result `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Result is a finished seed.
type Result struct {
	Position     position.FilePos         `json:"position"`
	Rows         uint64                   `json:"rows"`
	Bytes        uint64                   `json:"bytes"`        // of row text, or of cloned data
	BackupBytes  uint64                   `json:"backup_bytes"` // in the backup storage
	Phases       map[string]time.Duration `json:"phases_ns"`
	Blocked      time.Duration            `json:"blocked_ns"` // how long the cut held writers up
	BackupName   string                   `json:"backup_name"`
	SchemaDigest string                   `json:"schema_digest"`
	ScratchUUID  string                   `json:"scratch_uuid"`
	Tables       map[string]uint64        `json:"tables"`             // rows by table
	LeftOut      []string                 `json:"left_out,omitempty"` // by name: triggers, other databases, …
}
