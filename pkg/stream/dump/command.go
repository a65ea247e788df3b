package dump

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// registerReplica is COM_REGISTER_SLAVE: SHOW REPLICAS then shows the reader as vifl.
func registerReplica(id uint32) []byte {
	const name = "vifl"
	b := []byte{0, 0, 0, 0, mysql.COM_REGISTER_SLAVE}
	b = binary.LittleEndian.AppendUint32(b, id)
	b = append(append(b, byte(len(name))), name...)
	b = append(b, 0, 0)                      // no user, no password
	b = append(b, 0, 0)                      // no port
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0) // rank and source's id, which nobody reads
}

// binlogDump is COM_BINLOG_DUMP.
func binlogDump(id uint32, file string, pos uint32) []byte {
	b := []byte{0, 0, 0, 0, mysql.COM_BINLOG_DUMP}
	b = binary.LittleEndian.AppendUint32(b, pos)
	b = append(b, 0, 0) // no flags: wait for more at the end
	b = binary.LittleEndian.AppendUint32(b, id)
	return append(b, file...)
}

// unusedServerID is a random one that no replica of the server uses: the server ends the
// older of two replicas with the same. Ids of Vitess' tablets and of DBAs are small.
func (s Source) unusedServerID(ctx context.Context) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	db, err := mysqlconn.Connect(ctx, s.Target)
	if err != nil {
		if mysqlconn.IsAccessDenied(err) {
			return 0, permanent{err}
		}
		return 0, err
	}
	defer db.Close()
	used, err := replicaIDs(ctx, db)
	if err != nil {
		return 0, mysqlconn.Explain(s.Target, err)
	}
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("random server id: %w", err)
		}
		id := binary.LittleEndian.Uint32(b[:]) | 1<<31
		if !used[id] {
			return id, nil
		}
	}
}

func replicaIDs(ctx context.Context, db *sql.DB) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	var own uint32
	if err := db.QueryRowContext(ctx, "select @@global.server_id").Scan(&own); err != nil {
		return nil, err
	}
	used[own] = true
	rows, err := db.QueryContext(ctx, "show replicas")
	if mysqlconn.Number(err) == 1064 { // before 8.0.22
		rows, err = db.QueryContext(ctx, "show slave hosts")
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var id uint32
		rest := make([]any, len(columns))
		rest[0] = &id
		for n := 1; n < len(rest); n++ {
			rest[n] = new(sql.RawBytes)
		}
		if err := rows.Scan(rest...); err != nil {
			return nil, err
		}
		used[id] = true
	}
	return used, rows.Err()
}
