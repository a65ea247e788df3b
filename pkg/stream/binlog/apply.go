package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
)

const (
	// parallelRows is how many rows a batch must have to be spread over connections: that
	// takes two commits more.
	parallelRows = 4000
	// shareRows is about how many keys of one table go over one connection then.
	shareRows = 1000
	// attempts bounds how often a transaction that met a deadlock is run.
	attempts = 5
)

// apply brings the target to the batch's end, and its position with it.
func (s *session) apply(ctx context.Context, b *batch) error {
	began := time.Now()
	defer func() { s.busy = time.Now() }()
	switch {
	case b.piece:
		if err := s.applyPiece(ctx, b); err != nil {
			return err
		}
		if b.end.IsZero() {
			s.w.applied.Add(uint64(b.rows))
			return nil
		}
	case b.rows == 0:
		if err := s.set(ctx, s.progress(b)); err != nil {
			return err
		}
	case !s.recovering() && b.rows >= parallelRows && s.w.connections > 1 && len(b.shares()) > 1:
		if err := s.applyParallel(ctx, b); err != nil {
			return err
		}
	default:
		if err := s.applyAtOnce(ctx, b); err != nil {
			return err
		}
	}
	s.w.applied.Add(uint64(b.rows))
	s.reached(b)
	if s.w.rowsPerSec > 0 {
		s.pace = began.Add(time.Duration(b.rows) * time.Second / time.Duration(s.w.rowsPerSec))
	}
	return nil
}

// reached notes in memory what is in the row by now.
func (s *session) reached(b *batch) {
	s.saved = time.Now()
	s.mu.Lock()
	s.message = ""
	s.mu.Unlock()
	s.row.pos, s.row.readFrom, s.row.born = b.end, b.readFrom, b.born
	if s.caughtUp(b) {
		if s.recovering() {
			s.row.ahead = position.FilePos{}
			signal(s.orders) // orders that had to wait
		}
		if b.end == s.row.stop {
			s.row.state, s.row.wanted = stopped, stopped
		}
	}
}

// caughtUp: behind the batch every table is at its end.
func (s *session) caughtUp(b *batch) bool {
	if !s.recovering() {
		return true
	}
	c, err := position.Compare(b.end, s.row.ahead)
	return err == nil && c >= 0
}

// progress is what a batch changes of the row.
func (s *session) progress(b *batch) string {
	set := fmt.Sprintf("position=%s, read_from=%s, file_born=%d, updated=NOW(6), owner_seen=NOW(6), message=''", quote(b.end.String()), quote(b.readFrom.String()), b.born)
	if !b.committed.IsZero() {
		set += fmt.Sprintf(", transaction_time=%d", b.committed.Unix())
	}
	if s.caughtUp(b) {
		set += ", ahead=''"
		if b.end == s.row.stop {
			set += ", state='stopped', wanted='stopped', stop_position=''"
		}
	}
	return set
}

// applyAtOnce applies a batch in one transaction. Its first statement moves the position,
// on condition that the stream is still ours: whoever takes it over waits for that row.
func (s *session) applyAtOnce(ctx context.Context, b *batch) error {
	if err := s.connect(ctx, 1); err != nil {
		return err
	}
	return s.transaction(ctx, s.conns[0], "UPDATE `_vifl`.`stream` SET "+s.progress(b)+s.ours(), func(w *writer) error {
		for _, r := range b.tables {
			if err := w.write(r, r.entries, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// transaction runs a transaction, again when it met a deadlock. first must change a row.
func (s *session) transaction(ctx context.Context, conn *sql.Conn, first string, write func(*writer) error) error {
	for n := 1; ; n++ {
		err := func() error {
			if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
				return err
			}
			if err := s.first(ctx, conn, first); err != nil {
				return err
			}
			if err := write(s.writer(ctx, conn)); err != nil {
				return err
			}
			_, err := conn.ExecContext(ctx, "COMMIT")
			return err
		}()
		if err == nil {
			return nil
		}
		if _, rerr := conn.ExecContext(ctx, "ROLLBACK"); rerr != nil {
			return err
		}
		if !(mysqlconn.IsDeadlock(err) || mysqlconn.Number(err) == 1205) || n == attempts {
			return err
		}
	}
}

// first runs a transaction's first statement, which proves that the stream is ours.
func (s *session) first(ctx context.Context, conn *sql.Conn, q string) error {
	res, err := conn.ExecContext(ctx, q)
	if err != nil {
		return err
	}
	return changed(res)
}

// fenced begins a transaction that holds the fence until its end.
func (s *session) fenced(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	var one int
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT 1 FROM `_vifl`.`stream_fence` WHERE id=%d AND generation=%d FOR SHARE", s.row.id, s.row.generation)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return errLost
	}
	return err
}

func (s *session) writer(ctx context.Context, conn *sql.Conn) *writer {
	return &writer{packet: s.packet, again: s.recovering(), exec: func(q []byte) error {
		_, err := conn.ExecContext(ctx, string(q))
		return err
	}}
}

// applyPiece applies a part of a transaction that is too large for one batch. All of its
// parts are one transaction here too, over one connection, so memory is bounded and half of
// it is never seen.
func (s *session) applyPiece(ctx context.Context, b *batch) error {
	if b.void {
		if s.inPiece {
			s.inPiece = false
			_, err := s.conns[0].ExecContext(ctx, "ROLLBACK")
			return err
		}
		return nil
	}
	if !s.inPiece {
		if err := s.connect(ctx, 1); err != nil {
			return err
		}
		if err := s.fenced(ctx, s.conns[0]); err != nil {
			return err
		}
		s.inPiece = true
	}
	conn := s.conns[0]
	w := s.writer(ctx, conn)
	for _, r := range b.tables {
		if err := w.write(r, r.entries, true); err != nil {
			return err
		}
	}
	if b.end.IsZero() {
		return nil
	}
	if err := s.first(ctx, conn, "UPDATE `_vifl`.`stream` SET "+s.progress(b)+s.ours()); err != nil {
		return err
	}
	s.inPiece = false
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// share is what one connection writes of a table.
type share struct {
	r       *rows
	entries []entry
	counted bool
}

// shares cuts a batch into what can be written at the same time. Rows of a table whose keys
// are told apart by more than their bytes, or that has other unique keys, stay together: the
// order between them counts.
func (b *batch) shares() []share {
	var out []share
	for _, r := range b.tables {
		if r.t.unique || !r.t.exact {
			out = append(out, share{r, r.entries, true})
			continue
		}
		for i := 0; i < len(r.entries); i += shareRows {
			out = append(out, share{r, r.entries[i:min(i+shareRows, len(r.entries))], i == 0})
		}
	}
	return out
}

// applyParallel applies a batch over several connections. First the row says how far some
// tables may be ahead from here on: if this ends midway, whoever goes on knows that rows up
// to there may be written already, and no position is called a stop before.
func (s *session) applyParallel(ctx context.Context, b *batch) error {
	shares := b.shares()
	n := min(s.w.connections, len(shares))
	if err := s.connect(ctx, n); err != nil {
		return err
	}
	if err := s.set(ctx, "ahead="+quote(b.end.String())); err != nil {
		return err
	}
	work := make(chan share, len(shares))
	for _, sh := range shares {
		work <- sh
	}
	close(work)
	errs := make(chan error, n)
	for _, conn := range s.conns[:n] {
		go func() { errs <- s.applyShares(ctx, conn, work) }()
	}
	var err error
	for range n {
		if e := <-errs; e != nil && (err == nil || errors.Is(err, errLost)) {
			err = e
		}
	}
	if err != nil {
		return err
	}
	if err := s.set(ctx, s.progress(b)); err != nil {
		return err
	}
	return nil
}

// applyShares writes shares until there are no more, each in a transaction.
func (s *session) applyShares(ctx context.Context, conn *sql.Conn, work <-chan share) error {
	for sh := range work {
		for n := 1; ; n++ {
			err := func() error {
				if err := s.fenced(ctx, conn); err != nil {
					return err
				}
				if err := s.writer(ctx, conn).write(sh.r, sh.entries, sh.counted); err != nil {
					return err
				}
				_, err := conn.ExecContext(ctx, "COMMIT")
				return err
			}()
			if err == nil {
				break
			}
			if _, rerr := conn.ExecContext(ctx, "ROLLBACK"); rerr != nil {
				return err
			}
			if !(mysqlconn.IsDeadlock(err) || mysqlconn.Number(err) == 1205) || n == attempts {
				return err
			}
		}
	}
	return nil
}

// connect opens connections to the target until there are n.
func (s *session) connect(ctx context.Context, n int) error {
	for len(s.conns) < n {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, conn)
		// The server ends the session of a process that is asleep, and frees its locks.
		// READ COMMITTED: keys that are not there are not locked, so that connections do
		// not wait for each other.
		q := fmt.Sprintf("SET SESSION time_zone='+00:00', sql_mode='%s', foreign_key_checks=0, unique_checks=1, sql_safe_updates=0, sql_auto_is_null=0, autocommit=1, "+
			"character_set_client='utf8mb4', character_set_connection='utf8mb4', character_set_results='utf8mb4', "+
			"transaction_isolation='READ-COMMITTED', wait_timeout=%d, innodb_lock_wait_timeout=%d", strictMode, int(sleepAtMost.Seconds()), int(sleepAtMost.Seconds()))
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("preparing a connection to the target: %w", err)
		}
		if s.packet == 0 {
			if err := conn.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&s.packet); err != nil {
				return fmt.Errorf("preparing a connection to the target: %w", err)
			}
		}
	}
	return nil
}
