package binlog

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// finalError is one that trying again does not mend.
type finalError struct{ text string }

func (e *finalError) Error() string { return e.text }

func final(format string, args ...any) error { return &finalError{fmt.Sprintf(format, args...)} }

func isFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// errWarned is what a strict server says of a value that a lenient one may store exactly.
var errWarned = errors.New("the target wants the values looked at one by one")

// passing are the server's errors that may be gone the next time: locks, connections, a
// server that is being shut down, demoted or has no room.
var passing = map[uint16]bool{
	1021: true, 1023: true, 1030: true, 1040: true, 1041: true, 1053: true, 1105: true, 1114: true, 1158: true, 1159: true, 1160: true, 1161: true, 1180: true,
	1184: true, 1194: true, 1203: true, 1205: true, 1206: true, 1213: true, 1226: true, 1290: true, 1317: true, 1637: true, 1792: true, 1836: true,
	1927: true, 2006: true, 2013: true, 3024: true, 3032: true, 3058: true, 3100: true, 3101: true, 3168: true, 3169: true, 3572: true, 4031: true,
}

// judged are those that lenient mode makes warnings of, which are looked at one by one.
var judged = map[uint16]bool{1265: true, 1292: true}

var (
	keyName    = regexp.MustCompile(`for key '([^']*)'$`)
	columnName = regexp.MustCompile(`(?:for column|[Cc]olumn) '([^']*)'[^']*$`)
)

// explain tells errors that may pass from those that do not, and leaves the rows' values and
// the statement out of them. Those of statements that are about no table may all pass.
func explain(table string, strict bool, err error) error {
	var me *mysql.MySQLError
	switch {
	case err == nil || errors.Is(err, errLost) || errors.Is(err, context.Canceled) || isFinal(err):
		return err
	case errors.Is(err, mysql.ErrPktTooLarge):
		return final("table %s: a row is larger than the target's max_allowed_packet: raise it there", table)
	case !errors.As(err, &me):
		return fmt.Errorf("the target: %w", err)
	case passing[me.Number] || table == "":
		return &passingError{fmt.Sprintf("the target answered with error %d", me.Number), err}
	case strict && judged[me.Number]:
		return errWarned
	}
	what := fmt.Sprintf("table %s: the target refused a row with error %d", table, me.Number)
	if m := keyName.FindStringSubmatch(me.Message); m != nil && mysqlconn.IsDuplicateKey(err) {
		return final("%s: another row has its value of the unique key %s: the target was not equal to the source before, or somebody writes to it; seed the landing again", what, m[1])
	}
	if m := columnName.FindStringSubmatch(me.Message); m != nil {
		return final("%s in column %s: see that both sides' tables are the same, and resume", what, m[1])
	}
	return final("%s: see that both sides' tables are the same and what the account may do there, and resume", what)
}

// passingError hides the server's text, which may have values in it.
type passingError struct {
	text string
	err  error
}

func (e *passingError) Error() string { return e.text }
func (e *passingError) Unwrap() error { return e.err }
