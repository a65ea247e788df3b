package transaction

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// wide is a table with a column of every kind.
func wide() *table {
	t := &table{definition: &schema.Table{Name: "t"}}
	for _, c := range []cell{
		{kind: typeTiny}, {kind: typeShort, unsigned: true}, {kind: typeInt24}, {kind: typeLong}, {kind: typeLongLong, unsigned: true}, {kind: typeFloat}, {kind: typeDouble},
		{kind: typeDate}, {kind: typeYear}, {kind: typeTimestamp2, meta: 6}, {kind: typeDatetime2, meta: 3}, {kind: typeTime2, meta: 1}, {kind: typeDecimal, meta: 30<<8 | 10},
		{kind: typeEnum, meta: typeEnum<<8 | 1}, {kind: typeSet, meta: typeSet<<8 | 8}, {kind: typeBit, meta: 1<<8 | 1}, {kind: typeVarchar, meta: 300, introducer: "_latin1", plain: true},
		{kind: typeString, meta: typeString<<8 | 20, introducer: "_binary", pad: 20}, {kind: typeBlob, meta: 4, introducer: "_binary"}, {kind: typeGeometry, meta: 4, introducer: "_binary"},
		{kind: typeLong, generated: true}, {kind: typeJSON, meta: 4},
	} {
		t.columns = append(t.columns, c)
		t.definition.Columns = append(t.definition.Columns, schema.Column{Name: fmt.Sprint("c", len(t.columns))})
	}
	return t
}

// FuzzImage: a row that is cut off or damaged is an error, never a panic.
func FuzzImage(f *testing.F) {
	row := append(make([]byte, 3), 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8)
	f.Add(row)
	for _, doc := range [][]byte{{0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 7, 0, 'a'}, {2, 1, 0, 8, 0, 15, 7, 0, 246, 3, 2, 1, 0x81, 5}, {15, 12, 8, 0, 0, 0, 0, 0, 0, 0, 0x99}, {12, 3, 'a', 'b', 'c'}} {
		only := append([]byte{0xff, 0xff, 0x1f}, binary.LittleEndian.AppendUint32(nil, uint32(len(doc)))...)
		f.Add(append(only, doc...))
	}
	t := wide()
	f.Fuzz(func(_ *testing.T, data []byte) {
		var a arena
		size := 0
		for len(data) > 0 {
			image, rest, err := t.image(&a, data, &size)
			if err != nil {
				return
			}
			if len(image) != len(t.columns) {
				panic("an image without its columns")
			}
			data = rest
		}
	})
}

// one makes the events of a transaction of one row, as a server sends them.
func one(id int) []*dump.Event {
	tableMap := append([]byte{9, 0, 0, 0, 0, 0, 1, 0}, "\x05slack\x00\x01t\x00"...)
	tableMap = append(tableMap, 4, typeLongLong, typeLong, typeVarchar, typeDatetime2, 3, 0x90, 1, 0, 0x0e)
	rows := []byte{9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 4, 0xff, 0}
	rows = binary.LittleEndian.AppendUint64(rows, uint64(id))
	rows = append(rows, 1, 2, 3, 0)
	rows = append(append(rows, 30, 0), "a text of about thirty letters"...)
	rows = append(rows, 0x99, 0xb2, 0x84, 0x30, 0xc5)
	begin := append(make([]byte, 13), "slack\x00BEGIN"...)
	begin[8] = 5
	return []*dump.Event{{Type: replication.ANONYMOUS_GTID_EVENT, Body: make([]byte, 50)}, {Type: replication.QUERY_EVENT, Body: begin},
		{Type: replication.TABLE_MAP_EVENT, Body: tableMap}, {Type: replication.WRITE_ROWS_EVENTv2, Body: rows}, {Type: replication.XID_EVENT, Body: make([]byte, 8), Timestamp: 1, End: position.FilePos{Server: "u", File: "f.1", Pos: uint64(id)}}}
}

func small() *schema.Schema {
	return &schema.Schema{Tables: []*schema.Table{{Name: "t", Columns: []schema.Column{{Name: "id", Type: "bigint", ColumnType: "bigint"}, {Name: "n", Type: "int", ColumnType: "int"},
		{Name: "v", Type: "varchar", ColumnType: "varchar(100)", CharSet: "utf8mb4"}, {Name: "at", Type: "datetime", ColumnType: "datetime"}}}}}
}

// BenchmarkOneRowTransactions decodes in one goroutine, without a server.
func BenchmarkOneRowTransactions(b *testing.B) {
	r := New(dump.Source{}, "slack", nil, math.MaxInt)
	changes := 0
	s := &session{Reader: r, schema: small(), mappings: map[uint64]*mapping{}, handle: func(p *Part) error {
		changes += len(p.Changes)
		return nil
	}}
	events := one(1)
	b.ReportAllocs()
	start := time.Now()
	for range b.N {
		for _, e := range events {
			if err := s.event(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	if changes != b.N {
		b.Fatalf("%d changes of %d", changes, b.N)
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "rows/s")
}

// TestOldRowEvents: events of the first version lack only the extra data of the second.
func TestOldRowEvents(t *testing.T) {
	for _, version := range []replication.EventType{replication.WRITE_ROWS_EVENTv0, replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2} {
		var got []Change
		s := &session{Reader: New(dump.Source{}, "slack", nil, math.MaxInt), schema: small(), mappings: map[uint64]*mapping{}, handle: func(p *Part) error {
			got = append(got, p.Changes...)
			return nil
		}}
		for _, e := range one(7) {
			if e.Type == replication.WRITE_ROWS_EVENTv2 && version != e.Type {
				e.Type, e.Body = version, append(append([]byte{}, e.Body[:8]...), e.Body[10:]...)
			}
			if err := s.event(e); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 0 {
			t.Fatalf("version %s: no change", version)
		}
		if len(got) != 1 || string(got[0].After[0]) != "7" || string(got[0].After[2]) != "'a text of about thirty letters'" || string(got[0].After[3]) != "'2024-02-02 03:03:05'" {
			t.Errorf("version %s: %d changes: %q", version, len(got), got[0].After)
		}
	}
}

// TestUnknownEvents ends at what is not known.
func TestUnknownEvents(t *testing.T) {
	at := position.FilePos{Server: "u", File: "binlog.000001", Pos: 400}
	for _, kind := range []replication.EventType{replication.INCIDENT_EVENT, 0, 1, 43, 99, 160, 165, 255} {
		s := &session{Reader: New(dump.Source{}, "slack", nil, math.MaxInt), boundary: at, handle: func(*Part) error { return nil }}
		b, ok := s.event(&dump.Event{Type: kind, End: position.FilePos{File: "binlog.000001", Pos: 500}}).(*Blocked)
		if !ok || b.At != at {
			t.Errorf("type %d: %v", kind, b)
		}
	}
}
