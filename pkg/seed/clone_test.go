package seed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/seed/clone"
)

func TestCloneSeedIsRestoredWithoutWhatBelongsToTheDonor(t *testing.T) {
	srv, spec := source(t, "plugin-load-add=mysql_clone.so")
	mysqldtest.Exec(t, srv,
		"CREATE DATABASE another", "CREATE TABLE another.t (id INT PRIMARY KEY)",
		"CREATE USER app@'%' IDENTIFIED BY 'a'", "GRANT ALL ON slack.* TO app@'%'", "CREATE ROLE r", "GRANT r TO app@'%'",
		"CREATE DEFINER=app@'%' VIEW slack.v AS SELECT id FROM slack.messages",
	)
	spec.Method = MethodClone
	r := runSeed(t, spec)
	end, err := positionOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody has written since.
	if r.Position != end {
		t.Errorf("position %+v, expected the end of the source's binlog, %+v", r.Position, end)
	}
	if got := strings.Join(r.LeftOut, ", "); !strings.Contains(got, "database another") || !strings.Contains(got, "database _vifl") {
		t.Errorf("left out %q, expected the other databases by name", got)
	}
	leftNothing(t, spec)
	restored, db := restore(t, spec), mysqldtest.Open(t, srv)
	if a, b := count(t, db, "SELECT COUNT(*) FROM slack.messages"), count(t, restored, "SELECT COUNT(*) FROM slack.messages"); a != b {
		t.Errorf("restored %d rows, expected %d", b, a)
	}
	if n := count(t, restored, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='another'"); n != 0 {
		t.Error("another database than the shard's came along")
	}
	accounts(t, restored)
	rec, err := ReadRecord(context.Background(), restored)
	if err != nil || rec.Position != r.Position || rec.Method != MethodClone || rec.ServerA != spec.A {
		t.Errorf("record %+v: %v", rec, err)
	}
	if n := count(t, restored, "SELECT COUNT(*) FROM mysql.plugin"); n != 0 {
		t.Error("a plugin of the donor came along")
	}
}

func positionOf(spec Spec) (any, error) {
	s, err := legacy.Open(context.Background(), spec.Source, spec.Shard, "a", spec.Database)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Position(context.Background())
}

// A replica knows in its data how far it is, exactly, also with several appliers.
func TestCloneFromAReplica(t *testing.T) {
	srv, spec := source(t)
	replica := mysqldtest.Start(t, mysqldtest.Options{Name: "replica of a", Extra: []string{"plugin-load-add=mysql_clone.so", "replica_parallel_workers=4", "replica_preserve_commit_order=ON"}})
	mysqldtest.Exec(t, srv, "SET sql_log_bin=0", "CREATE USER repl@'%' IDENTIFIED BY 'repl'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")
	// From the very start of the binlog, which holds all but the accounts of the test.
	mysqldtest.Exec(t, replica, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='repl', SOURCE_PASSWORD='repl', "+
		"SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1", srv.Port()), "START REPLICA")
	mysqldtest.Exec(t, srv, "INSERT INTO slack.messages (team_id, body) VALUES (77, 'replicated')")
	mysqldtest.CaughtUp(t, replica, srv)
	donor := mysqldtest.TCP(replica, "replica of a")
	donor.Account = spec.Source.Account // also its authority: both servers have the certificate of one template
	spec.Method, spec.Donor = MethodClone, &donor
	r := runSeed(t, spec)
	end, err := positionOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	if r.Position != end {
		t.Errorf("position %+v, expected the source's end, %+v", r.Position, end)
	}
	if n := count(t, restore(t, spec), "SELECT COUNT(*) FROM slack.messages WHERE team_id=77"); n != 1 {
		t.Errorf("found %d rows, expected the one written before the clone", n)
	}
}

func TestCloneIsRefusedWithRemedy(t *testing.T) {
	srv, spec := source(t)
	mysqldtest.Exec(t, srv, "CREATE TABLE slack.m (id INT PRIMARY KEY) ENGINE=MyISAM")
	spec.Method = MethodClone
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	donor, err := legacy.Open(ctx, spec.Source, spec.Shard, "a", spec.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer donor.Close()
	var refused *clone.Refused
	if err := CheckClone(ctx, spec, donor); !errors.As(err, &refused) || len(refused.Why) != 2 {
		t.Errorf("asked before: %v, expected both reasons", err)
	}
	_, err = Run(ctx, spec, nil)
	for _, want := range []string{"INSTALL PLUGIN clone", "seed by copy", "slack.m (MyISAM)", "0123 side a"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected it to say %q", err, want)
		}
	}
	if n := count(t, mysqldtest.Open(t, srv), "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name='clone'"); n != 0 {
		t.Error("the plugin was installed on the legacy server")
	}
	leftNothing(t, spec)
}
