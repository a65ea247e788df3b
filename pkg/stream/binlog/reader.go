package binlog

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/inspect"
)

const (
	// pieceBytes is how much of a transaction is held before it is handed over in pieces.
	pieceBytes = 8 << 20
	// preparedBytes bounds what prepared transactions hold until they are decided.
	preparedBytes = 64 << 20
)

// reader turns events into transactions and hands them to the pipe. What may change the
// database and is not understood ends it with an error, before anything behind it is handed
// over.
type reader struct {
	database string
	tables   map[string]*table // by name, as the target has them
	charsets charsets
	pipe     *pipe
	// from is where the stream stands: transactions that end there or before were applied.
	// Reading may begin earlier, to find those that were prepared and not decided.
	from position.FilePos
	born uint32 // when from's file was begun; 0 when not known
	live bool   // behind from

	named map[uint64]*named

	// The open group of events: a transaction, or a statement of its own.
	open     bool
	begun    bool // inside BEGIN … COMMIT
	xid      string
	boundary position.FilePos // the last place between two groups
	start    position.FilePos // where the open group began
	changes  []change
	bytes    int
	pieces   bool // a part of it was handed over
	marks    []savepoint

	prepared map[string]*prepared
	held     int
	fileBorn uint32
	scratch  []byte
}

// named is a table map that was seen, so that the next one with the same text costs nothing.
type named struct {
	raw  []byte
	t    *table // nil: of another database
	name string
}

type savepoint struct {
	name string
	at   int // how many changes were before it
	lost bool
}

// prepared is a transaction of two phases after its first.
type prepared struct {
	changes []change
	bytes   int
	start   position.FilePos
}

// blocked makes the error for what cannot be carried over.
func blocked(kind, why string, args ...any) error {
	return dump.Permanent(blockedError{kind, fmt.Sprintf(why, args...)})
}

// past reports an event that was applied before: it is read again only for what is prepared.
func (r *reader) past(e *dump.Event) bool {
	if !r.live {
		c, err := position.Compare(e.End, r.from)
		r.live = err != nil || c > 0
	}
	return !r.live
}

func (r *reader) handle(ctx context.Context, e *dump.Event) error {
	switch e.Type {
	case replication.FORMAT_DESCRIPTION_EVENT:
		return r.file(ctx, e)
	case replication.PREVIOUS_GTIDS_EVENT, replication.STOP_EVENT, replication.ROTATE_EVENT:
		return r.between(ctx, e)
	case replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
		r.begin()
	case replication.QUERY_EVENT:
		return r.query(ctx, e, false)
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		return r.query(ctx, e, true)
	case replication.XID_EVENT:
		return r.commit(ctx, e)
	case replication.XA_PREPARE_LOG_EVENT:
		return r.prepare(ctx, e)
	case replication.TABLE_MAP_EVENT:
		return r.tableMap(e)
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		return r.rows(ctx, e, opInsert)
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2:
		return r.rows(ctx, e, opUpdate)
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return r.rows(ctx, e, opDelete)
	case replication.PARTIAL_UPDATE_ROWS_EVENT:
		return r.partial(e)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return e.Payload(func(inner *dump.Event) error { return r.handle(ctx, inner) })
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT,
		replication.BEGIN_LOAD_QUERY_EVENT, replication.APPEND_BLOCK_EVENT, replication.DELETE_FILE_EVENT:
		// They belong to the statement behind them, which is judged by itself.
	case replication.ROWS_QUERY_EVENT, replication.IGNORABLE_EVENT, replication.TRANSACTION_CONTEXT_EVENT, replication.VIEW_CHANGE_EVENT:
	default:
		if e.Ignorable || r.past(e) {
			return nil
		}
		return blocked(fmt.Sprintf("event of type %d (%s)", byte(e.Type), e.Type), "it may change data, and is not known: reseed the landing, or stop what writes such events")
	}
	return nil
}

// file begins a binlog file. The one that the stream stands in must be the very file that it
// stood in before: a server that was restored from a backup has the same identity and the
// same file names.
func (r *reader) file(ctx context.Context, e *dump.Event) error {
	clear(r.named)
	if e.End.File == r.from.File && r.born != 0 && e.Timestamp != r.born {
		return dump.Permanent(fmt.Errorf("binlog %s was begun at %s, and the one that the stream read at %s: %w: the server was restored or its binlogs were reset: seed again",
			e.End.File, seconds(e.Timestamp), seconds(r.born), dump.ErrOtherServer))
	}
	r.fileBorn = e.Timestamp
	return r.between(ctx, e)
}

func seconds(t uint32) string { return time.Unix(int64(t), 0).UTC().Format(time.DateTime) }

// between is called at events that lie between transactions.
func (r *reader) between(ctx context.Context, e *dump.Event) error {
	if e.MadeUp && e.End == r.boundary {
		return nil
	}
	if r.begun || r.open {
		// The server went down inside a transaction: it is not in the binlog as a whole,
		// and was rolled back.
		r.drop()
		if r.pieces {
			r.pieces = false
			if err := r.pipe.abandon(ctx); err != nil {
				return err
			}
		}
	}
	r.boundary = e.End
	return r.move(ctx, e, nil, 0)
}

// begin opens a group.
func (r *reader) begin() {
	r.drop()
	r.open, r.start = true, r.boundary
}

func (r *reader) drop() {
	r.open, r.begun, r.xid = false, false, ""
	r.changes, r.bytes, r.marks = nil, 0, nil
}

// move hands over a transaction, or that there is nothing up to the event's end.
func (r *reader) move(ctx context.Context, e *dump.Event, changes []change, committed uint32) error {
	if r.past(e) {
		return nil
	}
	t := transaction{changes: changes, end: e.End, readFrom: r.readFrom(e.End), born: r.fileBorn}
	if committed > 0 {
		t.committed = time.Unix(int64(committed), 0).UTC()
	}
	last := r.pieces
	r.pieces = false
	if last {
		return r.pipe.lastPiece(ctx, t)
	}
	return r.pipe.put(ctx, t)
}

// readFrom is where the oldest prepared transaction began, or end when there is none.
func (r *reader) readFrom(end position.FilePos) position.FilePos {
	from := end
	for _, p := range r.prepared {
		if c, err := position.Compare(p.start, from); err == nil && c < 0 {
			from = p.start
		}
	}
	return from
}

// commit ends the open transaction.
func (r *reader) commit(ctx context.Context, e *dump.Event) error {
	changes := r.changes
	r.drop()
	r.boundary = e.End
	return r.move(ctx, e, changes, e.Timestamp)
}

// rollback ends the open transaction without its changes.
func (r *reader) rollback(ctx context.Context, e *dump.Event) error {
	if r.pieces {
		r.pieces = false
		if err := r.pipe.abandon(ctx); err != nil {
			return err
		}
	}
	r.drop()
	r.boundary = e.End
	return r.move(ctx, e, nil, 0)
}

func (r *reader) query(ctx context.Context, e *dump.Event, load bool) error {
	q, err := dump.ParseQuery(e.Body, load)
	if err != nil {
		return dump.Permanent(err)
	}
	switch sql := q.SQL; {
	case sql == "BEGIN":
		r.begun = true
		return nil
	case sql == "COMMIT":
		return r.commit(ctx, e)
	case sql == "ROLLBACK":
		return r.rollback(ctx, e)
	case strings.HasPrefix(sql, "ROLLBACK TO "):
		return r.rollbackTo(strings.TrimPrefix(sql, "ROLLBACK TO "))
	case strings.HasPrefix(sql, "SAVEPOINT "):
		r.marks = append(r.marks, savepoint{name: strings.TrimPrefix(sql, "SAVEPOINT "), at: len(r.changes), lost: false})
		return nil
	case strings.HasPrefix(sql, "XA "):
		return r.xa(ctx, e, sql)
	}
	if r.past(e) {
		return r.statementEnds(ctx, e, q.SQL)
	}
	class, kind := inspect.Statement(q.SQL, q.Database, r.database)
	switch class {
	case inspect.Begin:
		r.begun = true
		return nil
	case inspect.End:
		return r.commit(ctx, e)
	case inspect.Change:
		if q.Known && !contains(q.Databases, r.database) {
			break
		}
		return blocked(kind, "it was logged as a statement (binlog_format was STATEMENT or MIXED in its session), which may do something else here: set binlog_format=ROW everywhere, and seed again")
	case inspect.Definition:
		if isRoutine(q.SQL) {
			break // it has no rows; which routines there are is compared elsewhere
		}
		return blocked(kind, "it is a DDL on the shard's tables, and none may run during the move: abort and seed again")
	case inspect.Unknown, inspect.XA:
		return blocked(kind, "what it does is not known: seed again")
	}
	return r.statementEnds(ctx, e, q.SQL)
}

// statementEnds ends the group of a statement that is a transaction of its own. CREATE TABLE
// … SELECT has its rows behind it.
func (r *reader) statementEnds(ctx context.Context, e *dump.Event, sql string) error {
	if r.begun {
		return nil
	}
	if strings.HasPrefix(sql, "CREATE") && strings.Contains(sql, " START TRANSACTION") {
		r.begun = true
		return nil
	}
	return r.commit(ctx, e)
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// rollbackTo undoes what came behind a savepoint. The server logs it when something behind
// the savepoint cannot be undone; otherwise it leaves the rows out by itself.
func (r *reader) rollbackTo(name string) error {
	name = strings.TrimPrefix(name, "SAVEPOINT ")
	for i := len(r.marks) - 1; i >= 0; i-- {
		if m := r.marks[i]; m.name == name {
			if m.lost {
				return blocked("ROLLBACK TO", "the transaction is larger than %d MB, and a part of what it undoes was handed over before: seed again", pieceBytes>>20)
			}
			for _, c := range r.changes[m.at:] {
				r.bytes -= c.bytes()
			}
			r.changes, r.marks = r.changes[:m.at], r.marks[:i+1]
			return nil
		}
	}
	return blocked("ROLLBACK TO", "its savepoint was not seen: seed again")
}

func (r *reader) tableMap(e *dump.Event) error {
	m, _, err := dump.ParseTableName(e.Body)
	if err != nil {
		return dump.Permanent(err)
	}
	if n := r.named[m.ID]; n != nil && bytes.Equal(n.raw, e.Body) {
		return nil
	}
	n := &named{raw: bytes.Clone(e.Body), name: m.Table}
	r.named[m.ID] = n
	if !strings.EqualFold(m.Database, r.database) || r.past(e) && r.xid == "" {
		if strings.EqualFold(m.Database, r.database) {
			delete(r.named, m.ID) // looked at when it counts
		}
		return nil
	}
	t := r.tables[m.Table]
	if t == nil {
		return blocked("rows of table "+m.Table, "the landing has no such table: it was made during the move: seed again")
	}
	full, err := dump.ParseTableMap(e.Body)
	if err != nil {
		return dump.Permanent(err)
	}
	if n.t, err = t.match(&full, r.charsets); err != nil {
		return dump.Permanent(blockedError{"rows of table " + m.Table, err.Error()})
	}
	return nil
}

func (r *reader) partial(e *dump.Event) error {
	id, err := dump.TableID(e.Body)
	if err != nil {
		return dump.Permanent(err)
	}
	if n := r.named[id]; n != nil && n.t == nil || r.past(e) {
		return nil
	}
	return blocked("partial update of JSON", "binlog_row_value_options is PARTIAL_JSON in a session: the change is not whole in the binlog: turn it off everywhere, and seed again")
}

func (r *reader) rows(ctx context.Context, e *dump.Event, op byte) error {
	if r.past(e) && r.xid == "" {
		return nil
	}
	ev, err := dump.ParseRows(e.Type, e.Body)
	if err != nil {
		return dump.Permanent(err)
	}
	if ev.Dummy {
		return nil
	}
	n := r.named[ev.TableID]
	if n == nil {
		return dump.Permanent(fmt.Errorf("rows of a table that no event named before, at %s: the position is not between two transactions", e.End))
	}
	if n.t == nil {
		return nil
	}
	if ev.Missing > 0 {
		return blocked("incomplete row image", "table %s: %d of %d columns: binlog_row_image is not FULL in a session: set it to FULL everywhere, and seed again", n.name, ev.Columns-ev.Missing, ev.Columns)
	}
	if ev.Columns != len(n.t.cells) {
		return dump.Permanent(fmt.Errorf("table %q: rows of %d columns, expected %d", n.name, ev.Columns, len(n.t.cells)))
	}
	for b := ev.Images; len(b) > 0; {
		c := change{t: n.t, op: op}
		if op != opInsert {
			if c.before, b, err = n.t.read(b, false, &r.scratch); err != nil {
				return blocked("rows of table "+n.name, "%v", err)
			}
		}
		if op != opDelete {
			if c.after, b, err = n.t.read(b, true, &r.scratch); err != nil {
				return blocked("rows of table "+n.name, "%v", err)
			}
		}
		r.changes = append(r.changes, c)
		r.bytes += c.bytes()
		if r.bytes > pieceBytes && r.xid == "" {
			if err := r.piece(ctx); err != nil {
				return err
			}
		}
	}
	if r.xid != "" && r.held+r.bytes > preparedBytes {
		return blocked("XA transaction", "prepared transactions take more than %d MB until they are decided: commit or roll them back on the legacy, and seed again", preparedBytes>>20)
	}
	return nil
}

// piece hands over what the open transaction has so far.
func (r *reader) piece(ctx context.Context) error {
	changes := r.changes
	r.changes, r.bytes, r.pieces = nil, 0, true
	for i := range r.marks {
		r.marks[i].lost = true
	}
	return r.pipe.piece(ctx, changes)
}

// xa handles the statements of transactions in two phases. Their changes lie between XA
// START and XA END, end with XA PREPARE, and count when a later XA COMMIT names them.
func (r *reader) xa(ctx context.Context, e *dump.Event, sql string) error {
	words := strings.SplitN(sql, " ", 3)
	if len(words) < 3 {
		return blocked("XA", "a statement that is not known")
	}
	id, err := xaID(words[2])
	if err != nil {
		return blocked("XA "+words[1], "%v", err)
	}
	switch words[1] {
	case "START", "BEGIN":
		r.begun, r.xid = true, id
		return nil
	case "END":
		return nil
	case "COMMIT", "ROLLBACK":
	default:
		return blocked("XA", "a statement that is not known")
	}
	r.drop()
	r.boundary = e.End
	p := r.prepared[id]
	if p == nil {
		if words[1] == "ROLLBACK" || r.past(e) {
			return r.move(ctx, e, nil, 0)
		}
		r.boundary = r.start
		return blocked("XA COMMIT", "the transaction was prepared before the stream's start, and its changes are not known: decide prepared transactions on the legacy (XA RECOVER), and seed again")
	}
	delete(r.prepared, id)
	r.held -= p.bytes
	if words[1] == "ROLLBACK" {
		return r.move(ctx, e, nil, 0)
	}
	return r.move(ctx, e, p.changes, e.Timestamp)
}

// prepare ends the first phase, or with ONE PHASE the whole transaction.
func (r *reader) prepare(ctx context.Context, e *dump.Event) error {
	if len(e.Body) < 1 {
		return dump.Permanent(fmt.Errorf("XA PREPARE at %s is cut off", e.End))
	}
	if onePhase := e.Body[0] != 0; onePhase {
		return r.commit(ctx, e)
	}
	p := &prepared{changes: r.changes, bytes: r.bytes + overhead, start: r.start}
	r.prepared[r.xid] = p
	r.held += p.bytes
	r.drop()
	r.boundary = e.End
	return r.move(ctx, e, nil, 0)
}

// xaID makes one text of an id as the server writes it: X'…',X'…',1, in whichever case.
func xaID(text string) (string, error) {
	text, _, _ = strings.Cut(text, " ") // ONE PHASE
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return "", fmt.Errorf("an id that is not known")
	}
	for i, p := range parts[:2] {
		p, ok := strings.CutPrefix(p, "X'")
		if !ok {
			return "", fmt.Errorf("an id that is not known")
		}
		if _, err := hex.DecodeString(strings.TrimSuffix(p, "'")); err != nil {
			return "", fmt.Errorf("an id that is not known")
		}
		parts[i] = strings.ToLower(p)
	}
	return strings.Join(parts, ","), nil
}
