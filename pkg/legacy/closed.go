package legacy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// KeepClosed makes the server read only for everybody and turns logins without
// CONNECTION_ADMIN away, now and after a restart (SET PERSIST). Open connections without
// CONNECTION_ADMIN are ended by the server itself. Replication whose account has
// CONNECTION_ADMIN goes on; another's is cut (error 3032): preflight says so beforehand.
//
// Needs SYSTEM_VARIABLES_ADMIN and CONNECTION_ADMIN. It is called on a frozen server; on
// one that is not, setting super_read_only waits for writers under way.
func (s *Server) KeepClosed(ctx context.Context) error {
	var load string
	if err := s.db.QueryRowContext(ctx, "SELECT @@GLOBAL.persisted_globals_load").Scan(&load); err != nil {
		return s.failed("keeping the server closed", err)
	}
	if load != "1" {
		return fmt.Errorf("%s: found persisted_globals_load=OFF, expected ON: it would open again at its next restart: set it in the server's option file", s.target)
	}
	for _, name := range closing {
		if _, err := s.db.ExecContext(ctx, "SET PERSIST "+name+"=ON"); err != nil {
			return s.failed("keeping the server closed: SET PERSIST "+name, s.missing(ctx, err))
		}
	}
	// Of an AdmitOwn before; super_read_only stands for it.
	if _, err := s.db.ExecContext(ctx, "RESET PERSIST IF EXISTS read_only"); err != nil {
		return s.failed("keeping the server closed: RESET PERSIST read_only", s.missing(ctx, err))
	}
	now, err := s.Flags(ctx)
	if err != nil {
		return err
	}
	if !now.ReadOnly || !now.SuperReadOnly || !now.OfflineMode {
		return fmt.Errorf("%s: found %s, expected all ON: not closed", s.target, now)
	}
	return nil
}

var closing = []string{"super_read_only", "offline_mode"}

// AdmitOwn lets accounts with CONNECTION_ADMIN write to a server that KeepClosed has closed,
// now and after a restart: read_only alone does not hold them. Everybody else stays out.
func (s *Server) AdmitOwn(ctx context.Context) error {
	for _, stmt := range []string{"SET PERSIST read_only=ON", "RESET PERSIST IF EXISTS super_read_only", "SET GLOBAL super_read_only=OFF"} {
		if _, err := s.db.ExecContext(ctx, stmt); err != nil {
			return s.failed("letting our own account write to the closed server: "+stmt, s.missing(ctx, err))
		}
	}
	now, err := s.Flags(ctx)
	if err != nil {
		return err
	}
	if want := (Flags{ReadOnly: true, OfflineMode: true}); now != want {
		return fmt.Errorf("%s: found %s, expected %s", s.target, now, want)
	}
	return nil
}

// KeepOpen undoes KeepClosed and AdmitOwn: nothing of it stays for the next restart, and the flags are
// made exactly these now.
func (s *Server) KeepOpen(ctx context.Context, want Flags) error {
	for _, name := range append([]string{"read_only"}, closing...) {
		// IF EXISTS makes it a warning where nothing was persisted.
		if _, err := s.db.ExecContext(ctx, "RESET PERSIST IF EXISTS "+name); err != nil {
			return s.failed("opening the server: RESET PERSIST "+name, s.missing(ctx, err))
		}
	}
	return s.SetFlags(ctx, want)
}

// missing adds to an access error which of the needed privileges the account has not.
func (s *Server) missing(ctx context.Context, err error) error {
	if !mysqlconn.IsAccessDenied(err) {
		return err
	}
	granted, gerr := s.Grants(ctx)
	if gerr != nil {
		return err
	}
	var lacks []string
	for _, p := range []string{"SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN"} {
		if !granted.Global(p) {
			lacks = append(lacks, p)
		}
	}
	return fmt.Errorf("%w: account %q lacks %s", err, s.target.User, strings.Join(lacks, ", "))
}

// killRounds bounds how often KillApplication looks again: each round ends whoever came in
// meanwhile; a server that is offline lets nobody in, so the second finds none.
const killRounds = 5

// KillApplication ends every client connection except: our own account's, the exempt
// accounts' ('user', or 'user@host' with % as the wildcard), replication's, and the
// server's own threads. It returns how many it ended.
func (s *Server) KillApplication(ctx context.Context, exempt []string) (int, error) {
	killed := map[uint64]bool{}
	for range killRounds {
		all, err := s.processes(ctx)
		if err != nil {
			return len(killed), err
		}
		found := 0
		for _, p := range all {
			if p.Command == "Killed" || !s.application(p, exempt) {
				continue
			}
			if killed[p.ID] {
				continue // dying: a long rollback keeps its line in the process list
			}
			if err := s.KillConnection(ctx, p.ID); err != nil {
				return len(killed), err
			}
			killed[p.ID] = true
			found++
		}
		if found == 0 {
			return len(killed), nil
		}
	}
	return len(killed), fmt.Errorf("%s: after %d rounds the application still comes back: is offline_mode on, and does its account have CONNECTION_ADMIN?", s.target, killRounds)
}

func (s *Server) application(p Statement, exempt []string) bool {
	switch p.User {
	case "", systemUser, "event_scheduler", "unauthenticated user", s.target.User:
		return false
	}
	if strings.HasPrefix(p.User, "mysql.") || strings.HasPrefix(p.Command, "Binlog Dump") || p.Command == "Daemon" {
		return false
	}
	host, _, _ := strings.Cut(p.Host, ":")
	return !AccountMatches(exempt, p.User, host)
}

// KillTransactions ends the connections of every other account that has a transaction open,
// and returns how many there were. It is called on a frozen server, where no new one can
// write: behind it nothing that began before the freeze can be committed when it is lifted.
//
// Needs PROCESS and CONNECTION_ADMIN.
func (s *Server) KillTransactions(ctx context.Context) (int, error) {
	killed := map[uint64]bool{}
	for {
		open, err := s.transactions(ctx)
		if err != nil {
			return len(killed), err
		}
		if len(open) == 0 {
			return len(killed), nil
		}
		for _, id := range open {
			if killed[id] {
				continue // rolling back
			}
			if err := s.KillConnection(ctx, id); err != nil {
				return len(killed), s.missing(ctx, err)
			}
			killed[id] = true
		}
		select {
		case <-ctx.Done():
			return len(killed), fmt.Errorf("%s: %d open transaction(s) are still rolling back: %w", s.target, len(open), context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// transactions are the connections of others with a transaction open. The table that tells
// has the statements too, in a character set of three bytes: where one holds more, reading
// it may fail, and then every connection counts.
func (s *Server) transactions(ctx context.Context) ([]uint64, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, "SELECT trx_mysql_thread_id AS id FROM information_schema.innodb_trx")
	if err != nil && mysqlconn.Number(err) == 0 {
		return nil, s.failed("looking for open transactions", err)
	}
	all := err != nil
	has := map[string]bool{}
	for _, row := range rows {
		has[row["id"]] = true
	}
	if !all && len(has) == 0 {
		return nil, nil
	}
	processes, err := s.processes(ctx)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, p := range processes {
		if (all || has[strconv.FormatUint(p.ID, 10)]) && s.application(p, nil) {
			out = append(out, p.ID)
		}
	}
	return out, nil
}

// AccountMatches reports whether user@host is in a list of 'user' and 'user@host' entries.
// A % in the entry's host part stands for anything, as in MySQL's account names.
func AccountMatches(list []string, user, host string) bool {
	for _, entry := range list {
		name, pattern, hasHost := strings.Cut(entry, "@")
		if strings.Trim(name, "'`") != user {
			continue
		}
		if pattern = strings.Trim(pattern, "'`"); !hasHost || pattern == host || like(pattern, host) {
			return true
		}
	}
	return false
}

func like(pattern, text string) bool {
	head, tail, wild := strings.Cut(pattern, "%")
	if !wild {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for at := 0; at <= len(text); at++ {
		if like(tail, text[at:]) {
			return true
		}
	}
	return false
}

// KillConnection ends a connection of the server. One that is gone already is fine.
func (s *Server) KillConnection(ctx context.Context, id uint64) error {
	_, err := s.db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
	if err != nil && mysqlconn.Number(err) != noSuchThread {
		return s.failed(fmt.Sprintf("killing connection %d", id), err)
	}
	return nil
}

const noSuchThread = 1094
