package vitess

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"vitess.io/vitess/go/sqltypes"

	querypb "vitess.io/vitess/go/vt/proto/query"
	tabletmanagerdatapb "vitess.io/vitess/go/vt/proto/tabletmanagerdata"
)

// Row is a row by column name; a NULL is absent.
type Row map[string]string

// Result is what a statement gave.
type Result struct {
	Rows     []Row
	Affected uint64
	InsertID uint64
}

// VReplicationExec runs one statement on _vt.vreplication on the primary, which starts and
// stops the streams accordingly. When the reply is lost the statement may have taken
// effect: read the row before deciding.
func (l *Landing) VReplicationExec(ctx context.Context, query string) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := l.primaryRecord(ctx)
	if err != nil {
		return nil, err
	}
	qr, err := l.f.tablets.VReplicationExec(ctx, r, query)
	if err != nil {
		return nil, l.errorf("primary %s: vreplication: %w", fromRecord(r).Alias, oneLine{err})
	}
	return result(qr), nil
}

// read runs a SELECT on the primary as Vitess' own administrator, for the tables of its
// sidecar database that no other call shows.
func (l *Landing) read(ctx context.Context, query string) ([]Row, error) {
	const maxRows = 10000
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := l.primaryRecord(ctx)
	if err != nil {
		return nil, err
	}
	qr, err := l.f.tablets.ExecuteFetchAsDba(ctx, r, false, &tabletmanagerdatapb.ExecuteFetchAsDbaRequest{Query: []byte(query), MaxRows: maxRows})
	if err != nil {
		return nil, l.errorf("primary %s: %w", fromRecord(r).Alias, oneLine{err})
	}
	return result(qr).Rows, nil
}

func result(qr *querypb.QueryResult) *Result {
	r := sqltypes.Proto3ToResult(qr)
	res := &Result{Affected: r.RowsAffected, InsertID: r.InsertID}
	for _, values := range r.Rows {
		row := make(Row, len(values))
		for i, v := range values {
			if !v.IsNull() {
				row[r.Fields[i].Name] = v.ToString()
			}
		}
		res.Rows = append(res.Rows, row)
	}
	return res
}

// GTIDExecuted is the server's gtid_executed, newlines removed.
func GTIDExecuted(ctx context.Context, db *sql.DB) (string, error) {
	var gtid string
	if err := db.QueryRowContext(ctx, "select replace(@@global.gtid_executed, '\\n', '')").Scan(&gtid); err != nil {
		return "", fmt.Errorf("reading gtid_executed: %w", err)
	}
	return gtid, nil
}

// WaitGTID waits until the server has executed all of the GTID set. The wait ends with
// ctx, or after two minutes.
func WaitGTID(ctx context.Context, db *sql.DB, gtid string) error {
	const longest = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		// Slices, so that the server does not wait on for somebody who went away.
		var timedOut int
		if err := db.QueryRowContext(ctx, "select wait_for_executed_gtid_set(?, 1)", gtid).Scan(&timedOut); err != nil {
			return fmt.Errorf("waiting for gtid %s: %w", gtid, err)
		}
		if timedOut == 0 {
			return nil
		}
	}
}

// oneLine prints an error of a remote call on one line; Vitess' own have several.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }
