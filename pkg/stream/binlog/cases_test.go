package binlog

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/streamtest"
)

// otherwise are cases for which this stream refuses what the file says can be carried over.
var otherwise = map[string]string{"071-generated-column-as-key": "generated column in the primary key"}

// long are cases with so large values that one way must do when time is short.
var long = []string{"021-long-values", "022-wide-rows-one-transaction", "053-differ-blob-tail", "090-thousand-columns", "132-fifty-thousand-rows"}

type sqlCase struct{ streamtest.Case }

// TestCases runs the rows and the changes of each case through the stream and compares what
// both sides have stored, by queries that share nothing with it. A case that must be refused
// is refused at the start, or stops the stream for good.
func TestCases(t *testing.T) {
	small := options()
	small.Limit, small.Rows = 4096, 7
	ways := []struct {
		name string
		o    Options
		// atOnce applies rows and changes when all of them are there.
		atOnce bool
	}{
		{"as they come", options(), false},
		{"in pieces", small, true},
		{"at once", options(), true},
	}
	if os.Getenv("VIFL_TEST_LONG") == "" {
		ways = ways[:2]
	}
	outcomes := map[string]string{}
	for _, found := range streamtest.Cases(t) {
		c := sqlCase{found}
		if why, ok := otherwise[c.Name]; ok {
			c.Refuse = why
		}
		for i, way := range ways {
			if i > 0 && slices.Contains(long, c.Name) && os.Getenv("VIFL_TEST_LONG") == "" {
				break
			}
			t.Run(c.Name+"/"+way.name, func(t *testing.T) {
				outcome := c.run(t, way.o, way.atOnce)
				if before, ok := outcomes[c.Name]; ok && before != outcome {
					t.Errorf("%s, and in another way %s", outcome, before)
				}
				outcomes[c.Name] = outcome
			})
		}
	}
	if !t.Failed() {
		streamtest.Outcomes(t, "binlog", outcomes)
	}
}

func (c sqlCase) run(t *testing.T, o Options, atOnce bool) (outcome string) {
	r := emptied(t, o)
	script(t, world.source, c.Sections["schema"]...)
	script(t, world.target, c.Sections["schema"]...)
	if err := r.stream.Start(within(t, time.Minute), end(t)); err != nil {
		if c.Refuse == "" || !streamtest.Says(err.Error(), c.Refuse) {
			t.Fatalf("Start: %v, expected %q", err, c.Refuse)
		}
		return "refused"
	}
	if atOnce {
		if err := r.stream.Stop(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	script(t, world.source, c.Sections["rows"]...)
	if !atOnce {
		r.stopAtEnd()
		equal(t)
		r.resume()
	}
	script(t, world.source, c.Sections["changes"]...)
	to := end(t)
	err := r.stream.StopAt(within(t, time.Minute), to)
	if c.Refuse != "" {
		if !errors.Is(err, stream.ErrBlocked) || !streamtest.Says(err.Error(), c.Refuse) {
			t.Fatalf("found %v, expected it blocked, and %q", err, c.Refuse)
		}
		if err := r.stream.Resume(within(t, time.Minute)); !errors.Is(err, stream.ErrBlocked) {
			t.Errorf("Resume: %v, expected ErrBlocked", err)
		}
		st, err := r.stream.Status(within(t, time.Minute))
		if err != nil || st.Position == to {
			t.Errorf("status %+v, %v, expected a position before the end", st, err)
		}
		return "stops: " + st.Blocked
	}
	if err != nil {
		t.Fatal(err)
	}
	equal(t)
	// What the check section selects must be the same on both sides.
	if a, b := script(t, world.source, c.Sections["check"]...), script(t, world.target, c.Sections["check"]...); !slices.Equal(a, b) {
		t.Errorf("the check found\n%.1000q on the target, expected\n%.1000q", b, a)
	}
	return "equal"
}

func local(s *mysqld.Server) mysqlconn.Target { return s.Target(s.Name()) }

func script(t testing.TB, s *mysqld.Server, statements ...string) []string {
	t.Helper()
	return streamtest.Script(t, local(s), database, statements...)
}

// equal compares what both sides have stored in every table of the source.
func equal(t *testing.T) {
	t.Helper()
	if d := streamtest.Unequal(t, local(world.source), local(world.target), database); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}
