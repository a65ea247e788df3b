package binlog

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// simpleReader reads what these tests write, by go-mysql alone: integers, texts in UTF-8,
// blobs and JSON. It keeps the contract of Reader; exact values of every type, and all that
// a binlog may hold, are another package's.
type simpleReader struct {
	source   dump.Source
	database string
	tables   func(context.Context) (*schema.Schema, error)
	limit    int
}

func newSimpleReader(source dump.Source, database string, tables func(context.Context) (*schema.Schema, error), limit int) Reader {
	return &simpleReader{source, database, tables, limit}
}

func (r *simpleReader) Run(ctx context.Context, from position.FilePos, handle func(*transaction.Part) error) error {
	s, err := r.tables(ctx)
	if err != nil {
		return err
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: rand.Uint32() | 1<<31, Flavor: mysql.MySQLFlavor, Host: r.source.Target.Host, Port: uint16(r.source.Target.Port),
		User: r.source.Target.User, DisableRetrySync: true, HeartbeatPeriod: time.Second, ReadTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler), EventCacheCount: 16,
	})
	defer syncer.Close()
	events, err := syncer.StartSync(mysql.Position{Name: from.File, Pos: uint32(from.Pos)})
	if err != nil {
		return err
	}
	at, boundary := from, from
	var part transaction.Part
	send := func(last bool, at uint32) error {
		p := part
		part = transaction.Part{}
		p.Last = last
		if last {
			p.End, p.Committed = boundary, time.Unix(int64(at), 0)
		}
		return handle(&p)
	}
	for {
		e, err := events.GetEvent(ctx)
		if err != nil {
			return err
		}
		if rotate, ok := e.Event.(*replication.RotateEvent); ok {
			at.File, at.Pos = string(rotate.NextLogName), rotate.Position
			continue
		}
		if e.Header.LogPos != 0 && e.Header.Flags&0x20 == 0 {
			at.Pos = uint64(e.Header.LogPos)
		}
		ends := false
		switch ev := e.Event.(type) {
		case *replication.FormatDescriptionEvent:
			if e.Header.LogPos == 0 {
				continue
			}
			ends = true
		case *replication.PreviousGTIDsEvent, *replication.XIDEvent:
			ends = true
		case *replication.QueryEvent:
			q := string(ev.Query)
			switch {
			case q == "BEGIN":
			case q == "COMMIT":
				ends = true
			case string(ev.Schema) == r.database || strings.Contains(q, r.database+".t"):
				kind := strings.ToUpper(strings.Fields(q)[0])
				if kind == "ALTER" {
					kind += " TABLE"
				}
				return &transaction.Blocked{At: boundary, Kind: kind, Why: "it is a statement"}
			default:
				ends = true
			}
		case *replication.RowsEvent:
			if string(ev.Table.Schema) != r.database {
				break
			}
			t := s.Table(string(ev.Table.Table))
			if t == nil {
				return fmt.Errorf("no table %s", ev.Table.Table)
			}
			step := 1
			if ev.Type() == replication.EnumRowsEventTypeUpdate {
				step = 2
			}
			for i := 0; i < len(ev.Rows); i += step {
				c := transaction.Change{Table: t}
				switch ev.Type() {
				case replication.EnumRowsEventTypeInsert:
					c.After = image(t, ev.Rows[i])
				case replication.EnumRowsEventTypeDelete:
					c.Before = image(t, ev.Rows[i])
				default:
					c.Before, c.After = image(t, ev.Rows[i]), image(t, ev.Rows[i+1])
				}
				part.Changes = append(part.Changes, c)
				for _, im := range []transaction.Image{c.Before, c.After} {
					for _, v := range im {
						part.Bytes += len(v) + 24
					}
				}
				if part.Bytes >= r.limit {
					if err := send(false, 0); err != nil {
						return err
					}
				}
			}
		}
		if ends {
			boundary = at
			if err := send(true, e.Header.Timestamp); err != nil {
				return err
			}
		}
	}
}

func image(t *schema.Table, values []any) transaction.Image {
	out := make(transaction.Image, len(values))
	for i, v := range values {
		if t.Columns[i].Generated == "" {
			out[i] = literal(&t.Columns[i], v)
		}
	}
	return out
}

func literal(c *schema.Column, v any) []byte {
	text := func(b []byte) []byte {
		out := make([]byte, 0, 2*len(b)+12)
		if c.CharSet != "" || c.Type == "json" {
			out = append(out, "_utf8mb4 "...)
		}
		out = append(out, "x'"...)
		out = hex.AppendEncode(out, b)
		return append(out, '\'')
	}
	switch v := v.(type) {
	case nil:
		return []byte("NULL")
	case int8:
		return strconv.AppendInt(nil, int64(v), 10)
	case int16:
		return strconv.AppendInt(nil, int64(v), 10)
	case int32:
		return strconv.AppendInt(nil, int64(v), 10)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float32:
		return strconv.AppendFloat(nil, float64(v), 'g', -1, 32)
	case float64:
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	case string:
		return text([]byte(v))
	case []byte:
		return text(v)
	}
	return []byte("a value of no known type")
}
