package mains

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/teammap"
)

func TestTeamMap(t *testing.T) {
	srv := mysqldtest.Start(t, mysqldtest.Options{})
	tables(t, srv)
	const all = "SELECT team_id, shard FROM teams"
	with := func(statement string) *Mains {
		c := statements()
		c.Map = statement
		return open(t, target(srv), c)
	}
	m, err := with(all + " ORDER BY shard DESC").TeamMap(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "teams.map")
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := teammap.Read(path)
	if err != nil || read.Digest() != m.Digest() || read.Count() != 4 || read.Shards() != 2 {
		t.Fatalf("found %v (%v), expected four teams on two shards", read, err)
	}
	for team, want := range map[uint64]bool{1: true, 3: true, 5: false} {
		if id, ok := read.Lookup(team); ok != want || (ok && id != shard) {
			t.Errorf("team %d: found %s (%v)", team, id, ok)
		}
	}

	for name, c := range map[string]struct{ statement, want string }{
		"no statement":    {" ", "mains.map: missing statement"},
		"a column":        {"SELECT team_id FROM teams", "expected two columns"},
		"three columns":   {"SELECT team_id, shard, 1 FROM teams", "expected two columns"},
		"nobody":          {all + " WHERE team_id > 100", "found no team"},
		"twice":           {all + " UNION ALL SELECT 2, 123", "team 2 is there twice"},
		"a negative id":   {"SELECT -1, 123", "expected two columns"},
		"no shard":        {"SELECT 1, NULL", "team 1: shard number is empty"},
		"a great shard":   {"SELECT 1, 65536", "between 0 and 65535"},
		"not a statement": {"SELEC", "mains.map"},
	} {
		if _, err := with(c.statement).TeamMap(ctxFor(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, expected %q", name, err, c.want)
		}
	}
	c := statements()
	c.Map = all + " WHERE shard = :shard"
	if _, err := Open(ctxFor(t), target(srv), c); err == nil || !strings.Contains(err.Error(), "mains.map: unknown name :shard, expected none") {
		t.Errorf("found %v, expected that mains.map takes no names", err)
	}
}
