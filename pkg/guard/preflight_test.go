package guard

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/state"
)

// site is a shard as a fleet has it: a pair, and mains. odd and filtered are servers with
// settings that only a start can give; other is another shard's.
type site struct {
	a, b, mains, odd, filtered, other *mysqld.Server
	dir                               string
}

var accounts = []string{
	"SET sql_log_bin=0",
	"CREATE USER vifl@'%' IDENTIFIED BY 'v'",
	"GRANT SELECT, RELOAD, LOCK TABLES, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, SHOW VIEW, TRIGGER, EVENT ON *.* TO vifl@'%'",
	"GRANT BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, XA_RECOVER_ADMIN, SHOW_ROUTINE ON *.* TO vifl@'%'",
	"GRANT ALL ON `_vifl`.* TO vifl@'%'",
	"GRANT INSERT, UPDATE, DELETE, CREATE, ALTER ON slack.* TO vifl@'%'",
	"CREATE USER vifl_stream@'%' IDENTIFIED BY 's'",
	"GRANT SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO vifl_stream@'%'",
	"CREATE USER app@'%' IDENTIFIED BY 'a'",
	"GRANT SELECT, INSERT, UPDATE, DELETE ON slack.* TO app@'%'",
	"SET GLOBAL sync_binlog=1", "SET GLOBAL innodb_flush_log_at_trx_commit=1", "SET GLOBAL replica_checkpoint_period=10", "SET GLOBAL time_zone='+00:00'",
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.a, s.b = mysqldtest.Pair(t, mysqldtest.Options{})
	s.mains = mysqldtest.Start(t, mysqldtest.Options{Name: "mains"})
	s.odd = mysqldtest.Start(t, mysqldtest.Options{Name: "odd", Extra: []string{"skip-log-bin", "log_replica_updates=OFF"}})
	s.filtered = mysqldtest.Start(t, mysqldtest.Options{Name: "filtered", Extra: []string{"binlog_do_db=x", "gtid_mode=ON", "enforce_gtid_consistency=ON"}})
	s.other = mysqldtest.Start(t, mysqldtest.Options{Name: "other"})
	for _, srv := range []*mysqld.Server{s.a, s.b, s.odd, s.filtered, s.other} {
		mysqldtest.Exec(t, srv, accounts...)
	}
	mysqldtest.Exec(t, s.a, "CREATE DATABASE slack", "CREATE TABLE slack.teams (id BIGINT PRIMARY KEY, name VARCHAR(50))",
		"CREATE TABLE slack.messages (id BIGINT AUTO_INCREMENT PRIMARY KEY, team_id BIGINT, KEY (team_id), body TEXT)", "INSERT INTO slack.teams VALUES (1,'a'),(2,'b'),(3,'c')")
	for i, srv := range []*mysqld.Server{s.odd, s.filtered, s.other} {
		mysqldtest.Exec(t, srv, "CREATE DATABASE slack", "CREATE TABLE slack.teams (id BIGINT PRIMARY KEY, name VARCHAR(50))",
			"CREATE TABLE slack.messages (id BIGINT AUTO_INCREMENT PRIMARY KEY, team_id BIGINT, KEY (team_id), body TEXT)",
			fmt.Sprintf("INSERT INTO slack.teams VALUES (%d,'x'),(%d,'y')", 100+i, 200+i))
	}
	mysqldtest.Exec(t, s.mains, "CREATE DATABASE mains", "CREATE TABLE mains.teams (team_id BIGINT PRIMARY KEY, shard INT)",
		"INSERT INTO mains.teams VALUES (1,123),(2,123),(3,123),(102,4567),(202,4567)",
		"CREATE TABLE mains.shards (shard INT, side CHAR(1), host VARCHAR(100), port INT, db VARCHAR(64), PRIMARY KEY (shard, side))",
		fmt.Sprintf("INSERT INTO mains.shards VALUES (123,'a','127.0.0.1',%d,'slack'),(123,'b','127.0.0.1',%d,'slack')", s.a.Port(), s.b.Port()),
		"CREATE USER vifl@'%' IDENTIFIED BY 'v'", "GRANT SELECT ON mains.* TO vifl@'%'", "GRANT UPDATE ON mains.shards TO vifl@'%'", "GRANT ALL ON `_vifl`.* TO vifl@'%'")
	for name, password := range map[string]string{"right": "v", "wrong": "w"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) address(srv *mysqld.Server) string { return fmt.Sprintf("127.0.0.1:%d", srv.Port()) }

// config is that of the healthy shard 0123.
func (s *site) config() (*config.Config, config.Shard) {
	right := config.Credential{User: "vifl", PasswordFile: filepath.Join(s.dir, "right")}
	cfg := &config.Config{
		Vtgate: config.Vtgate{Address: "127.0.0.1:15306"}, Landing: config.Landing{Keyspace: "legacy_{shard}", Database: "keyspace"},
		WorkDir: s.dir, Legacy: config.Legacy{Admin: right, Exempt: []string{"root", "repl"}},
		Mains: config.Mains{
			Address: s.address(s.mains), Account: right, Database: "mains",
			Teams: "SELECT team_id FROM teams WHERE shard = :shard", DataTeams: "SELECT id FROM teams",
			Where:  "SELECT side, host, port, db FROM shards WHERE shard = :shard",
			Switch: "UPDATE shards SET host = :host, port = :port, db = :database WHERE shard = :shard AND side = :side",
		},
		Limits: config.Limits{MaxReplicaDelay: 30e9},
	}
	shard := config.Shard{Number: config.ID{ID: 123}, Database: "slack", Sides: map[string]string{"a": s.address(s.a), "b": s.address(s.b)}}
	return cfg, shard
}

// fault is something wrong, and how to undo it. want is what preflight must say of it and
// nothing else: P15! is refused, P25? a warning.
type fault struct {
	name       string
	a, b       []string
	undoA      []string
	undoB      []string
	mains      []string
	undoMains  []string
	edit       func(*site, *config.Config, *config.Shard)
	facts      func(*Facts)
	stream     string // to move it by, when it is not the one that PickStream picks
	picks      string // what PickStream picks; empty: Vitess' own
	picked     string // for what; empty: its name
	want       string
	says       string // in one of the findings
	alsoOthers bool   // more may be said: the fault is a whole other server
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	seen := map[string]bool{}
	for _, c := range append([]fault{{name: "nothing wrong"}}, faults()...) {
		t.Run(c.name, func(t *testing.T) {
			run := func(srv *mysqld.Server, statements []string) {
				if len(statements) > 0 {
					mysqldtest.Exec(t, srv, statements...)
				}
			}
			run(s.a, c.a)
			run(s.b, c.b)
			run(s.mains, c.mains)
			defer func() {
				run(s.b, c.undoB)
				run(s.a, c.undoA)
				run(s.mains, c.undoMains)
				mysqldtest.CaughtUp(t, s.b, s.a)
				mysqldtest.CaughtUp(t, s.a, s.b)
			}()
			if c.b == nil || !strings.Contains(strings.Join(c.b, " "), "STOP REPLICA") {
				mysqldtest.CaughtUp(t, s.b, s.a)
			}
			cfg, shard := s.config()
			if c.edit != nil {
				c.edit(s, cfg, &shard)
			}
			ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
			defer cancel()
			facts, err := Gather(ctx, cfg, shard, "vifl_stream")
			if err != nil {
				t.Fatal(err)
			}
			facts.Audit = &state.Audit{At: time.Now(), Who: "somebody@here", Inputs: []string{"slow.log"}, Calls: 10, Judged: 10, Queries: 2}
			if c.facts != nil {
				c.facts(facts)
			}
			if c.picks == "" {
				c.picks = state.VReplication
			}
			if picked, why := PickStream(facts); picked != c.picks || why == "" || picked == state.Binlog && !strings.Contains(why, "0123 side a: "+cmp.Or(c.picked, c.name)) {
				t.Errorf("picked the stream %s (%s), expected %s", picked, why, c.picks)
			}
			if facts.Stream = c.stream; c.stream == "" {
				facts.Stream = state.VReplication
			}
			found := Preflight(facts)
			got := map[string]bool{}
			said := ""
			for _, f := range found {
				if f.Server == "" || f.Found == "" || (f.Level != OK && (f.Expected == "" || f.Remedy == "")) {
					t.Errorf("incomplete: %+v", f)
				}
				mark := map[Level]string{OK: "", Warning: "?", Refuse: "!"}[f.Level]
				if mark != "" {
					got[f.ID+mark] = true
					seen[f.ID] = true
					said += f.Server + ": " + f.Found + " / " + f.Expected + " / " + f.Remedy + "\n"
				}
			}
			for _, w := range strings.Fields(c.want) {
				if !got[w] {
					t.Errorf("%s is missing", w)
				}
				delete(got, w)
			}
			if !c.alsoOthers && len(got) > 0 {
				t.Errorf("besides %q it says %v", c.want, sorted(got))
			}
			if !strings.Contains(strings.ToLower(said), strings.ToLower(c.says)) {
				t.Errorf("nothing says %q", c.says)
			}
			if strings.Contains(said, "IDENTIFIED") {
				t.Error("a finding shows a password")
			}
			if t.Failed() || testing.Verbose() {
				t.Log("\n" + said)
			}
		})
	}
	// These two only tell what there is.
	for _, id := range []string{"P37", "P38"} {
		seen[id] = true
	}
	for _, c := range checks {
		if !seen[c.id] {
			t.Errorf("%s (%s): no fault shows it", c.id, c.name)
		}
	}
}

// Another shard's servers behind this shard's name, in both places: three checks catch it
// independently, and name the server.
func TestPreflightWrongShard(t *testing.T) {
	t.Parallel()
	s := newSiteOfOthers(t)
	cfg, shard := s.config()
	shard.Sides = map[string]string{"a": s.address(s.a), "b": s.address(s.b)}
	ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
	defer cancel()
	facts, err := Gather(ctx, cfg, shard, "vifl_stream")
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{}
	for _, f := range Refused(Preflight(facts)) {
		refused[f.ID] += f.Server + " " + f.Found + " "
	}
	var uuid string
	if err := mysqldtest.Open(t, s.a).QueryRow("SELECT @@server_uuid").Scan(&uuid); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"P06", "P08"} {
		if refused[id] == "" {
			t.Errorf("%s does not refuse: %v", id, refused)
		}
	}
	if !strings.Contains(refused["P06"], uuid) {
		t.Errorf("P06 does not name the server %s: %s", uuid, refused["P06"])
	}
	if refused["P03"] != "" || refused["P05"] != "" {
		t.Errorf("a healthy pair of another shard: %v", refused)
	}
}

// newSiteOfOthers is a healthy pair that holds another shard's teams.
func newSiteOfOthers(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.a, s.b = mysqldtest.Pair(t, mysqldtest.Options{Name: "4567"})
	s.mains = s.a // this test asks it no more than a question
	for _, srv := range []*mysqld.Server{s.a, s.b} {
		mysqldtest.Exec(t, srv, accounts...)
	}
	mysqldtest.Exec(t, s.a, "CREATE DATABASE slack", "CREATE TABLE slack.teams (id BIGINT PRIMARY KEY, name VARCHAR(50))", "INSERT INTO slack.teams VALUES (102,'x'),(202,'y')",
		"CREATE DATABASE mains", "CREATE TABLE mains.teams (team_id BIGINT PRIMARY KEY, shard INT)", "INSERT INTO mains.teams VALUES (1,123),(2,123),(102,4567),(202,4567)",
		"CREATE TABLE mains.shards (shard INT, side CHAR(1), host VARCHAR(100), port INT, db VARCHAR(64), PRIMARY KEY (shard, side))",
		fmt.Sprintf("INSERT INTO mains.shards VALUES (123,'a','127.0.0.1',1,'slack'),(123,'b','127.0.0.1',2,'slack'),(4567,'a','127.0.0.1',%d,'slack'),(4567,'b','127.0.0.1',%d,'slack')", s.a.Port(), s.b.Port()))
	mysqldtest.CaughtUp(t, s.b, s.a)
	if err := os.WriteFile(filepath.Join(s.dir, "right"), []byte("v"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryNumberIsUsedOnceAndDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "refusals.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ids := map[string]bool{}
	add := func(id, name string) {
		if ids[id] {
			t.Errorf("%s is given twice", id)
		}
		ids[id] = true
		want = append(want, fmt.Sprintf("| %s | %s |", id, name))
	}
	for _, c := range checks {
		add(c.id, c.name)
	}
	for _, r := range refusals {
		add(r.id, r.name)
	}
	for _, own := range [][]refusal{rollbackRefusals, completeRefusals} {
		for _, r := range own {
			if !ids[r.id] {
				add(r.id, r.name)
			} else if !slices.Contains(want, fmt.Sprintf("| %s | %s |", r.id, r.name)) {
				t.Errorf("%s has two names", r.id)
			}
		}
	}
	add(CloneID, CloneName)
	var got []string
	for _, line := range strings.Split(string(doc), "\n") {
		if strings.HasPrefix(line, "| P") || strings.HasPrefix(line, "| R") {
			cells := strings.SplitN(line, "|", 4)
			got = append(got, fmt.Sprintf("| %s | %s |", strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])))
		}
	}
	sort.Strings(want)
	sort.Strings(got)
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		t.Errorf("docs/refusals.md lists\n%s\n\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
