package transaction

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// Reader reads the transactions of one database. Run it again after a broken connection;
// it is not for use by several goroutines.
type Reader struct {
	source   dump.Source
	database string
	tables   func(context.Context) (*schema.Schema, error)
	limit    int
	// Skip says of a transaction with a GTID, before anything of it is looked at, that it
	// shall be passed by: it then comes as a Part without changes. Its error ends Run. Nil
	// skips none. Set it before the first Run.
	Skip func(GTID) (bool, error)
	// Since is where to begin reading, nothing of it handed over, when Run's from is a place behind
	// which transactions are decided whose PREPARE this Reader has not read: the Pending of the part
	// that ended at from. Zero: there are none.
	Since position.FilePos

	// end is the End of the last part that was handed over and taken.
	end position.FilePos
	// prepared are distributed transactions, in order. They outlive a broken connection.
	prepared []*prepared
}

// New makes a reader of the database's transactions. tables tells what the database's tables
// look like; it is asked once in each Run, when the first of them is needed. A transaction
// is handed over in parts when it is larger than limit bytes.
func New(source dump.Source, database string, tables func(context.Context) (*schema.Schema, error), limit int) *Reader {
	return &Reader{source: source, database: database, tables: tables, limit: limit}
}

// Run follows the binlog over one connection and hands over its transactions in order. from
// must lie between two transactions. It returns when ctx ends (then ctx's cause), when the
// connection breaks (run it again from the End of the last part that was the Last of its
// transaction; parts behind that one are handed over again), when handle fails (its error),
// or at what waiting does not mend: an error for which dump.IsPermanent holds, or a
// *Blocked. A part stays as it is; what it holds must not be changed.
//
// An XA transaction that is prepared is kept with the Reader. Another one that reads on behind the
// PREPARE, without Since, is Blocked at the COMMIT.
func (r *Reader) Run(ctx context.Context, from position.FilePos, handle func(*Part) error) error {
	begin := from
	if from != r.end {
		if !r.Since.IsZero() && !r.knows(from) {
			c, err := position.Compare(r.Since, from)
			if err != nil {
				return dump.Permanent(fmt.Errorf("%s: reading the binlog from %s on, for what was prepared there and decided behind %s: %w", r.source.Target, r.Since, from, err))
			}
			if c < 0 {
				begin = r.Since
			}
		}
		r.rewind(begin)
	}
	s := &session{Reader: r, ctx: ctx, handle: handle, boundary: begin, mappings: map[uint64]*mapping{}}
	if begin != from {
		s.from = from
	}
	return r.source.Follow(ctx, begin, s.event)
}

// session is one connection's reading.
type session struct {
	*Reader
	ctx    context.Context
	handle func(*Part) error
	schema *schema.Schema // nil until needed

	from     position.FilePos // what ends up to there is not handed over; zero for none, or no more
	boundary position.FilePos // the last place between two transactions
	begun    bool             // inside BEGIN … COMMIT
	changes  []Change         // of the open transaction, those not handed over yet
	bytes    int
	handed   bool // parts of the open transaction were handed over
	xa       xaState
	gtid     GTID
	skipped  bool // the open transaction, or the one that begins, is passed by

	mappings   map[uint64]*mapping
	generation int // of table ids: they are given anew with every statement
	arena      arena
}

// mapping is what a table id stands for.
type mapping struct {
	raw        []byte // the event that said so
	generation int
	ours       bool
	name       string
	table      *table
}

func (s *session) blocked(kind, format string, args ...any) error {
	return &Blocked{At: s.boundary, Kind: kind, Why: fmt.Sprintf(format, args...)}
}

// broken is an error for what no server sends. Reading it again would not change it.
func (s *session) broken(e *dump.Event, format string, args ...any) error {
	return dump.Permanent(fmt.Errorf("%s: the binlog's %s that ends at %s: %w", s.source.Target, e.Type, e.End, fmt.Errorf(format, args...)))
}

func (s *session) event(e *dump.Event) error {
	if s.skipped {
		return s.passBy(e)
	}
	switch e.Type {
	case replication.TABLE_MAP_EVENT:
		return s.tableMap(e)
	case replication.WRITE_ROWS_EVENTv0, replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2,
		replication.UPDATE_ROWS_EVENTv0, replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2,
		replication.DELETE_ROWS_EVENTv0, replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return s.rows(e)
	case replication.PARTIAL_UPDATE_ROWS_EVENT:
		return s.partialUpdate(e)
	case replication.XID_EVENT:
		return s.commit(e)
	case replication.QUERY_EVENT:
		if text, err := dump.QueryText(e.Body); err != nil {
			return s.broken(e, "%w", err)
		} else if string(text) == "BEGIN" { // most of them; without memory
			return s.begin(e)
		}
		return s.query(e, false)
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		return s.query(e, true)
	case replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
		if s.begun {
			return s.broken(e, "another transaction begins before the one behind %s ended", s.boundary)
		}
		return s.identify(e)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return e.Payload(s.event)
	case replication.XA_PREPARE_LOG_EVENT:
		return s.xaPrepare(e)
	case replication.FORMAT_DESCRIPTION_EVENT, replication.PREVIOUS_GTIDS_EVENT, replication.STOP_EVENT, replication.ROTATE_EVENT:
		if s.begun {
			return s.broken(e, "the transaction behind %s is cut off", s.boundary)
		}
		s.generation++
		return s.settle(e)
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2,
		replication.ROWS_QUERY_EVENT, replication.IGNORABLE_EVENT,
		replication.TRANSACTION_CONTEXT_EVENT, replication.VIEW_CHANGE_EVENT: // the last two are group replication's
		return nil
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT,
		replication.BEGIN_LOAD_QUERY_EVENT, replication.APPEND_BLOCK_EVENT, replication.DELETE_FILE_EVENT:
		return nil // they belong to a statement, which is judged
	case replication.INCIDENT_EVENT:
		return s.blocked("INCIDENT", "the server says that its binlog lacks something: seed the landing again")
	}
	return s.blocked(fmt.Sprintf("event of type %d", byte(e.Type)), "what it does is not known: it may change data")
}

func (s *session) begin(e *dump.Event) error {
	if s.begun {
		return s.broken(e, "a transaction begins inside the one behind %s", s.boundary)
	}
	s.begun = true
	return nil
}

// commit ends the open transaction.
func (s *session) commit(e *dump.Event) error {
	if !s.begun {
		return s.broken(e, "a transaction ends that did not begin behind %s: the position is not between two transactions", s.boundary)
	}
	return s.end(e)
}

// end hands over what is left of a transaction that ends with e.
func (s *session) end(e *dump.Event) error {
	p := &Part{Changes: s.changes, Bytes: s.bytes, Last: true, End: e.End, GTID: s.gtid, Pending: s.pending()}
	if e.Timestamp != 0 {
		p.Committed = time.Unix(int64(e.Timestamp), 0).UTC()
	}
	s.reset()
	if err := s.hand(p); err != nil {
		// What is known of distributed transactions is so up to the last part that was taken.
		s.rewind(s.Reader.end)
		return err
	}
	s.boundary, s.Reader.end = e.End, e.End
	return nil
}

// hand hands a part over, unless it was applied before.
func (s *session) hand(p *Part) error {
	if s.from.IsZero() {
		return s.handle(p)
	}
	if !p.Last {
		return nil // a transaction that ends behind from begins there too
	}
	c, err := position.Compare(p.End, s.from)
	switch {
	case err != nil:
		return dump.Permanent(err)
	case c < 0:
		return nil
	case c == 0:
		s.from = position.FilePos{}
		return nil
	}
	return dump.Permanent(fmt.Errorf("%s: no transaction ends at %s in the binlog now: seed the landing again", s.source.Target, s.from))
}

func (s *session) reset() {
	s.begun, s.handed, s.changes, s.bytes, s.xa = false, false, nil, 0, xaState{}
	s.gtid, s.skipped = GTID{}, false
	s.generation++
}

// settle moves the position over an event that belongs to no transaction.
func (s *session) settle(e *dump.Event) error {
	if e.End == s.boundary {
		return nil
	}
	return s.end(e)
}

// discard drops the open transaction's changes, which never were.
func (s *session) discard() {
	s.changes, s.bytes = nil, 0
}

func (s *session) tableMap(e *dump.Event) error {
	if len(e.Body) < 8 {
		return s.broken(e, "it has %d bytes", len(e.Body))
	}
	id := dump.TableID(e.Body)
	if m := s.mappings[id]; m != nil && bytes.Equal(m.raw, e.Body) {
		m.generation = s.generation
		return nil
	}
	const many = 1000 // ids that are not used any more pile up
	if len(s.mappings) >= many {
		clear(s.mappings)
	}
	t, _, err := dump.ParseTableName(e.Body)
	if err != nil {
		return s.broken(e, "%w", err)
	}
	m := &mapping{raw: bytes.Clone(e.Body), generation: s.generation, name: t.Table}
	if t.Database != s.database {
		if strings.EqualFold(t.Database, s.database) {
			return s.blocked("rows of database "+t.Database, "its name differs from %s only in case: whether they are one is the server's setting", s.database)
		}
		s.mappings[id] = m
		return nil
	}
	m.ours = true
	if t, err = dump.ParseTableMap(e.Body); err != nil {
		return s.broken(e, "%w", err)
	}
	if s.schema == nil {
		if s.schema, err = s.tables(s.ctx); err != nil {
			return err
		}
	}
	definition := s.schema.Table(t.Table)
	if definition == nil {
		return s.blocked("rows of table "+t.Table, "there is no such table where they are carried to: it was made during the move: seed the landing again")
	}
	if m.table, err = newTable(definition, t); err != nil {
		return s.blocked("rows of table "+t.Table, "%v: the table was changed: seed the landing again", err)
	}
	s.mappings[id] = m
	return nil
}

// mapping is what the table id of a row event stands for; nil for the dummy id, which says
// only that a statement ends.
func (s *session) mapping(e *dump.Event) (*mapping, error) {
	const dummy = 0x00ffffff
	if len(e.Body) < 8 {
		return nil, s.broken(e, "it has %d bytes", len(e.Body))
	}
	if !s.begun {
		return nil, s.broken(e, "rows outside a transaction: the position %s is not between two transactions", s.boundary)
	}
	id := dump.TableID(e.Body)
	m := s.mappings[id]
	known := m != nil && m.generation == s.generation
	const statementEnds = 1
	if binary.LittleEndian.Uint16(e.Body[6:])&statementEnds != 0 {
		s.generation++
	}
	if id == dummy {
		return nil, nil
	}
	if !known {
		return nil, s.broken(e, "rows of a table that no event named before: the position %s is not between two transactions", s.boundary)
	}
	return m, nil
}

func (s *session) partialUpdate(e *dump.Event) error {
	m, err := s.mapping(e)
	if err != nil || m == nil || !m.ours {
		return err
	}
	return s.blocked("partial update of table "+m.name, "binlog_row_value_options is PARTIAL_JSON in a session: the row cannot be told from it")
}

func (s *session) rows(e *dump.Event) error {
	m, err := s.mapping(e)
	if err != nil || m == nil || !m.ours {
		return err
	}
	rows, err := dump.ParseRows(e.Type, e.Body)
	if err != nil {
		return s.broken(e, "%w", err)
	}
	if rows.Columns != len(m.table.columns) {
		return s.broken(e, "rows of %d columns, table %s has %d", rows.Columns, m.name, len(m.table.columns))
	}
	if rows.Missing > 0 {
		return s.blocked("incomplete rows of table "+m.name, "%d of %d columns are missing: binlog_row_image is not FULL in a session", rows.Missing, rows.Columns)
	}
	before, after := true, true
	switch e.Type {
	case replication.WRITE_ROWS_EVENTv0, replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		before = false
	case replication.DELETE_ROWS_EVENTv0, replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		after = false
	}
	for data := rows.Images; len(data) > 0; {
		c, size := Change{Table: m.table.definition}, 0
		if before {
			if c.Before, data, err = m.table.image(&s.arena, data, &size); err != nil {
				return s.notStored(e, m, err)
			}
		}
		if after {
			if c.After, data, err = m.table.image(&s.arena, data, &size); err != nil {
				return s.notStored(e, m, err)
			}
		}
		if err := s.add(c, size); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) notStored(e *dump.Event, m *mapping, err error) error {
	if u, ok := err.(unwritable); ok {
		return s.blocked("a row of table "+m.name, "%s", u)
	}
	return s.broken(e, "a row of table %s: %w", m.name, err)
}

// add takes in one row's change, and hands a part over when enough have come together.
func (s *session) add(c Change, size int) error {
	if s.xa.tooLarge {
		return nil
	}
	s.changes = append(s.changes, c)
	s.bytes += size
	if s.bytes <= s.limit || s.xa.name != "" && s.bytes <= s.limit*xaLimit {
		return nil
	}
	if s.xa.name != "" {
		// Whether it is committed is not known before its end.
		s.xa.tooLarge = true
		s.discard()
		return nil
	}
	p := &Part{Changes: s.changes, Bytes: s.bytes}
	s.discard()
	s.handed = true
	return s.hand(p)
}
