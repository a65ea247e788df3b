package keyspaces_test

import (
	"context"
	"strings"
	"testing"

	"vitess.io/vitess/go/json2"
	vschemapb "vitess.io/vitess/go/vt/proto/vschema"

	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/vindexes/keyspaces"
)

// plan makes Vitess' planner over the keyspaces, sessions on the given one, after change has had
// its hands on their vschemas.
func plan(t *testing.T, all []keyspaces.Keyspace, keyspace string, change func(string) string) *planner.Planner {
	t.Helper()
	v, creates := planner.NewVSchema(), map[string]string{}
	for _, k := range all {
		ks := &vschemapb.Keyspace{}
		if err := json2.UnmarshalPB([]byte(change(k.VSchema)), ks); err != nil {
			t.Fatalf("keyspace %s: vschema.json: %v", k.Name, err)
		}
		if err := v.AddKeyspace(k.Name, ks); err != nil {
			t.Fatal(err)
		}
		if ks.Sharded {
			v.Shards[k.Name] = 8
		}
		creates[k.Name] = k.Schema
	}
	p, err := planner.New(planner.Options{VSchema: v, Creates: creates, Keyspace: keyspace})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// problems are the queries of a keyspace that do not go where its file says, by name.
func problems(t *testing.T, p *planner.Planner, k keyspaces.Keyspace) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, q := range k.Queries {
		s, err := p.Parse(q.Text)
		if err != nil {
			out[q.Name] = "Vitess' parser does not take it: " + err.Error()
			continue
		}
		got := p.Plan(context.Background(), s)
		allowed := strings.Contains(q.Text, "ALLOW_SCATTER")
		switch vindex := strings.Join(got.Vindexes(), ","); {
		case string(got.Class) != q.Class || vindex != q.Vindex:
			out[q.Name] = "found " + string(got.Class) + " by " + vindex + " " + got.Reason + ", expected " + q.Class + " by " + q.Vindex
		case (got.Class == planner.Scatter) != (allowed || q.Refused), allowed && q.Refused:
			out[q.Name] = "a query that scatters is either refused or has ALLOW_SCATTER, any other neither"
		case got.Writes() && !got.Class.Single() && !q.Refused && !strings.Contains(q.Text, "MULTI_SHARD_AUTOCOMMIT"):
			out[q.Name] = "a write on several shards is refused by --transaction-mode=SINGLE where it has no MULTI_SHARD_AUTOCOMMIT"
		}
	}
	return out
}

// Every query goes where its keyspace's file says it must. A change of a key, of a schema or of
// Vitess that makes a query scatter is found here, without a server.
func TestEveryQueryGoesWhereItMust(t *testing.T) {
	all, err := keyspaces.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Fatalf("found %d keyspaces, expected membership_by_user, membership_by_channel, messages and ids", len(all))
	}
	same := func(s string) string { return s }
	for _, k := range all {
		for name, what := range problems(t, plan(t, all, k.Name, same), k) {
			t.Errorf("%s: %s: %s", k.Name, name, what)
		}
		// No name of a table is in two keyspaces, so sessions that have selected none work, too.
		for name, what := range problems(t, plan(t, all, "", same), k) {
			t.Errorf("%s, no keyspace selected: %s: %s", k.Name, name, what)
		}
	}
}

// The test above finds a key that was changed.
func TestAnotherKeyIsFound(t *testing.T) {
	all, err := keyspaces.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Name != "messages" {
			continue
		}
		p := plan(t, all, k.Name, func(s string) string {
			return strings.Replace(s, `{"column": "channel_id", "name": "channel"}`, `{"column": "user_id", "name": "channel"}`, 1)
		})
		found := problems(t, p, k)
		for _, name := range []string{"history", "thread", "history_with_reactions", "messages_of_user"} {
			if found[name] == "" {
				t.Errorf("messages by user: %s: found nothing wrong, expected that it goes somewhere else", name)
			}
		}
		if found["react"] != "" {
			t.Errorf("messages by user: react: found %s, expected reactions untouched", found["react"])
		}
		return
	}
	t.Fatal("found no keyspace messages")
}
