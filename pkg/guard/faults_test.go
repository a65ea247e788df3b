package guard

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/state"
)

func faults() []fault {
	set := func(name, value, back string) (do, undo []string) {
		return []string{"SET GLOBAL " + name + "=" + value}, []string{"SET GLOBAL " + name + "=" + back}
	}
	onA := func(f fault, name, value, back string) fault {
		f.name = name + "=" + value
		f.a, f.undoA = set(name, value, back)
		return f
	}
	// The format cannot be changed while a replication applier runs.
	format := func(value string) fault {
		to := func(v string) []string {
			return []string{"STOP REPLICA SQL_THREAD", "SET GLOBAL binlog_format='" + v + "'", "START REPLICA SQL_THREAD"}
		}
		return fault{name: "binlog_format=" + value, want: "P15!", says: "statement format", a: to(value), undoA: to("ROW")}
	}
	swapB := func(pick func(*site) string) func(*site, *config.Config, *config.Shard) {
		return func(s *site, _ *config.Config, shard *config.Shard) { shard.Sides["b"] = pick(s) }
	}
	return []fault{
		{name: "a server that is not there", want: "P01! P08!", says: "cannot be reached", edit: func(_ *site, _ *config.Config, shard *config.Shard) { shard.Sides["b"] = "127.0.0.1:1" }},
		{name: "wrong password", want: "P01!", says: "turned the account", edit: func(s *site, cfg *config.Config, _ *config.Shard) {
			cfg.Legacy.Admin.PasswordFile = filepath.Join(s.dir, "wrong")
		}},
		{name: "an old version", want: "P02!", facts: func(f *Facts) {
			f.Sides[1].Version, _ = legacy.ParseVersion("8.0.25")
		}},
		{name: "one server twice", want: "P03! P08!", says: "one and the same", edit: func(s *site, _ *config.Config, shard *config.Shard) {
			shard.Sides["b"] = shard.Sides["a"]
		}, alsoOthers: true},
		{name: "another shard's server as b", want: "P03! P06! P08!", says: "replicates from nobody", edit: swapB(func(s *site) string { return s.address(s.other) }), alsoOthers: true},
		{name: "no binlog", want: "P14! P23!", says: "log_bin=OFF", edit: swapB(func(s *site) string { return s.address(s.odd) }), alsoOthers: true},
		{name: "filters and GTIDs", want: "P20! P21!", says: "gtid_mode=ON", edit: swapB(func(s *site) string { return s.address(s.filtered) }), alsoOthers: true},
		{name: "replication stopped", want: "P04!", b: []string{"STOP REPLICA"}, undoB: []string{"START REPLICA"}},
		{name: "replication delayed on purpose", want: "P04!", says: "SOURCE_DELAY",
			b:     []string{"STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=5", "START REPLICA"},
			undoB: []string{"STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=0", "START REPLICA"}},
		{name: "a database that is not there", want: "P05! P08!", says: "does not exist", edit: func(_ *site, _ *config.Config, shard *config.Shard) { shard.Database = "slak" }},
		{name: "a team that the data lacks", want: "P06!", says: "1 of this shard are missing", mains: []string{"INSERT INTO mains.teams VALUES (9,123)"}, undoMains: []string{"DELETE FROM mains.teams WHERE team_id=9"}},
		{name: "a team left behind", want: "P06?", says: "1 are not of this shard", mains: []string{"UPDATE mains.teams SET shard=4567 WHERE team_id=3"}, undoMains: []string{"UPDATE mains.teams SET shard=123 WHERE team_id=3"}},
		{name: "a shard of which mains knows no team", want: "P06!", says: "no team lives on shard 0123", mains: []string{"UPDATE mains.teams SET shard=shard+10000"}, undoMains: []string{"UPDATE mains.teams SET shard=shard-10000"}},
		{name: "mains with a wrong password", want: "P07!", says: "mains", edit: func(s *site, cfg *config.Config, _ *config.Shard) {
			cfg.Mains.Account.PasswordFile = filepath.Join(s.dir, "wrong")
		}},
		{name: "mains that may not be changed", want: "P07!", says: "UPDATE", mains: []string{"REVOKE UPDATE ON mains.shards FROM vifl@'%'"}, undoMains: []string{"GRANT UPDATE ON mains.shards TO vifl@'%'"}},
		{name: "mains without a place for the epoch", want: "P07!", says: "on _vifl", mains: []string{"REVOKE ALL ON `_vifl`.* FROM vifl@'%'"}, undoMains: []string{"GRANT ALL ON `_vifl`.* TO vifl@'%'"}},
		{name: "mains serves it from elsewhere", want: "P08!", says: "10.9.9.9", mains: []string{"UPDATE mains.shards SET host='10.9.9.9' WHERE side='b'"}, undoMains: []string{"UPDATE mains.shards SET host='127.0.0.1' WHERE side='b'"}},
		{name: "mains serves it from Vitess", want: "P08!", says: "on Vitess already",
			mains:     []string{"CREATE TABLE mains.before_move AS SELECT * FROM mains.shards", "UPDATE mains.shards SET port=15306, db='legacy_0123'"},
			undoMains: []string{"REPLACE INTO mains.shards SELECT * FROM mains.before_move", "DROP TABLE mains.before_move"}},
		{name: "a column on one side only", want: "P09!", says: "extra", b: []string{"SET sql_log_bin=0", "ALTER TABLE slack.messages ADD COLUMN extra INT"}, undoB: []string{"SET sql_log_bin=0", "ALTER TABLE slack.messages DROP COLUMN extra"}},
		{name: "a missing grant", want: "P10! P28!", says: "GRANT XA_RECOVER_ADMIN ON *.* TO 'vifl'@'%'", a: []string{"SET sql_log_bin=0", "REVOKE XA_RECOVER_ADMIN ON *.* FROM vifl@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT XA_RECOVER_ADMIN ON *.* TO vifl@'%'"}},
		{name: "no grant on _vifl", want: "P10!", says: "on _vifl", a: []string{"SET sql_log_bin=0", "REVOKE ALL ON `_vifl`.* FROM vifl@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT ALL ON `_vifl`.* TO vifl@'%'"}},
		{name: "a missing grant for the way back", want: "P47?", says: "GRANT ALTER ON `slack`.* TO 'vifl'@'%'", a: []string{"SET sql_log_bin=0", "REVOKE ALTER ON slack.* FROM vifl@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT ALTER ON slack.* TO vifl@'%'"}},
		{name: "a missing grant for clone", want: "P10?", a: []string{"SET sql_log_bin=0", "REVOKE BACKUP_ADMIN ON *.* FROM vifl@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT BACKUP_ADMIN ON *.* TO vifl@'%'"}},
		{name: "a missing grant of the stream", want: "P11!", says: "GRANT REPLICATION SLAVE ON *.* TO 'vifl_stream'@'%'", a: []string{"SET sql_log_bin=0", "REVOKE REPLICATION SLAVE ON *.* FROM vifl_stream@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT REPLICATION SLAVE ON *.* TO vifl_stream@'%'"}},
		{name: "no account for the stream", want: "P11?", a: []string{"SET sql_log_bin=0", "RENAME USER vifl_stream@'%' TO vs@'%'"}, undoA: []string{"SET sql_log_bin=0", "RENAME USER vs@'%' TO vifl_stream@'%'"}},
		{name: "a replication account that offline_mode cuts", want: "P12!", a: []string{"SET sql_log_bin=0", "REVOKE CONNECTION_ADMIN ON *.* FROM repl@'%'"}, undoA: []string{"SET sql_log_bin=0", "GRANT CONNECTION_ADMIN ON *.* TO repl@'%'"}},
		{name: "an application with SUPER", want: "P13!", says: "app@%", a: []string{"SET sql_log_bin=0", "GRANT SUPER ON *.* TO app@'%'"}, undoA: []string{"SET sql_log_bin=0", "REVOKE SUPER ON *.* FROM app@'%'"}},
		{name: "an application that could thaw", want: "P13!", says: "app@%", b: []string{"SET sql_log_bin=0", "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO app@'%'"}, undoB: []string{"SET sql_log_bin=0", "REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM app@'%'"}},
		{name: "an application that could thaw by a role", want: "P13!", says: "app@%",
			b: []string{"SET sql_log_bin=0", "CREATE ROLE ops", "GRANT CONNECTION_ADMIN ON *.* TO ops", "GRANT ops TO app@'%'"}, undoB: []string{"SET sql_log_bin=0", "DROP ROLE ops"}},
		format("STATEMENT"),
		format("MIXED"),
		onA(fault{want: "P16!", says: "binlog_row_image"}, "binlog_row_image", "'NOBLOB'", "'FULL'"),
		onA(fault{want: "P17!", says: "PARTIAL_JSON"}, "binlog_row_value_options", "'PARTIAL_JSON'", "''"),
		onA(fault{want: "P18!", says: "vifl preflight 0123 --stream binlog", picks: state.Binlog}, "binlog_transaction_compression", "ON", "OFF"),
		onA(fault{stream: state.Binlog, picks: state.Binlog}, "binlog_transaction_compression", "ON", "OFF"),
		onA(fault{want: "P17!", says: "stops at them", stream: state.Binlog}, "binlog_row_value_options", "'PARTIAL_JSON'", "''"),
		{name: "no account for the stream that needs none", stream: state.Binlog, a: []string{"SET sql_log_bin=0", "RENAME USER vifl_stream@'%' TO vs@'%'"}, undoA: []string{"SET sql_log_bin=0", "RENAME USER vs@'%' TO vifl_stream@'%'"}},
		onA(fault{want: "P19!", picks: state.Binlog}, "binlog_rows_query_log_events", "ON", "OFF"),
		{name: "a replication filter", want: "P22!", says: "slack.files", b: []string{"STOP REPLICA SQL_THREAD", "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE=(slack.files)", "START REPLICA"}, undoB: []string{"STOP REPLICA SQL_THREAD", "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE=()", "START REPLICA"}},
		onA(fault{want: "P24!", says: "SET PERSIST binlog_expire_logs_seconds"}, "binlog_expire_logs_seconds", "60", "2592000"),
		onA(fault{want: "P24?"}, "binlog_expire_logs_seconds", "1200", "2592000"),
		onA(fault{want: "P25?"}, "sync_binlog", "0", "1"),
		onA(fault{want: "P25?"}, "innodb_flush_log_at_trx_commit", "2", "1"),
		onA(fault{want: "P26!", says: "messages"}, "auto_increment_offset", "2", "1"),
		onA(fault{want: "P26!"}, "auto_increment_increment", "1", "2"),
		{name: "side a read only", want: "P27!", a: []string{"SET GLOBAL super_read_only=1"}, undoA: []string{"SET GLOBAL read_only=0"}},
		{name: "side b a standby", want: "P27?", b: []string{"SET GLOBAL read_only=1"}, undoB: []string{"SET GLOBAL read_only=0"}},
		{name: "a prepared transaction", want: "P28!", a: []string{"XA START 'x'", "INSERT INTO slack.messages (body) VALUES ('x')", "XA END 'x'", "XA PREPARE 'x'"}, undoA: []string{"XA ROLLBACK 'x'"}},
		{name: "an engine", want: "P29!", says: "engine", a: []string{"CREATE TABLE slack.old (id INT PRIMARY KEY) ENGINE=MyISAM"}, undoA: []string{"DROP TABLE slack.old"}},
		{name: "a table without a key", want: "P30!", says: "no primary key", a: []string{"CREATE TABLE slack.keyless (id INT)"}, undoA: []string{"DROP TABLE slack.keyless"}},
		{name: "a unique key that allows NULL", want: "P30!", says: "no primary key", a: []string{"CREATE TABLE slack.keyless (id INT, UNIQUE KEY (id))"}, undoA: []string{"DROP TABLE slack.keyless"}},
		{name: "a unique key in the place of a primary one", a: []string{"CREATE TABLE slack.keyless (id INT NOT NULL, UNIQUE KEY (id))"}, undoA: []string{"DROP TABLE slack.keyless"}},
		{name: "a unique key over a generated column only", want: "P30!", says: "keyless.g", a: []string{"CREATE TABLE slack.keyless (id INT, g INT AS (id) STORED NOT NULL, UNIQUE KEY g (g))"}, undoA: []string{"DROP TABLE slack.keyless"}},
		{name: "a generated column in a key", want: "P30!", says: "gen.g", a: []string{"CREATE TABLE slack.gen (a INT, g INT AS (a+1) STORED, PRIMARY KEY (g))"}, undoA: []string{"DROP TABLE slack.gen"}},
		{name: "a cascading foreign key", want: "P31!", says: "foreign key", a: []string{"CREATE TABLE slack.child (id INT PRIMARY KEY, t BIGINT, CONSTRAINT c FOREIGN KEY (t) REFERENCES slack.teams (id) ON DELETE SET NULL)"}, undoA: []string{"DROP TABLE slack.child"}},
		{name: "a foreign key", want: "P31?", a: []string{"CREATE TABLE slack.child (id INT PRIMARY KEY, t BIGINT, CONSTRAINT c FOREIGN KEY (t) REFERENCES slack.teams (id))"}, undoA: []string{"DROP TABLE slack.child"}},
		{name: "a trigger", want: "P32!", says: "trigger", a: []string{"CREATE TRIGGER slack.tr BEFORE INSERT ON slack.messages FOR EACH ROW SET NEW.body=TRIM(NEW.body)"}, undoA: []string{"DROP TRIGGER slack.tr"}},
		{name: "an event", want: "P33?", a: []string{"CREATE EVENT slack.ev ON SCHEDULE EVERY 1 DAY DO DELETE FROM slack.messages WHERE id < 0"}, undoA: []string{"DROP EVENT slack.ev"}},
		{name: "a procedure", want: "P34?", a: []string{"CREATE PROCEDURE slack.pr() DELETE FROM slack.messages WHERE id < 0"}, undoA: []string{"DROP PROCEDURE slack.pr"}},
		{name: "a view", a: []string{"CREATE VIEW slack.vw AS SELECT id FROM slack.teams"}, undoA: []string{"DROP VIEW slack.vw"}},
		{name: "a view of an account that does not move along", want: "P35?", says: "vw (by app@%)", a: []string{"CREATE DEFINER=app@'%' VIEW slack.vw AS SELECT id FROM slack.teams"}, undoA: []string{"DROP VIEW slack.vw"}},
		{name: "a name that Vitess keeps", want: "P36!", a: []string{"CREATE TABLE slack._vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20260101000000_ (id INT PRIMARY KEY)"}, undoA: []string{"DROP TABLE slack._vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20260101000000_"}},
		onA(fault{want: "P39?", says: "STRICT_TRANS_TABLES"}, "sql_mode", "''", "DEFAULT"),
		onA(fault{want: "P40?"}, "time_zone", "'+02:00'", "'+00:00'"),
		onA(fault{want: "P41?"}, "transaction_isolation", "'READ-COMMITTED'", "'REPEATABLE-READ'"),
		{name: "queries that nobody has audited", want: "P48?", says: "vifl audit --target landing 0123 --keep", facts: func(f *Facts) { f.Audit = nil }},
		{name: "a query that breaks on a landing", want: "P48?", says: "L05 LOCK TABLES (3 calls)", facts: func(f *Facts) {
			f.Audit.Breaks = []state.AuditFinding{{ID: "L05", Title: "LOCK TABLES", Calls: 3}}
		}},
		{name: "an audit that judged a part", want: "P48?", says: "9 calls of it", facts: func(f *Facts) { f.Audit.Judged = 9 }},
		{name: "an audit of long ago", want: "P48?", says: "30 days", facts: func(f *Facts) { f.Audit.At = f.Audit.At.Add(-auditAge - time.Hour) }},
		{name: "a state that cannot be read", want: "P48!", says: "topo is away", facts: func(f *Facts) { f.AuditErr = errors.New("topo is away") }},
		{name: "names without case", want: "P42!", facts: func(f *Facts) { f.Sides[0].Vars["lower_case_table_names"] = "1" }},
		{name: "a full disk", want: "P43!", facts: func(f *Facts) { f.FreeBytes = 100 << 20 }},
		{name: "a work folder that is none", want: "P43!", edit: func(s *site, cfg *config.Config, _ *config.Shard) {
			cfg.WorkDir = filepath.Join(s.dir, "right", "x")
		}},
		{name: "an ENUM that vreplication empties", want: "P46!", says: "--stream binlog", picks: state.Binlog, picked: "e.x", facts: func(f *Facts) { f.Sides[0].Lost = []string{"e.x (enum)"} }},
		{name: "JSON", want: "P46?", says: "e.j", picks: state.Binlog, picked: "e.j", facts: func(f *Facts) { f.Sides[0].Risky = []string{"e.j (JSON)"} }},
		{name: "JSON by the binlog stream", stream: state.Binlog, picks: state.Binlog, picked: "e.j", facts: func(f *Facts) { f.Sides[0].Risky = []string{"e.j (JSON)"} }},
		onA(fault{want: "P44?"}, "replica_checkpoint_period", "300", "10"),
	}
}
