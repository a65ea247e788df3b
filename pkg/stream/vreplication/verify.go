package vreplication

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream"
)

// The tablets know the legacy server by a name that stands in a file of theirs, which no
// call shows: it may lead anywhere. Two legacy servers often have the same database names
// and the same binlog file names, so that a stream on the wrong one need not fail.
//
// So the name is put to the test before anything is applied: a second stream, the probe,
// reads through the same connection but matches no table. vifl writes rows of random length
// into _vifl on the server that is meant, and the probe must stop exactly where that server
// says each of them ends. Another server's binlog has no event at those offsets: to pass by
// chance it would need a transaction's end at each of them, in a file of the same name (one
// in some hundred, for every round). The other side of the pair, which receives the same
// writes, fails as well, since a replicated transaction's header is longer and the offsets
// run apart.
//
// What is not proven: that the name will still lead there later (the tablets read the file
// at their start), and it is proven for the tablet that is primary now, whose file the
// stream goes by. Verify is cheap enough to run again before a switch.

const (
	// rounds of write and stop.
	rounds = 3
	// probeWait bounds a round; a sound one takes some 100 ms.
	probeWait = 10 * time.Second
	// A probe's row has minimal to minimal + longest bytes. No head of a binlog without
	// GTIDs is as long as minimal.
	minimal = 1000
	longest = 30000
)

// Verify proves that the tablets' connection leads to the server that is meant, see above.
// It is ErrWrongServer when it leads elsewhere, or nowhere. It writes into _vifl.probe on
// the legacy server, which it makes when it is not there (undo: drop table _vifl.probe).
// It changes nothing on the landing but the probe's row, which it removes.
func (s *Stream) Verify(ctx context.Context) (err error) {
	if s.source == nil {
		return s.errorf("the server behind the connection %q cannot be verified: no source was given", s.connection)
	}
	db, err := mysqlconn.Connect(ctx, *s.source)
	if err != nil {
		return s.errorf("verifying connection %q: %w", s.connection, err)
	}
	defer db.Close()
	var uuid string
	if err := db.QueryRowContext(ctx, "select @@global.server_uuid").Scan(&uuid); err != nil {
		return s.errorf("verifying connection %q: %s: %w", s.connection, s.source, err)
	}
	if uuid != s.server {
		return s.errorf("verifying connection %q: %s has server_uuid %s, expected %s: %w", s.connection, s.source, uuid, s.server, stream.ErrWrongServer)
	}
	const table = "create table if not exists _vifl.probe (id int primary key, filler mediumblob not null)"
	if _, err := db.ExecContext(ctx, table); err != nil {
		return s.errorf("verifying connection %q: %s: making _vifl.probe: %w: prepare the server first", s.connection, s.source, err)
	}
	probe := *s
	probe.workflow += "_probe"
	// One left by a vifl that was killed would stand in the way.
	if err := probe.Delete(ctx); err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
		defer cancel()
		if derr := probe.Delete(clean); err == nil {
			err = derr
		}
	}()
	return probe.probe(ctx, db)
}

func (s *Stream) probe(ctx context.Context, db *sql.DB) error {
	// The first write makes sure that the probe starts where a transaction ends.
	from, err := s.write(ctx, db)
	if err != nil {
		return err
	}
	for round := range rounds {
		to, err := s.write(ctx, db)
		if err != nil {
			return err
		}
		if round == 0 {
			err = s.insertProbe(ctx, from, to)
		} else {
			var r *row
			if r, err = s.present(ctx); err == nil {
				err = s.set(ctx, r, "state='Running', message='', stop_pos="+quote(to.Vitess()))
			}
		}
		if err != nil {
			return err
		}
		if err := s.reached(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) insertProbe(ctx context.Context, from, to position.FilePos) error {
	// A rule that matches no table: an event that reaches the landing would be an error.
	source := fmt.Sprintf(`external_mysql:%s filter:{rules:{match:"vifl probe"}} on_ddl:IGNORE`, protoString(s.connection))
	_, err := s.landing.VReplicationExec(ctx, fmt.Sprintf("insert into _vt.vreplication "+
		"(workflow, db_name, source, pos, stop_pos, max_tps, max_replication_lag, time_updated, transaction_timestamp, state, message, options) "+
		"values (%s, %s, %s, %s, %s, 9999999, 9999999, %d, 0, 'Running', '', '{}')",
		quote(s.workflow), quote(s.database), quote(source), quote(from.Vitess()), quote(to.Vitess()), time.Now().Unix()))
	if err != nil {
		return s.errorf("verifying connection %q: %w", s.connection, err)
	}
	return nil
}

// reached waits until the probe has stopped at exactly p.
func (s *Stream) reached(ctx context.Context, p position.FilePos) error {
	deadline := time.NewTimer(probeWait)
	defer deadline.Stop()
	for {
		r, err := s.present(ctx)
		if err != nil {
			return err
		}
		if r.state == "Stopped" && r.pos == p {
			return nil
		}
		wrong := func(found string) error {
			return s.errorf("connection %q of the tablets does not lead to %s (server_uuid %s): a write there ends at %s, %s%s: %w: correct the tablets' file of external connections and restart them, or the address in vifl.yaml",
				s.connection, s.source, s.server, p, found, because(r.message), stream.ErrWrongServer)
		}
		if r.state != "Running" {
			return wrong(fmt.Sprintf("but what is read through it stopped at %s", r.pos))
		}
		select {
		case <-ctx.Done():
			return s.errorf("verifying connection %q: waiting for the probe to reach %s: %w", s.connection, p, context.Cause(ctx))
		case <-deadline.C:
			return wrong(fmt.Sprintf("which what is read through it did not reach in %s", probeWait))
		case <-time.After(2 * pollFast):
		}
	}
}

// write puts a row of random length into _vifl.probe and returns a position at its end, or
// behind it at the end of somebody else's transaction.
func (s *Stream) write(ctx context.Context, db *sql.DB) (position.FilePos, error) {
	var random [2]byte
	if _, err := rand.Read(random[:]); err != nil {
		return position.FilePos{}, s.errorf("random length: %w", err)
	}
	filler := make([]byte, minimal+int(binary.LittleEndian.Uint16(random[:]))%longest)
	for {
		if _, err := db.ExecContext(ctx, "replace into _vifl.probe (id, filler) values (1, ?)", filler); err != nil {
			return position.FilePos{}, s.errorf("%s: writing into _vifl.probe: %w", s.source, err)
		}
		p, err := endOfBinlog(ctx, db, s.server)
		if err != nil {
			return p, s.errorf("%s: %w", s.source, err)
		}
		if p.Pos > minimal {
			return p, nil
		}
		// The server began a new binlog just behind our write, and nothing stops there.
	}
}

// endOfBinlog is where the server's binlog ends, under the statement's name from 8.2 on and
// the one before.
func endOfBinlog(ctx context.Context, db *sql.DB, server string) (position.FilePos, error) {
	rows, err := db.QueryContext(ctx, "show binary log status")
	if mysqlconn.Number(err) == 1064 {
		rows, err = db.QueryContext(ctx, "show master status")
	}
	if err != nil {
		return position.FilePos{}, fmt.Errorf("reading the end of the binlog: %w", err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return position.FilePos{}, fmt.Errorf("reading the end of the binlog: %w", err)
	}
	if len(columns) < 2 || !rows.Next() {
		if err := rows.Err(); err != nil {
			return position.FilePos{}, fmt.Errorf("reading the end of the binlog: %w", err)
		}
		return position.FilePos{}, fmt.Errorf("reading the end of the binlog: found none, expected log_bin to be on")
	}
	p := position.FilePos{Server: server}
	into := []any{&p.File, &p.Pos}
	for range columns[2:] {
		into = append(into, new(sql.RawBytes))
	}
	if err := rows.Scan(into...); err != nil {
		return position.FilePos{}, fmt.Errorf("reading the end of the binlog: %w", err)
	}
	return p, rows.Err()
}
