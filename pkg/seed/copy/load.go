package copy

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
)

// buffers are chunks' memory, kept for the next chunk.
type buffers chan []byte

func (b buffers) get() []byte {
	select {
	case buf := <-b:
		return buf[:0]
	default:
		return make([]byte, 0, 64<<10)
	}
}

func (b buffers) put(buf []byte) {
	select {
	case b <- buf:
	default:
	}
}

// session are the settings of every connection to the target. What is loaded was valid on
// the source: nothing is checked twice, and nothing goes to a binlog that is thrown away.
var session = map[string]string{
	"sql_mode":           "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'",
	"time_zone":          "'+00:00'",
	"foreign_key_checks": "0",
	"unique_checks":      "0",
	"sql_log_bin":        "0",
	"wait_timeout":       "86400",
	"net_read_timeout":   "3600",
	"net_write_timeout":  "3600",
}

func (f *fill) openTarget(ctx context.Context) error {
	var opts []mysqlconn.Option
	for k, v := range session {
		opts = append(opts, mysqlconn.WithParam(k, v))
	}
	db, err := mysqlconn.Connect(ctx, f.target, opts...)
	if err != nil {
		return err
	}
	db.SetMaxIdleConns(f.o.Loaders + 1)
	f.db = db
	f.buffers = make(buffers, 2*f.o.Loaders+len(f.src.Snapshots))
	if f.o.Scratch {
		if _, err := db.ExecContext(ctx, "SET GLOBAL local_infile=1"); err != nil {
			return f.failed("allow LOAD DATA LOCAL", err)
		}
		return f.redoLog(ctx, "DISABLE")
	}
	return nil
}

func (f *fill) redoLog(ctx context.Context, what string) error {
	if _, err := f.db.ExecContext(ctx, "ALTER INSTANCE "+what+" INNODB REDO_LOG"); err != nil {
		return f.failed(strings.ToLower(what)+" the redo log", err)
	}
	return nil
}

// createAll makes the database and its tables, without the indexes that come later.
func (f *fill) createAll(ctx context.Context) error {
	var name, create string
	err := f.src.Snapshots[0].QueryRowContext(ctx, "SHOW CREATE DATABASE "+schema.Quote(f.src.Database)).Scan(&name, &create)
	if err != nil {
		return fmt.Errorf("%s: %w", f.src.Name, err)
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return f.failed("connect", err)
	}
	defer conn.Close()
	statements := []string{create, "USE " + schema.Quote(f.src.Database)}
	for _, q := range statements {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return f.failed("create the database", err)
		}
	}
	for _, t := range f.tables {
		if _, err := conn.ExecContext(ctx, t.create); err != nil {
			return f.failed(fmt.Sprintf("create table %q", t.Name), err)
		}
	}
	return nil
}

// loadAll is one loader: it takes chunks until there are no more.
func (f *fill) loadAll(ctx context.Context) error {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return f.failed("connect", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "USE "+schema.Quote(f.src.Database)); err != nil {
		return f.failed("use the database", err)
	}
	for _, q := range []string{"SET SESSION innodb_ddl_buffer_size=67108864", "SET SESSION innodb_ddl_threads=2", "SET SESSION innodb_parallel_read_threads=2"} {
		// Since 8.0.27; without them indexes are built with less memory.
		if _, err := conn.ExecContext(ctx, q); err != nil && mysqlconn.Number(err) != 1193 {
			return f.failed("set up a connection", err)
		}
	}
	// The driver finds readers by name, in a register of the whole process.
	name := "vifl-" + rand.Text()
	var current io.Reader
	mysql.RegisterReaderHandler(name, func() io.Reader { return current })
	defer mysql.DeregisterReaderHandler(name)
	for {
		var ck *chunk
		var ok bool
		select {
		case ck, ok = <-f.chunks:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !ok {
			return nil
		}
		if ck.rows > 0 {
			current = bytes.NewReader(ck.data)
			if err := f.load(ctx, conn, ck, name); err != nil {
				return err
			}
			f.buffers.put(ck.data)
		}
		if ck.t.open.Add(-1) == 0 {
			if err := f.finish(ctx, conn, ck.t); err != nil {
				return err
			}
		}
	}
}

func (f *fill) load(ctx context.Context, conn *sql.Conn, ck *chunk, reader string) error {
	doing := fmt.Sprintf("load rows of table %q", ck.t.Name)
	res, err := conn.ExecContext(ctx, fmt.Sprintf(ck.t.load, reader))
	if err != nil {
		return f.failed(doing, err)
	}
	var warnings uint64
	if err := conn.QueryRowContext(ctx, "SHOW COUNT(*) WARNINGS").Scan(&warnings); err != nil {
		return f.failed(doing, err)
	}
	stored, err := res.RowsAffected()
	if err != nil {
		return f.failed(doing, err)
	}
	if warnings != ck.enumErrors || uint64(stored) != ck.rows {
		return f.failed(doing, fmt.Errorf("%d of %d rows stored, %d warnings%s", stored, ck.rows, warnings, firstWarnings(ctx, conn)))
	}
	ck.t.loaded.Add(ck.rows)
	f.rows.Add(ck.rows)
	f.bytes.Add(uint64(len(ck.data)))
	return nil
}

// firstWarnings are the first warnings of the statement before, for a message.
func firstWarnings(ctx context.Context, conn *sql.Conn) string {
	rows, err := conn.QueryContext(ctx, "SHOW WARNINGS LIMIT 3")
	if err != nil {
		return ""
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var level, message string
		var code int
		if err := rows.Scan(&level, &code, &message); err != nil {
			return ""
		}
		fmt.Fprintf(&b, "; %s (%d)", message, code)
	}
	return b.String()
}
