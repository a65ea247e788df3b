package inspect

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"vitess.io/vitess/go/vt/schema"

	"github.com/vifl/vifl/pkg/position"
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

// event takes in the next event. data is its body, without header and checksum.
func (r *reader) event(h *replication.EventHeader, data []byte) error {
	if int(h.EventType) != int(replication.HEARTBEAT_EVENT) && int(h.EventType) != heartbeatV2 && h.LogPos != 0 {
		r.advance(h.LogPos)
	}
	switch t := h.EventType; t {
	case replication.FORMAT_DESCRIPTION_EVENT, replication.PREVIOUS_GTIDS_EVENT, replication.STOP_EVENT:
		clear(r.tables)
		r.settle()
	case replication.HEARTBEAT_EVENT, heartbeatV2, replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT:
	case replication.XID_EVENT:
		r.end()
	case replication.QUERY_EVENT:
		return r.query(data)
	case replication.TABLE_MAP_EVENT:
		return r.tableMap(data)
	case replication.WRITE_ROWS_EVENTv0, replication.WRITE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv0, replication.DELETE_ROWS_EVENTv1:
		return r.rows(data, false, 1)
	case replication.UPDATE_ROWS_EVENTv0, replication.UPDATE_ROWS_EVENTv1:
		return r.rows(data, false, 2)
	case replication.WRITE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2:
		return r.rows(data, true, 1)
	case replication.UPDATE_ROWS_EVENTv2:
		return r.rows(data, true, 2)
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

// heartbeatV2 is a heartbeat with a long position (MySQL 8.0.26); it is no event of the
// binlog.
const heartbeatV2 = 41

// advance moves to the end of an event. The header has 32 bits for it: in a binlog of more
// than 4 GiB they start over, and so do VReplication's positions.
func (r *reader) advance(logPos uint32) {
	high, low := r.at.Pos>>32, uint32(r.at.Pos)
	if logPos < low && low-logPos > 1<<31 {
		high++
		r.at.Pos = high<<32 | uint64(logPos)
		r.taint(Huge, "")
		return
	}
	r.at.Pos = high<<32 | uint64(logPos)
}

// rotate moves to another file. The server also sends one, made up, before the first event.
func (r *reader) rotate(file string, pos uint64) {
	if file != r.at.File {
		clear(r.tables)
	}
	r.at.File, r.at.Pos = file, pos
	r.settle()
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
	// thread id 4, execution time 4, length of the database's name 1, error 2, length of
	// the status variables 2.
	const head = 13
	if len(data) < head {
		return fmt.Errorf("binlog at %s: a query event of %d bytes", r.at, len(data))
	}
	n, vars := int(data[8]), int(binary.LittleEndian.Uint16(data[11:]))
	if len(data) < head+vars+n+1 {
		return fmt.Errorf("binlog at %s: a query event of %d bytes, expected more than %d", r.at, len(data), head+vars+n)
	}
	defaultDatabase, sql := string(data[head+vars:head+vars+n]), string(data[head+vars+n+1:])
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

// tableMap reads: table id 6, flags 2, then name of the database and of the table, each
// with its length before and a zero behind.
func (r *reader) tableMap(data []byte) error {
	short := fmt.Errorf("binlog at %s: a table map of %d bytes", r.at, len(data))
	if len(data) < 9 {
		return short
	}
	id := tableID(data)
	n := int(data[8])
	if len(data) < 9+n+2 {
		return short
	}
	db, rest := string(data[9:9+n]), data[9+n+1:]
	m := int(rest[0])
	if len(rest) < 1+m {
		return short
	}
	t := table{name: string(rest[1 : 1+m]), ours: strings.EqualFold(db, r.database)}
	r.tables[id] = t
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

func tableID(data []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(data)) | uint64(binary.LittleEndian.Uint16(data[4:]))<<32
}

// rows looks at which columns a row event has: table id 6, flags 2, in version 2 extra data
// with its length (itself included) before, the number of columns, one bit map per image.
func (r *reader) rows(data []byte, v2 bool, images int) error {
	short := fmt.Errorf("binlog at %s: a row event of %d bytes", r.at, len(data))
	if len(data) < 10 {
		return short
	}
	id, flags, rest := tableID(data), binary.LittleEndian.Uint16(data[6:]), data[8:]
	t, known := r.tables[id]
	const statementEnds = 1
	if flags&statementEnds != 0 {
		clear(r.tables) // they are sent again with every statement
	}
	if id == 0x00ffffff {
		return nil // says only that the statement ends
	}
	if !known {
		return fmt.Errorf("binlog at %s: rows of a table that no event named before: the position is not between two transactions", r.at)
	}
	if !t.ours {
		return nil
	}
	if v2 {
		extra := int(binary.LittleEndian.Uint16(rest))
		if extra < 2 || len(rest) < extra+1 {
			return short
		}
		rest = rest[extra:]
	}
	columns, n := packedInt(rest)
	if n == 0 {
		return short
	}
	rest = rest[n:]
	width := (columns + 7) / 8
	if len(rest) < images*width {
		return short
	}
	for i := range images {
		have := 0
		for _, b := range rest[i*width : (i+1)*width] {
			have += bits.OnesCount8(b)
		}
		if have < columns {
			r.taint(PartialImage, fmt.Sprintf("table %s: %d of %d columns", t.name, have, columns))
			return nil
		}
	}
	return nil
}

func (r *reader) partialUpdate(data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("binlog at %s: a row event of %d bytes", r.at, len(data))
	}
	t, known := r.tables[tableID(data)]
	if !known || t.ours {
		r.taint(PartialUpdate, "table "+t.name+": binlog_row_value_options is PARTIAL_JSON in a session")
	}
	return nil
}

// packedInt is MySQL's length-encoded number and how many bytes it took; 0 bytes when it is
// cut off. A table has at most 4,096 columns, so that the longer forms do not occur.
func packedInt(b []byte) (v, n int) {
	switch {
	case len(b) >= 1 && b[0] < 0xfb:
		return int(b[0]), 1
	case len(b) >= 3 && b[0] == 0xfc:
		return int(binary.LittleEndian.Uint16(b[1:])), 3
	}
	return 0, 0
}
