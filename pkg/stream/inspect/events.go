package inspect

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"vitess.io/vitess/go/vt/schema"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// MariaDB's own event types, which go-mysql names only in part.
const (
	mariadbFirst          = 160 // ANNOTATE_ROWS
	mariadbQueryCompress  = 165
	mariadbRowsCompressV1 = 166
	mariadbLast           = 171
)

// reader goes through events one after the other and knows where it is. It looks at no row
// value: what must be known is in the events' heads.
type reader struct {
	database string

	at       position.FilePos // end of the last event
	boundary position.FilePos // last place between two transactions
	begun    bool             // inside BEGIN … COMMIT
	// ours: the open transaction has changed the database; asked: it has a ROWS_QUERY event.
	ours, asked bool
	tables      map[uint64]table
	taint       func(Kind, string)
}

type table struct {
	name string
	ours bool
}

// event takes in the next event.
func (r *reader) event(e *dump.Event) error {
	if e.End.Pos > math.MaxUint32 && (r.at.Pos <= math.MaxUint32 || r.at.File != e.End.File) {
		r.taint(Huge, "")
	}
	if r.at.File != e.End.File {
		clear(r.tables)
	}
	r.at = e.End
	switch t, data := e.Type, e.Body; t {
	case replication.ROTATE_EVENT:
		r.settle()
	case replication.FORMAT_DESCRIPTION_EVENT, replication.PREVIOUS_GTIDS_EVENT, replication.STOP_EVENT:
		clear(r.tables)
		r.settle()
	case replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
	case replication.XID_EVENT:
		r.end()
	case replication.QUERY_EVENT:
		return r.query(data)
	case replication.TABLE_MAP_EVENT:
		return r.tableMap(data)
	case replication.WRITE_ROWS_EVENTv0, replication.WRITE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv0, replication.DELETE_ROWS_EVENTv1,
		replication.UPDATE_ROWS_EVENTv0, replication.UPDATE_ROWS_EVENTv1,
		replication.WRITE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2:
		return r.rows(t, data)
	case replication.PARTIAL_UPDATE_ROWS_EVENT:
		return r.partialUpdate(data)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		r.taint(Compressed, "binlog_transaction_compression is on in a session; which tables it changes is not looked at")
		r.end()
	case replication.XA_PREPARE_LOG_EVENT:
		r.taint(Distributed, "XA PREPARE")
		r.end()
	case replication.INCIDENT_EVENT:
		r.taint(Incident, "the server lost events, or was told to say so")
	case replication.INTVAR_EVENT, replication.RAND_EVENT, replication.USER_VAR_EVENT:
		// They belong to the statement behind them, which taints by itself.
	case replication.ROWS_QUERY_EVENT, replication.IGNORABLE_EVENT:
		r.asked = true
		r.interleaved()
	case replication.BEGIN_LOAD_QUERY_EVENT, replication.APPEND_BLOCK_EVENT, replication.EXECUTE_LOAD_QUERY_EVENT, replication.DELETE_FILE_EVENT:
		r.taint(Logged, "LOAD DATA")
	default:
		switch {
		case t == mariadbQueryCompress, t >= mariadbRowsCompressV1 && t <= mariadbLast:
			r.taint(Compressed, "log_bin_compress is on")
		case t == mariadbFirst:
			r.asked = true
			r.interleaved()
		case t > mariadbFirst && t < mariadbQueryCompress:
		default:
			r.taint(Foreign, fmt.Sprintf("type %d", byte(t)))
		}
	}
	return nil
}

// settle notes a place between two transactions, unless one is open.
func (r *reader) settle() {
	if !r.begun {
		r.boundary = r.at
	}
}

func (r *reader) end() {
	r.begun, r.ours, r.asked = false, false, false
	r.settle()
}

// interleaved taints when one transaction has both a change of the database and an event
// that VReplication answers by saving its position in the middle of the transaction (an
// ignorable one, such as ROWS_QUERY): the second such event in a transaction stops it for
// good, and what a stop in between leaves is half a transaction.
func (r *reader) interleaved() {
	if r.asked && r.ours {
		r.taint(Foreign, "ROWS_QUERY: binlog_rows_query_log_events is on in a session")
		r.asked = false
	}
}

func (r *reader) query(data []byte) error {
	q, err := dump.ParseQuery(data, false)
	if err != nil {
		return fmt.Errorf("binlog at %s: %w", r.at, err)
	}
	defaultDatabase, sql := q.Database, q.SQL
	class, kind := Statement(sql, defaultDatabase, r.database)
	hidden := strings.HasPrefix(sql, "#")
	switch class {
	case Begin:
		r.begun = true
		return nil
	case End:
		r.end()
		return nil
	case Nothing:
	case Change:
		where := fmt.Sprintf("%s, default database %q", kind, defaultDatabase)
		if hidden {
			r.taint(Hidden, where)
		} else {
			r.taint(Logged, where)
		}
	case Definition:
		detail := kind + ": the stream stops at it"
		if hidden || strings.HasPrefix(sql, "/*!") || (defaultDatabase != "" && defaultDatabase != r.database) {
			detail = kind + ": the stream skips it, because of how it was sent"
		}
		r.taint(DDL, detail)
	case XA:
		r.taint(Distributed, kind)
	case Unknown:
		r.taint(Foreign, kind)
		if kind == "ROLLBACK" {
			r.end()
		}
	}
	r.settle()
	return nil
}

func (r *reader) tableMap(data []byte) error {
	m, _, err := dump.ParseTableName(data)
	if err != nil {
		return fmt.Errorf("binlog at %s: %w", r.at, err)
	}
	t := table{name: m.Table, ours: strings.EqualFold(m.Database, r.database)}
	r.tables[m.ID] = t
	if !t.ours {
		return nil
	}
	r.ours = true
	r.interleaved()
	// Names that Vitess keeps begin with an underscore; the test behind is slow.
	if strings.HasPrefix(t.name, "_") && schema.IsInternalOperationTableName(t.name) {
		r.taint(Ignored, "table "+t.name)
	}
	return nil
}

// rows looks at which columns a row event has.
func (r *reader) rows(kind replication.EventType, data []byte) error {
	rows, err := dump.ParseRows(kind, data)
	if err != nil {
		return fmt.Errorf("binlog at %s: %w", r.at, err)
	}
	t, known := r.tables[rows.TableID]
	if rows.StatementEnds {
		clear(r.tables) // they are sent again with every statement
	}
	switch {
	case rows.Dummy:
		return nil
	case !known:
		return fmt.Errorf("binlog at %s: rows of a table that no event named before: the position is not between two transactions", r.at)
	case t.ours && rows.Missing > 0:
		r.taint(PartialImage, fmt.Sprintf("table %s: %d of %d columns", t.name, rows.Columns-rows.Missing, rows.Columns))
	}
	return nil
}

func (r *reader) partialUpdate(data []byte) error {
	id, err := dump.TableID(data)
	if err != nil {
		return fmt.Errorf("binlog at %s: %w", r.at, err)
	}
	t, known := r.tables[id]
	if !known || t.ours {
		r.taint(PartialUpdate, "table "+t.name+": binlog_row_value_options is PARTIAL_JSON in a session")
	}
	return nil
}
