package inspect

import (
	"fmt"

	"github.com/vifl/vifl/pkg/position"
)

// Kind is why an event taints a stream.
type Kind string

// Kinds of taints. What Vitess 24's VReplication does with each was read in its source
// (go/mysql/flavor_filepos.go, vstreamer.go) and is shown by this repository's tests.
const (
	// Compressed: a TRANSACTION_PAYLOAD event. The whole transaction is dropped silently.
	Compressed Kind = "compressed transaction"
	// PartialUpdate: a PARTIAL_UPDATE_ROWS event. The change is dropped silently, or the
	// stream never gets past it.
	PartialUpdate Kind = "partial update of JSON"
	// PartialImage: a row event that lacks columns (binlog_row_image is not FULL).
	PartialImage Kind = "incomplete row image"
	// Logged: a change that was logged as a statement. It may do something else elsewhere.
	Logged Kind = "change logged as a statement"
	// Hidden: a statement that begins with #, which is skipped.
	Hidden Kind = "statement that begins with a comment"
	// Distributed: an XA transaction. The stream never gets past it.
	Distributed Kind = "XA transaction"
	// Incident: the server itself says that its binlog lacks something.
	Incident Kind = "incident"
	// Foreign: an event of a type that VReplication does not know, inside or outside a
	// transaction; with it the position is saved in the middle of a transaction.
	Foreign Kind = "event of an unknown type"
	// Ignored: a change of a table whose name Vitess keeps for itself, so that it is left
	// out.
	Ignored Kind = "table with a name that Vitess ignores"
	// Huge: a binlog of more than 4 GiB, whose positions VReplication cannot express.
	Huge Kind = "binlog larger than 4 GiB"
	// DDL: a change of the database's tables or other objects. The stream stops at it, or
	// skips it when the default database was another.
	DDL Kind = "DDL"
)

// Taint is an event that makes the stream beside it untrustworthy from there on.
type Taint struct {
	// Position is the end of the event.
	Position position.FilePos `json:"position"`
	Kind     Kind             `json:"kind"`
	// Detail says more, without data and passwords.
	Detail string `json:"detail,omitempty"`
}

// String is the taint for people.
func (t Taint) String() string {
	if t.Detail == "" {
		return fmt.Sprintf("%s at %s", t.Kind, t.Position)
	}
	return fmt.Sprintf("%s at %s: %s", t.Kind, t.Position, t.Detail)
}
