package transaction_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

const (
	makeTable  = "create table slack.t (id bigint auto_increment primary key, n int, v varchar(100), j json, b blob)"
	makeOther  = "create table other.t (id int auto_increment primary key, n int, j json)"
	insert     = "insert into slack.t (n, v, j, b) values (7, 'seven', '{\"a\": 1, \"b\": \"0123456789012345678901234567890\"}', 'x')"
	elsewhere  = "insert into other.t (n, j) values (1, '{\"a\": 1, \"b\": \"0123456789012345678901234567890\"}')"
	marker     = "insert into slack.t (n, v) values (-1, 'behind')"
	compressed = "set binlog_transaction_compression=on"
)

func fresh(t *testing.T, l *legacy) {
	t.Helper()
	l.run(t, "drop database if exists slack", "drop database if exists other", "create database slack", "create database other", makeTable, makeOther)
	l.copySchema(t, "slack")
}

// passes: what the events of sessions of every kind change is what the server changed.
func passes(t *testing.T, l *legacy) {
	for _, c := range []struct {
		name    string
		run     []string
		changes int
	}{
		{"rows", []string{insert, insert, "update slack.t set n = n + 1", "delete from slack.t where id > 1"}, 5},
		{"several tables, and a savepoint", []string{"begin", insert, elsewhere, "savepoint x", insert, "commit"}, 2},
		{"rolled back", []string{"begin", insert, "rollback"}, 0},
		{"rolled back to a savepoint", []string{"begin", insert, "savepoint a", insert, "rollback to a", "release savepoint a", insert, "commit"}, 2},
		{"accounts", []string{"create user y identified by 'secret'", "grant select on slack.* to y", "use slack", "alter user y identified by 'secret2'", "set password for y = 'x'", "rename user y to z", "create role r", "grant r to z", "set default role r to z", "revoke r from z", "drop user z", "drop role r"}, 0},
		{"flush and analyze", []string{"flush privileges", "analyze table slack.t", "flush tables"}, 0},
		{"rotation", []string{insert, "flush binary logs", insert, "flush binary logs", "flush binary logs"}, 2},
		{"other databases", []string{"use slack", "create table other.more (id int)", "alter table other.more add column n int", "insert into other.more values (1, 1)", "truncate other.more", "create table other.made select * from other.t", "drop table other.more, other.made", "create database third", "alter database third character set latin1", "drop database third", "use other", "create view w as select 1 as one", "drop view w", "create procedure p() select 1", "drop procedure p", "create trigger tr before insert on t for each row set new.n = 1", "drop trigger tr"}, 0},
		{"temporary tables", []string{"use slack", "create temporary table tmp (id int)", "insert into tmp values (1)", "begin", "insert into t (n) select id from tmp", "commit", "drop temporary table tmp", "drop temporary table if exists never"}, 1},
		{"other database's partial JSON and short images", []string{"set binlog_row_image=minimal, binlog_row_value_options=partial_json", elsewhere, "update other.t set j = json_set(j, '$.a', 2)", "delete from other.t"}, 0},
		{"other database's statements", []string{"set binlog_format=statement", "set @x = 3", "insert into other.t (n) values (@x)", "insert into other.t (n) values (rand() * 10)", "use slack", "update other.t set n = 1", "delete from other.t"}, 0},
		{"rows query", []string{"set binlog_rows_query_log_events=on", insert, elsewhere, insert}, 2},
		{"compressed", []string{compressed, insert, "begin", insert, elsewhere, "update slack.t set v = repeat('x', 50)", "commit", elsewhere}, 4},
		{"compressed with statements elsewhere", []string{compressed, "set binlog_format=statement", "insert into other.t (n) values (1)"}, 0},
		{"no checksum", []string{"set global binlog_checksum=none", insert, "set global binlog_checksum=crc32", insert}, 2},
		{"MyISAM elsewhere", []string{"create table other.my (id int) engine=MyISAM", "begin", insert, "insert into other.my values (1)", "rollback", "drop table other.my"}, 0},
		{"statements elsewhere, rolled back in part", []string{"create table other.my (id int) engine=MyISAM", "set binlog_format=statement", "begin", elsewhere, "savepoint a", "insert into other.my values (1)", elsewhere, "rollback to a", "commit", "begin", elsewhere, "insert into other.my values (1)", "rollback", "drop table other.my"}, 0},
		{"xa", []string{"xa start 'x', 'y', 7", insert, "xa end 'x', 'y', 7", "xa prepare 'x', 'y', 7", "xa commit 'x', 'y', 7"}, 1},
		{"xa rolled back", []string{"xa start 'x'", insert, "xa end 'x'", "xa prepare 'x'", "xa rollback 'x'"}, 0},
		{"xa in one phase", []string{"xa start 'x'", insert, insert, "xa end 'x'", "xa commit 'x' one phase"}, 2},
		{"xa elsewhere", []string{"xa start 'it''s'", elsewhere, "xa end 'it''s'", "xa prepare 'it''s'", "xa commit 'it''s'"}, 0},
		{"xa rolled back before it is prepared", []string{"xa start 'x'", insert, "xa end 'x'", "xa rollback 'x'"}, 0},
		{"binlog_row_metadata full", []string{"set global binlog_row_metadata=full", insert, "set global binlog_row_metadata=minimal"}, 1},
		{"minimal rows that are whole", []string{"set binlog_row_image=noblob", insert}, 1},
		{"nothing", []string{"set gtid_next='anonymous'", "begin", "commit", "set gtid_next=automatic"}, 0},
		{"a large transaction", []string{"begin", "insert into slack.t (n, v) with recursive s(i) as (select 1 union all select i + 1 from s where i < 900) select i, repeat('x', 100) from s", "update slack.t set v = 'y'", "delete from slack.t", "commit"}, 2700},
	} {
		t.Run(c.name, func(t *testing.T) {
			fresh(t, l)
			from := l.end(t)
			l.run(t, c.run...)
			to := l.end(t)
			parts, err := l.read(t, l.reader("slack"), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if from != to && parts[len(parts)-1].End != to {
				t.Errorf("ended at %s, the server at %s", parts[len(parts)-1].End, to)
			}
			if n := l.target(t).apply(parts); n != c.changes {
				t.Errorf("found %d changes, expected %d", n, c.changes)
			}
			l.same(t, "slack")
			// Every End is a place to go on from.
			for i, p := range parts {
				if !p.Last || len(p.Changes) == 0 && i%5 != 0 {
					continue
				}
				if strings.HasPrefix(c.name, "xa") && len(p.Changes) == 0 {
					continue // behind the PREPARE the changes are not known
				}
				if p.End == to {
					continue
				}
				again, err := l.read(t, l.reader("slack"), p.End, to)
				if err != nil || len(again) != len(parts)-i-1 {
					t.Errorf("from %s: %d parts of %d, %v", p.End, len(again), len(parts)-i-1, err)
				}
			}
		})
	}
}

// blocks: what cannot be carried over ends the reading exactly before it.
func blocks(t *testing.T, l *legacy) {
	for _, c := range []struct {
		name, kind string
		run        []string
	}{
		{"partial JSON", "partial update", []string{"set binlog_row_value_options=partial_json", "update slack.t set j = json_set(j, '$.a', 2) where id = 1"}},
		{"partial JSON, compressed", "partial update", []string{compressed, "set binlog_row_value_options=partial_json", "update slack.t set j = json_set(j, '$.a', 2) where id = 1"}},
		{"minimal image of an update", "incomplete rows", []string{"set binlog_row_image=minimal", "update slack.t set n = 100 where id = 1"}},
		{"minimal image of an insert", "incomplete rows", []string{"set binlog_row_image=minimal", "insert into slack.t (n) values (1)"}},
		{"minimal image of a delete", "incomplete rows", []string{"set binlog_row_image=minimal", "delete from slack.t"}},
		{"image without blobs", "incomplete rows", []string{"set binlog_row_image=noblob", "update slack.t set n = 1"}},
		{"behind rows in a transaction", "incomplete rows", []string{"begin", insert, "set binlog_row_image=minimal", "delete from slack.t", "commit"}},
		{"statement", "INSERT", []string{"set binlog_format=statement", insert}},
		{"statement from another database", "UPDATE", []string{"set binlog_format=statement", "use other", "update slack.t set n = 1"}},
		{"statement that changes two databases", "UPDATE", []string{"set binlog_format=statement", "use other", "update other.t, slack.t set slack.t.n = 1, other.t.n = 2"}},
		{"statement in a comment", "INSERT", []string{"set binlog_format=statement", "/*!50000 insert into slack.t (n) values (1) */"}},
		{"statement with variables", "INSERT", []string{"set binlog_format=statement", "set @x = 'y'", "insert into slack.t (n, v) values (rand() * 10, @x)"}},
		{"statement, compressed", "INSERT", []string{compressed, "set binlog_format=statement", insert}},
		{"trigger of another database", "INSERT", []string{"set binlog_format=statement", "insert into other.triggered values (1)"}},
		{"alter table", "ALTER TABLE", []string{"alter table slack.t add column z int"}},
		{"alter table from another database", "ALTER TABLE", []string{"use other", "alter table slack.t add column z int"}},
		{"alter table in disguise", "ALTER TABLE", []string{"use slack", "/* from job 7 */ /*!40101 aLtEr*/\t/* x */ tAbLe/**/t\n\tadd z int"}},
		{"drop hidden in a comment", "DROP TABLE", []string{"create table other.a (id int)", "drop table other.a /*!90000 , slack.t */"}},
		{"truncate", "TRUNCATE", []string{"truncate slack.t"}},
		{"create", "CREATE TABLE", []string{"create table slack.more (id int)"}},
		{"create as select", "CREATE TABLE", []string{"use other", "create table slack.made select * from other.t"}},
		{"create as select, compressed", "CREATE TABLE", []string{compressed, "use slack", "create table made select * from t"}},
		{"rename into another database", "RENAME TABLE", []string{"rename table slack.t to other.gone"}},
		{"rename out of another database", "RENAME TABLE", []string{"create table other.come (id int)", "use other", "rename table come to slack.come"}},
		{"drop both", "DROP TABLE", []string{"create table other.a (id int)", "drop table other.a, slack.t"}},
		{"index", "CREATE INDEX", []string{"create index nn on slack.t (n)"}},
		{"trigger", "CREATE", []string{"use slack", "create trigger tr before insert on t for each row set new.n = 1"}},
		{"view", "CREATE", []string{"create view slack.w as select 1 as one"}},
		{"drop database", "DROP DATABASE", []string{"drop database slack"}},
		{"xa prepared before", "XA COMMIT", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fresh(t, l)
			l.run(t, insert, "create table other.triggered (id int)", "use other", "create trigger other.tt after insert on triggered for each row insert into slack.t (n) values (1)")
			if c.name == "xa prepared before" {
				l.run(t, "xa start 'x'", insert, "xa end 'x'", "xa prepare 'x'")
				c.run = []string{"xa commit 'x'"}
			}
			from := l.end(t)
			l.run(t, marker)
			before := l.end(t)
			for _, q := range c.run {
				if strings.HasPrefix(q, "create table other.a ") || strings.HasPrefix(q, "create table other.come ") {
					l.run(t, q)
					before = l.end(t)
				}
			}
			var rest []string
			for _, q := range c.run {
				if !strings.HasPrefix(q, "create table other.a ") && !strings.HasPrefix(q, "create table other.come ") {
					rest = append(rest, q)
				}
			}
			l.run(t, rest...)
			r := transaction.New(l.source(), "slack", l.tables("slack"), limit)
			if c.name == "alter table in disguise" || strings.HasPrefix(c.name, "alter") || strings.HasPrefix(c.name, "drop") || strings.HasPrefix(c.name, "rename into") {
				// The table as it was when the landing was seeded.
				r = transaction.New(l.source(), "slack", l.tables("copied"), limit)
			}
			parts, err := l.read(t, r, from, l.end(t))
			var b *transaction.Blocked
			if !errors.As(err, &b) {
				t.Fatalf("read %d parts, %v; expected to be blocked", len(parts), err)
			}
			if !strings.HasPrefix(b.Kind, c.kind) {
				t.Errorf("blocked by %q (%v), expected %q", b.Kind, b, c.kind)
			}
			if b.At != before || parts[len(parts)-1].End != before {
				t.Errorf("blocked at %s behind a part that ends at %s, expected %s", b.At, parts[len(parts)-1].End, before)
			}
		})
	}
}

// parts: a transaction larger than the limit comes in parts, and of the reader no more than
// that is ever in memory.
func parts(t *testing.T, l *legacy) {
	for _, compress := range []string{"off", "on"} {
		fresh(t, l)
		from := l.end(t)
		l.run(t, insert, "set binlog_transaction_compression="+compress, "begin", "insert into slack.t (n, v) with recursive s(i) as (select 1 union all select i + 1 from s where i < 1000) select i, repeat('x', 100) from s", "update slack.t set v = 'y'", "commit", marker)
		r := transaction.New(l.source(), "slack", l.tables("slack"), 20000)
		all, err := l.read(t, r, from, l.end(t))
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, p := range all {
			if p.Bytes > 21000 {
				t.Errorf("a part of %d bytes", p.Bytes)
			}
			if p.Last {
				last++
			} else if !p.End.IsZero() || len(p.Changes) == 0 {
				t.Errorf("a part that is not the last has End %s, %d changes", p.End, len(p.Changes))
			}
		}
		if len(all) < 10 || last != 3 {
			t.Errorf("found %d parts, %d of them the last", len(all), last)
		}
		l.target(t).apply(all)
		l.same(t, "slack")

		l.run(t, "xa start 'big'", "update slack.t set v = repeat('z', 90)", "xa end 'big'", "xa prepare 'big'")
		from = l.end(t)
		l.run(t, "xa rollback 'big'", elsewhere)
		if _, err := l.read(t, l.reader("slack"), from, l.end(t)); err != nil {
			t.Errorf("a rollback of an unknown transaction: %v", err)
		}
		from = l.end(t)
		l.run(t, "xa start 'big'", "update slack.t set v = repeat('z', 90)", "xa end 'big'", "xa prepare 'big'", elsewhere) // the prepared one locks the table
		at := l.end(t)
		l.run(t, "xa commit 'big'")
		var b *transaction.Blocked
		small := transaction.New(l.source(), "slack", l.tables("slack"), 1000)
		if _, err := l.read(t, small, from, l.end(t)); !errors.As(err, &b) || b.At != at {
			t.Errorf("a prepared transaction larger than the limit: %v", err)
		}
	}
}

// xaOverConnections: a reader keeps what is prepared when its connection breaks; a new one
// is blocked at the commit, unless it is told where to begin.
func xaOverConnections(t *testing.T, l *legacy) {
	fresh(t, l)
	from := l.end(t)
	l.run(t, "xa start 'x'", insert, "xa end 'x'", "xa prepare 'x'")
	r, middle := l.reader("slack"), l.end(t)
	if _, err := l.read(t, r, from, middle); err != nil {
		t.Fatal(err)
	}
	l.run(t, elsewhere, "xa commit 'x'")
	all, err := l.read(t, r, middle, l.end(t))
	if err != nil {
		t.Fatal(err)
	}
	l.target(t).apply(all)
	l.same(t, "slack")
	if n := len(all); n != 2 || len(all[1].Changes) != 1 {
		t.Errorf("found %d parts", n)
	}
	// A part that is not taken changes nothing of what is known.
	mine := errors.New("not now")
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := r.Run(ctx, middle, func(p *transaction.Part) error {
			if len(p.Changes) > 0 {
				return mine
			}
			return nil
		}); !errors.Is(err, mine) {
			t.Errorf("a part that is not taken: %v", err)
		}
		cancel()
	}
	// What was decided already is known to who goes back to a place before.
	if again, err := l.read(t, r, middle, l.end(t)); err != nil || len(again) != 2 || len(again[1].Changes) != 1 {
		t.Errorf("read again: %d parts, %v", len(again), err)
	}
	if again, err := l.read(t, r, from, l.end(t)); err != nil || len(again) != 3 || len(again[2].Changes) != 1 {
		t.Errorf("read again from before the PREPARE: %d parts, %v", len(again), err)
	}
	var b *transaction.Blocked
	if _, err := l.read(t, l.reader("slack"), middle, l.end(t)); !errors.As(err, &b) {
		t.Errorf("a new reader behind the PREPARE: %v", err)
	}
	fresh := l.reader("slack")
	fresh.Since = all[0].Pending
	if again, err := l.read(t, fresh, middle, l.end(t)); err != nil || len(again) != 2 || len(again[1].Changes) != 1 || again[1].End != all[1].End {
		t.Errorf("a new reader that begins at %s, where the transaction does: %d parts, %v", fresh.Since, len(again), err)
	}
	if all[0].Pending != from || !all[1].Pending.IsZero() {
		t.Errorf("the oldest that is prepared begins at %s, then %s; expected %s, and nothing behind the commit", all[0].Pending, all[1].Pending, from)
	}
	// Between that place and the one to go on from, transactions may be decided that began before.
	l.run(t, "xa start 'a'", insert, "xa end 'a'", "xa prepare 'a'")
	l.run(t, "xa start 'b'", insert, "xa end 'b'", "xa prepare 'b'")
	l.run(t, "xa commit 'a'")
	both, err := l.read(t, r, all[1].End, l.end(t))
	if err != nil {
		t.Fatal(err)
	}
	last := both[len(both)-1]
	l.run(t, "xa commit 'b'")
	later := l.reader("slack")
	later.Since = last.Pending
	if again, err := l.read(t, later, last.End, l.end(t)); err != nil || len(again) != 1 || len(again[0].Changes) != 1 {
		t.Errorf("a new reader that begins between two that are prepared: %d parts, %v", len(again), err)
	}
	// A place inside a transaction is none to go on from.
	odd := middle
	odd.Pos++
	if again, err := l.read(t, fresh, odd, l.end(t)); err == nil || !dump.IsPermanent(err) {
		t.Errorf("going on inside a transaction: %d parts, %v", len(again), err)
	}
}

// connections: what ends a reading, and of what kind the error is.
func connections(t *testing.T, l *legacy) {
	fresh(t, l)
	from := l.end(t)
	l.run(t, insert)
	to := l.end(t)
	nobody := func(*transaction.Part) error { return nil }
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(ctx)
		cause := errors.New("enough")
		err := l.reader("slack").Run(ctx, from, func(*transaction.Part) error { cancel(cause); return nil })
		if !errors.Is(err, cause) {
			t.Error(err)
		}
	})
	t.Run("handler's error", func(t *testing.T) {
		mine := errors.New("mine")
		if err := l.reader("slack").Run(ctx, from, func(*transaction.Part) error { return mine }); err != mine {
			t.Error(err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		killed := false
		err := l.reader("slack").Run(ctx, from, func(*transaction.Part) error {
			if !killed {
				killed = true
				// Those of readers that went away end only at their next heartbeat.
				for _, q := range l.rows(t, "select concat('kill ', id) from information_schema.processlist where command = 'Binlog Dump' and user = 'vifl'") {
					_, _ = l.db.Exec(strings.TrimSuffix(strings.TrimPrefix(q, "0="), "|"))
				}
			}
			return nil
		})
		if err == nil || dump.IsPermanent(err) || ctx.Err() != nil {
			t.Errorf("%v, permanent %t", err, dump.IsPermanent(err))
		}
	})
	t.Run("two at once", func(t *testing.T) {
		// The server ends the older of two readers with the same id or uuid.
		both, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- l.reader("slack").Run(both, from, nobody) }()
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
	t.Run("other server", func(t *testing.T) {
		source := l.source()
		source.Server = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
		other := from
		other.Server = source.Server
		err := transaction.New(source, "slack", l.tables("slack"), limit).Run(ctx, other, nobody)
		if !errors.Is(err, dump.ErrOtherServer) || !dump.IsPermanent(err) {
			t.Error(err)
		}
		if err := l.reader("slack").Run(ctx, other, nobody); !dump.IsPermanent(err) {
			t.Error(err)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		source := l.source()
		source.Target.Password = "other"
		if err := transaction.New(source, "slack", l.tables("slack"), limit).Run(ctx, from, nobody); !dump.IsPermanent(err) {
			t.Error(err)
		}
	})
	t.Run("position inside a transaction", func(t *testing.T) {
		for pos := from.Pos + 1; pos < to.Pos; pos += 7 {
			inside := from
			inside.Pos = pos
			if all, err := l.read(t, l.reader("slack"), inside, to); err == nil {
				t.Errorf("read %d parts from %s", len(all), inside)
			}
		}
	})
	t.Run("position behind the end", func(t *testing.T) {
		behind := l.end(t)
		behind.Pos += 1000
		if err := l.reader("slack").Run(ctx, behind, nobody); !errors.Is(err, dump.ErrGone) || !dump.IsPermanent(err) {
			t.Error(err)
		}
	})
	t.Run("no such table", func(t *testing.T) {
		var b *transaction.Blocked
		r := transaction.New(l.source(), "slack", l.tables("mysql"), limit)
		if _, err := l.read(t, r, from, to); !errors.As(err, &b) || b.At != from {
			t.Error(err)
		}
	})
	t.Run("purged", func(t *testing.T) {
		l.run(t, "flush binary logs", "purge binary logs to '"+next(from).File+"'")
		if err := l.reader("slack").Run(ctx, from, nobody); !errors.Is(err, dump.ErrGone) || !dump.IsPermanent(err) {
			t.Error(err)
		}
	})
}

func next(p position.FilePos) position.FilePos {
	var n int
	base := p.File[:strings.LastIndexByte(p.File, '.')]
	_, _ = fmt.Sscanf(p.File[len(base)+1:], "%d", &n)
	p.File = fmt.Sprintf("%s.%06d", base, n+1)
	return p
}
