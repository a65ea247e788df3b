// Package cert owns the certificate: the record that a diff at a cut found no difference,
// and of whom. It holds plain values and pure functions; who compares what, and when a
// certificate is too old or void, is decided elsewhere.
//
// A certificate carries a digest of itself. It guards against mistakes (a field edited by
// hand, a document half written or put together from two), not against malice: whoever can
// write the certificate can compute the digest.
package cert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/shardid"
)

// Format is the version of the certificate's layout. One of another layout is not read: it
// may promise less than it seems to.
const Format = 1

// ErrInvalid is returned, wrapped, for a certificate that must not be relied on.
var ErrInvalid = errors.New("the certificate does not hold")

// Server is the identity of a legacy server when it was compared.
type Server struct {
	ServerUUID string `json:"server_uuid"`
	Hostname   string `json:"hostname"`
	Host       string `json:"host"`
	Port       int    `json:"port"`
	ServerID   uint32 `json:"server_id"`
	Version    string `json:"version"`
	Database   string `json:"database"`
}

// Landing is the Vitess shard that was compared.
type Landing struct {
	Keyspace string `json:"keyspace"`
	// PrimaryAlias and PrimaryUUID are the primary's tablet alias and its MySQL's server_uuid
	// at the cut.
	PrimaryAlias string `json:"primary_alias"`
	PrimaryUUID  string `json:"primary_uuid"`
	// Tablets are all that were compared, the primary among them.
	Tablets []Tablet `json:"tablets"`
}

// Tablet is one tablet whose data was compared.
type Tablet struct {
	Alias      string `json:"alias"`
	ServerUUID string `json:"server_uuid"`
}

// Stream is what kept the landing in step. A stream that was made anew has another id.
type Stream struct {
	ID     int64            `json:"id"`
	Source string           `json:"source"` // the name of the external connection, or how it reads
	Start  position.FilePos `json:"start"`
}

// Table is what was compared of one table, equal on all sides.
type Table struct {
	Name string `json:"name"`
	Rows uint64 `json:"rows"`
	Sum  string `json:"sum"`
}

// Drift sums up the comparison of side b with side a. A certificate exists only where
// nothing was found but rows that were accepted, so Differing is 0.
type Drift struct {
	Rows      uint64 `json:"rows"`
	Differing uint64 `json:"differing"`
	// Rechecked counts keys that differed at first, while writes were under way, and no
	// longer did after both sides had applied each other's writes.
	Rechecked uint64 `json:"rechecked"`
	// Accepted are the rows that differ and that somebody accepted by name; they are not
	// among Differing.
	Accepted []AcceptedRow `json:"accepted,omitempty"`
}

// AcceptedRow is a row of which side a and side b hold different contents, and that somebody
// accepted as it was: the landing has side a's. It holds for exactly these two contents.
type AcceptedRow struct {
	Table string `json:"table"`
	Key   string `json:"key"` // in the form that a diff prints
	// A and B are the SHA-256 of the whole row on each side, in hex, empty where it had none.
	A string `json:"a"`
	B string `json:"b"`
	// Newer says which side a column told to have been written last, and which column: a or
	// b, empty where none told.
	Newer   string    `json:"newer,omitempty"`
	NewerBy string    `json:"newer_by,omitempty"`
	Who     string    `json:"who"` // user@host
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at"`
}

// Is reports the same acceptance: of the same contents, by the same person at the same time.
func (r AcceptedRow) Is(o AcceptedRow) bool {
	same := r.At.Equal(o.At)
	r.At = o.At // two forms of one instant are not equal to ==
	return same && r == o
}

// Certificate is the record. Fill it in, Seal it, store it; Verify it before use.
type Certificate struct {
	Format int        `json:"format"`
	Shard  shardid.ID `json:"shard"`
	A      Server     `json:"a"`
	// B is zero for a shard with one side.
	B Server `json:"b"`
	// StreamedUUID is the server_uuid of the one whose binlog the stream reads.
	StreamedUUID string           `json:"streamed_uuid"`
	Cut          position.FilePos `json:"cut"`
	Landing      Landing          `json:"landing"`
	Stream       Stream           `json:"stream"`
	// SchemaSource and SchemaTarget are the digests of the tables' definitions.
	SchemaSource string  `json:"schema_source"`
	SchemaTarget string  `json:"schema_target"`
	Tables       []Table `json:"tables"`
	// Differing is always 0; it is written down so that a reader need not guess.
	Differing uint64 `json:"differing"`
	Drift     Drift  `json:"drift"`
	// Inspected is how far the binlog was read for events that the stream would lose; it is
	// at or behind the cut.
	Inspected position.FilePos `json:"inspected"`
	// CutAt is when the cut was made, which is what the certificate's age is counted from;
	// Finished is when the comparison ended.
	CutAt    time.Time `json:"cut_at"`
	Finished time.Time `json:"finished"`
	Version  string    `json:"version"` // of vifl
	Digest   string    `json:"digest"`
}

// digest is the SHA-256, in hex, of the certificate as JSON without its digest. Fields are
// in the order of the struct, times in UTC, so the same values give the same bytes.
func (c Certificate) digest() (string, error) {
	c.Digest = ""
	c.CutAt, c.Finished = c.CutAt.UTC().Round(0), c.Finished.UTC().Round(0)
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("certificate of shard %s: %w", c.Shard, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Seal sets format and digest. It refuses to seal a certificate that leaves a question
// open, or one of sides that differ.
func (c *Certificate) Seal() error {
	c.Format = Format
	c.CutAt, c.Finished = c.CutAt.UTC().Round(0), c.Finished.UTC().Round(0)
	if err := c.complete(); err != nil {
		return err
	}
	d, err := c.digest()
	if err != nil {
		return err
	}
	c.Digest = d
	return nil
}

// Verify is nil when the certificate is whole and as it was sealed. It says nothing of
// whether it is about the right servers, nor of its age. The errors wrap ErrInvalid.
func (c *Certificate) Verify() error {
	if c.Format != Format {
		return fmt.Errorf("%w: shard %s: found format %d, expected %d: run the diff again with this vifl", ErrInvalid, c.Shard, c.Format, Format)
	}
	if err := c.complete(); err != nil {
		return err
	}
	d, err := c.digest()
	if err != nil {
		return err
	}
	if d != c.Digest {
		return fmt.Errorf("%w: shard %s: its digest is %.12s…, its contents give %.12s…: it was changed after it was sealed; run the diff again", ErrInvalid, c.Shard, c.Digest, d)
	}
	return nil
}

// complete is an error that names what is missing or says that rows differ.
func (c *Certificate) complete() error {
	var missing []string
	need := func(ok bool, name string) {
		if !ok {
			missing = append(missing, name)
		}
	}
	need(c.A.ServerUUID != "" && c.A.Database != "", "side a")
	need(c.StreamedUUID != "", "the streamed server")
	need(!c.Cut.IsZero(), "the cut's position")
	need(c.Landing.Keyspace != "" && c.Landing.PrimaryAlias != "" && c.Landing.PrimaryUUID != "", "the landing and its primary")
	need(len(c.Landing.Tablets) > 0, "the tablets compared")
	need(c.Stream.ID != 0 && c.Stream.Source != "" && !c.Stream.Start.IsZero(), "the stream")
	need(c.SchemaSource != "" && c.SchemaTarget != "", "the schema digests")
	need(len(c.Tables) > 0, "the tables") // a shard without any is the wrong database
	need(!c.Inspected.IsZero(), "how far the binlog was inspected")
	need(!c.CutAt.IsZero() && !c.Finished.IsZero(), "the times")
	need(c.Version != "", "vifl's version")
	for _, r := range c.Drift.Accepted {
		need(r.Table != "" && r.Key != "" && r.A != r.B && r.Who != "" && !r.At.IsZero(), "of an accepted row its table, key, two different contents, who and when")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: shard %s: not in it: %q", ErrInvalid, c.Shard, missing)
	}
	if c.Differing != 0 || c.Drift.Differing != 0 {
		return fmt.Errorf("%w: shard %s: %d row(s) of the landing and %d of side b differ", ErrInvalid, c.Shard, c.Differing, c.Drift.Differing)
	}
	return nil
}

// Age is how long before now the cut was made; what changed since is not covered.
func (c *Certificate) Age(now time.Time) time.Duration { return now.Sub(c.CutAt) }

// Rows is the number of rows of all tables.
func (c *Certificate) Rows() uint64 {
	var n uint64
	for _, t := range c.Tables {
		n += t.Rows
	}
	return n
}
