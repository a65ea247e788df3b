package querylog

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readCSV reads RFC 4180 with a line of names first: query (required), calls (default 1),
// seconds (of all calls together), rows (sent, of all calls), connection. Other columns are
// ignored, upper and lower case is the same.
func readCSV(ctx context.Context, r io.Reader, emit func(Event) error) error {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	c.LazyQuotes = true
	names, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the line of names: %w", err)
	}
	column := map[string]int{}
	for i, n := range names {
		column[strings.ToLower(strings.TrimSpace(strings.TrimPrefix(n, "\ufeff")))] = i
	}
	query, ok := column["query"]
	if !ok {
		return &Malformed{Format: CSV, Line: 1, Found: fmt.Sprintf("columns %q", names), Expected: "a column query, and any of calls, seconds, rows, connection"}
	}
	for n := 0; ; n++ {
		if n&1023 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		number := func(name string) (float64, bool, error) {
			i, ok := column[name]
			if !ok || rec[i] == "" {
				return 0, false, nil
			}
			v, err := strconv.ParseFloat(rec[i], 64)
			if err != nil || v < 0 || v > 1e18 {
				return 0, false, &Malformed{Format: CSV, Line: line, Found: fmt.Sprintf("%s %q", name, rec[i]), Expected: "a number, zero or more"}
			}
			return v, true, nil
		}
		calls, counted, err := number("calls")
		if err != nil {
			return err
		}
		if !counted {
			calls = 1
		}
		seconds, timed, err := number("seconds")
		if err != nil {
			return err
		}
		rows, _, err := number("rows")
		if err != nil {
			return err
		}
		e := Event{Text: trimStatement(rec[query]), Calls: uint64(calls), Seconds: seconds, Timed: timed, Rows: uint64(rows)}
		if i, ok := column["connection"]; ok {
			e.Connection = strings.Clone(rec[i])
		}
		if len(e.Text) > MaxStatement {
			e.Text, e.Cut = e.Text[:MaxStatement], true
		}
		if e.Text == "" || e.Calls == 0 {
			continue
		}
		if err := emit(e); err != nil {
			return err
		}
	}
}

func trimStatement(s string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), ";"))
}
