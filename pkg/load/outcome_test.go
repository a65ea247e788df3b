package load

import (
	"database/sql/driver"
	"fmt"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestJudge(t *testing.T) {
	my := func(n uint16, text string) error {
		return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n, Message: text})
	}
	for _, c := range []struct {
		err                       error
		before, statement, commit verdict
	}{
		{my(1290, "running with the --super-read-only option"), again, again, again},
		{my(1836, "read-only mode"), again, again, again},
		{my(3032, "offline mode"), again, again, again},
		{my(1053, "shutdown in progress"), again, lost, lost},
		{my(1213, "deadlock"), sameAgain, sameAgain, sameAgain},
		{my(1062, "duplicate"), fault, fault, lost},
		{my(1146, "no such table"), fault, fault, lost},
		{my(1040, "too many connections"), again, lost, lost},
		{my(1105, `target: legacy_0123.0.primary: No partition found for tabletType primary in keyspace legacy_0123`), again, again, lost},
		{my(1105, `target: k.0.primary: vttablet: rpc error: code = Unavailable desc = operation not allowed in state NOT_SERVING`), again, again, lost},
		{my(1105, "vttablet: rpc error: code = Unavailable desc = transport is closing"), fault, lost, lost},
		{mysql.ErrInvalidConn, again, lost, lost},
		{io.EOF, again, lost, lost},
		{driver.ErrBadConn, again, again, again},
	} {
		for p, want := range map[phase]verdict{before: c.before, statement: c.statement, commit: c.commit} {
			if got := judge(c.err, p); got != want {
				t.Errorf("judge(%v, phase %d) = %d, want %d", c.err, p, got, want)
			}
		}
	}
}
