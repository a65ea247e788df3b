package appschema_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/load/appschema"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/shardid"
)

func database(t *testing.T, target mysqlconn.Target, name string) *sql.DB {
	t.Helper()
	admin, err := mysqlconn.Connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	target.Database = name
	// An application's session: the server's own, strict sql_mode.
	db, err := mysqlconn.Connect(t.Context(), target, mysqlconn.WithParam("sql_mode", "@@GLOBAL.sql_mode"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func tables(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// checksums are the server's own checksum and the count of each table.
func checksums(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range tables(t, db) {
		var name string
		var sum, count int64
		if err := db.QueryRowContext(t.Context(), "CHECKSUM TABLE "+table).Scan(&name, &sum); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&count); err != nil {
			t.Fatal(err)
		}
		if count == 0 {
			t.Errorf("%s is empty", table)
		}
		out[table] = fmt.Sprint(count, " rows, ", sum)
	}
	return out
}

func TestDataIsAFunctionOfItsSizeAndSeed(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	one, two, other := database(t, srv.Target("one"), "one"), database(t, srv.Target("two"), "two"), database(t, srv.Target("other"), "other")
	size := appschema.Size{Teams: 60, MessagesPerTeam: 30}
	first := appschema.FirstTeam(123)
	if err := appschema.Populate(t.Context(), one, first, size); err != nil {
		t.Fatal(err)
	}
	size.Parallel = 1
	if err := appschema.Populate(t.Context(), two, first, size); err != nil {
		t.Fatal(err)
	}
	size.Seed = 7
	if err := appschema.Populate(t.Context(), other, first, size); err != nil {
		t.Fatal(err)
	}
	a, b, c := checksums(t, one), checksums(t, two), checksums(t, other)
	if len(a) < 16 {
		t.Errorf("%d tables: %v", len(a), a)
	}
	for table, sum := range a {
		if b[table] != sum {
			t.Errorf("%s: %s with four connections, %s with one", table, sum, b[table])
		}
		if c[table] == sum {
			t.Errorf("%s: another seed gives the same data", table)
		}
	}
	if err := appschema.Populate(t.Context(), one, first, size); !mysqlconn.IsDuplicateKey(err) {
		t.Errorf("filling twice: %v, want a duplicate key", err)
	}
}

func TestEveryTableIsInnoDBWithAPrimaryKeyAndATeam(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	db := database(t, srv.Target("shard"), "slack")
	if err := appschema.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := appschema.Create(t.Context(), db); err != nil {
		t.Errorf("creating twice: %v", err)
	}
	for _, table := range tables(t, db) {
		var engine string
		var keys, team int
		err := db.QueryRowContext(t.Context(), `SELECT engine,
			(SELECT COUNT(*) FROM information_schema.table_constraints c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND constraint_type = 'PRIMARY KEY'),
			(SELECT COUNT(*) FROM information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND column_name = 'team_id')
			FROM information_schema.tables t WHERE table_schema = DATABASE() AND table_name = ?`, table).Scan(&engine, &keys, &team)
		if err != nil {
			t.Fatal(err)
		}
		if engine != "InnoDB" || keys != 1 || team != 1 {
			t.Errorf("%s: engine %s, %d primary keys, %d team_id", table, engine, keys, team)
		}
	}
}

func TestDefaultSizeIsFiftyMegabytes(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	db := database(t, srv.Target("shard"), "slack")
	started := time.Now()
	if err := appschema.Populate(t.Context(), db, appschema.FirstTeam(4567), appschema.DefaultSize()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(started)
	size, messages := bytes(t, db)
	t.Logf("%d MB in %v; messages and reactions take %d MB, %d bytes a message", size>>20, took.Round(time.Millisecond), messages>>20, messages/80000)
	if size < 40<<20 || size > 90<<20 {
		t.Errorf("%d bytes, want about 50 MB", size)
	}
}

func bytes(t *testing.T, db *sql.DB) (all, messages int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, table := range tables(t, db) {
		var n int64
		var ignored, kind, text sql.NullString
		if err := db.QueryRowContext(ctx, "ANALYZE TABLE "+table).Scan(&ignored, &kind, &text, &ignored); err != nil {
			t.Fatal(err)
		}
		err := db.QueryRowContext(ctx, "SELECT /*+ SET_VAR(information_schema_stats_expiry = 0) */ data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", table).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		all += n
		if table == "messages" || table == "reactions" {
			messages += n
		}
	}
	return all, messages
}

func TestMainsRows(t *testing.T) {
	t.Parallel()
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	db := database(t, srv.Target("mains"), "mains")
	places := []appschema.Place{{Side: "a", Host: "h1", Port: 3306, Database: "slack"}, {Side: "b", Host: "h2", Port: 3307, Database: "slack"}}
	for range 2 { // again: the rows are replaced
		for _, id := range []uint16{123, 4567} {
			if err := appschema.MainsRows(t.Context(), db, shardid.ID(id), appschema.Teams(shardid.ID(id), 12_000), places); err != nil {
				t.Fatal(err)
			}
		}
	}
	var teams, shards, doubled int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT shard), COUNT(*) - COUNT(DISTINCT team_id) FROM teams").Scan(&teams, &shards, &doubled); err != nil {
		t.Fatal(err)
	}
	if teams != 24_000 || shards != 2 || doubled != 0 {
		t.Errorf("%d teams on %d shards, %d doubled", teams, shards, doubled)
	}
}
