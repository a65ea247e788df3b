package load

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// verdict is what the application makes of an error.
type verdict int

const (
	// again: nothing was committed; drop what is cached, look the team up again, retry.
	again verdict = iota
	// sameAgain: nothing was committed and the place is right (a deadlock); retry.
	sameAgain
	// lost: sent, and no reply that says whether it is committed.
	lost
	// fault: nothing was committed and a retry would not help; the application's user sees
	// an error.
	fault
)

// phase is what was under way when an error came.
type phase int

const (
	// before: nothing was sent that could commit: connecting, looking up, or inside a
	// transaction, which dies with its connection.
	before phase = iota
	// statement: an autocommit statement.
	statement
	// commit: a COMMIT.
	commit
)

// notServing are what vtgate and vttablet say, under various numbers, before they run
// anything: the fence of a landing, a reparent, a tablet that is not up yet.
var notServing = []string{
	"not serving", "not_serving", "shutting_down", "no healthy tablet", "no partition found", "reparent operation in progress", "wrong tablet type",
}

// judge decides what an error means. When in doubt the answer is lost, never again: a
// repeated write that was in fact committed would be counted as written once.
func judge(err error, p phase) verdict {
	if errors.Is(err, driver.ErrBadConn) {
		return again // the driver's promise: not a byte was sent
	}
	number := mysqlconn.Number(err)
	switch number {
	case 1290, 1836, 3032: // read_only, super_read_only, offline_mode; a COMMIT refused so is rolled back
		return again
	case 1040, 1203, 1226, 3118, 4151: // too many connections or transactions; account locked
		if p == before {
			return again
		}
		return lost // Vitess gives 1203 for results that were too large as well
	case 1205, 1213:
		return sameAgain
	}
	if unclear(err, number) {
		if p == before {
			return again
		}
		return lost
	}
	text := strings.ToLower(err.Error())
	for _, s := range notServing {
		if strings.Contains(text, s) {
			if p == commit {
				return lost // the commit may have reached the tablet before it left
			}
			return again
		}
	}
	// Vitess reports its own troubles as 1105 "unknown error", also some that come after
	// the tablet had the statement.
	if number == 1105 && p != before || p == commit {
		return lost
	}
	return fault
}

// unclear reports an error after which the server may or may not have committed: the
// connection broke, timed out, or was killed while a statement ran (1053, 1317, 1927, 3024,
// Vitess' 3168, and the network errors 1158-1161, 2006, 2013).
func unclear(err error, number uint16) bool {
	switch number {
	case 1053, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 3024, 3168:
		return true
	}
	var ne net.Error
	return mysqlconn.IsConnectionLost(err) || errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
