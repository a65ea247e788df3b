package planner

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func chat(t testing.TB, keyspace string) *Planner {
	t.Helper()
	v := NewVSchema()
	for _, f := range []string{"chat=../testdata/chat.vschema.json", "../testdata/lookup.vschema.json"} {
		if err := v.AddFile(f); err != nil {
			t.Fatal(err)
		}
	}
	v.Shards["chat"] = 8
	p, err := New(Options{VSchema: v, Schemas: map[string]string{"chat": "../testdata/chat.schema.sql"}, Keyspace: keyspace})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	p := chat(t, "")
	for _, c := range []struct {
		query    string
		class    Class
		vindexes string
		shards   float64 // with IN lists of two values and INSERTs of two rows
		least    bool
	}{
		{"select * from messages where channel_id = 7", OneShard, "channel", 1, false},
		{"select * from messages where channel_id = 7 order by ts desc limit 50", OneShard, "channel", 1, false},
		{"select * from messages where channel_id in (7, 8)", Several, "channel", 1.875, false},
		{"select * from messages where client_id = 'abc'", OneShard, "by_client_id", 2, false},
		{"select * from messages where user_id = 7", Scatter, "", 8, false},
		{"select count(*) from messages", Scatter, "", 8, false},
		{"select * from emoji", Reference, "", 1, false},
		{"select * from messages m join emoji e on e.name = m.text where m.channel_id = 7", OneShard, "channel", 1, false},
		{"select * from messages m join reactions r on r.channel_id = m.channel_id and r.message_id = m.id where m.channel_id = 7", OneShard, "channel", 1, false},
		{"select * from channel_members cm join messages m on m.channel_id = cm.channel_id where cm.user_id = 7", Several, "channel,user", 2, true},
		{"select * from messages m join reactions r on r.message_id = m.id where m.channel_id = 7", Scatter, "channel", 9, true},
		{"select * from settings where name = 'a'", Unsharded, "", 1, false},
		{"select 1", None, "", 0, false},
		{"set autocommit = 1", None, "", 0, false},
		{"begin", None, "", 0, false},
		{"insert into messages(channel_id, user_id, client_id, ts, text) values (1, 2, 'a', now(), 'x')", OneShard, "channel", 3, false},
		{"insert into reactions(channel_id, message_id, user_id, name) values (1, 2, 3, 'x'), (2, 2, 3, 'x')", Several, "channel", 1.875, false},
		{"update messages set text = 'x' where channel_id = 7 and id = 9", OneShard, "channel", 1, false},
		{"update messages set text = 'x' where id = 9", Scatter, "", 8, false},
		{"delete from messages where channel_id = 7 and id = 9", OneShard, "channel", 3, false},
		{"update messages set channel_id = 4 where id = 9", Unsupported, "", 0, false},
		{"create table a (id int)", Unsupported, "", 0, false},
		{"select * from nowhere.messages", Unsupported, "", 0, false},
		{"use chat", None, "", 0, false},
		{"use nowhere", Unsupported, "", 0, false},
		{"select @a := 1", Unsupported, "", 0, false},
		{"prepare s from 'select * from messages where user_id = ?'", None, "", 0, false},
		{"prepare s from 'select * from nowhere.messages'", Unsupported, "", 0, false},
	} {
		s, err := p.Parse(c.query)
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		plan := p.Plan(context.Background(), s)
		shards, least := plan.ShardQueries(func(Part) int { return 2 }, 2)
		if strings.Contains(c.query, "(1, 2, 'a'") {
			shards, least = plan.ShardQueries(func(Part) int { return 2 }, 1)
		}
		if plan.Class != c.class || strings.Join(plan.Vindexes(), ",") != c.vindexes || (shards != c.shards && plan.Class != Unsupported) || least != c.least {
			t.Errorf("%s:\n got %s by %q, %v shard queries (least %t), reason %q, parts %+v\nwant %s by %q, %v, %t", c.query, plan.Class, plan.Vindexes(), shards, least, plan.Reason, plan.Parts, c.class, c.vindexes, c.shards, c.least)
		}
		if (plan.Class == Unsupported) != (plan.Reason != "") {
			t.Errorf("%s: class %s with reason %q", c.query, plan.Class, plan.Reason)
		}
	}
}

func TestRemedies(t *testing.T) {
	p := chat(t, "chat")
	for query, want := range map[string][]string{
		"select * from messages where user_id = 7":                                 {"messages.channel_id (channel)", "messages.client_id (by_client_id)"},
		"select * from channel_members cm where cm.channel_id = 7":                 {"channel_members.user_id (user)"},
		"delete from reactions where message_id = 9":                               {"reactions.channel_id (channel)"},
		"select * from messages m join reactions r on r.message_id = m.id":         nil,
		"select * from messages m join reactions r on r.channel_id = m.channel_id": {"messages.channel_id (channel)", "messages.client_id (by_client_id)", "reactions.channel_id (channel)"},
		"select count(*) from emoji":                                               nil,
	} {
		if got := p.Remedies(context.Background(), query); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

func TestTextHidesValues(t *testing.T) {
	p := chat(t, "chat")
	for query, want := range map[string]string{
		"select /* user 4711 */ * from messages where text = 'secret' and channel_id = 4711 order by 2": "select * from messages where `text` = :text and channel_id = :channel_id order by 2 asc",
		"select * from messages where channel_id in (4711, 4712)":                                       "select * from messages where channel_id in ::vtg1",
		"set @a = 'secret'":          "set @a = ?",
		"show tables like 'secret%'": "show tables like ?",
		"insert into emoji(name, url) values ('secret', '4711'), ('secret', '4711'), ('secret', '4711')": "insert into emoji(`name`, url) values (:vtg1, :vtg2), (:vtg3, :vtg4)",
		"call p('secret', 4711)": "call p(:vtg1, :vtg2)",
		"select @a := 'secret'":  "select @a := ? from dual",
	} {
		s, err := p.Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if s.Text != want {
			t.Errorf("%s:\n got %s\nwant %s", query, s.Text, want)
		}
	}
	for _, query := range []string{"selec 'secret'", "select * from t where a = 'secret' bad bad 4711", "select 'secret"} {
		_, err := p.Parse(query)
		if err == nil {
			t.Errorf("%s: parsed", query)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: the error shows a value: %v", query, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	sharded := func() *VSchema {
		v := NewVSchema()
		if err := v.AddFile("chat=../testdata/chat.vschema.json"); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := New(Options{VSchema: sharded()}); err == nil || !strings.Contains(err.Error(), "--shards chat=8") {
		t.Errorf("no number of shards: %v", err)
	}
	v := sharded()
	v.Shards["chat"] = 8
	if _, err := New(Options{VSchema: v}); err == nil || !strings.Contains(err.Error(), "lookup") {
		t.Errorf("a sequence in a keyspace without a vschema: %v", err)
	}
	if err := v.AddFile("x=planner_test.go"); err == nil {
		t.Error("a vschema that is no JSON was taken")
	}
	if err := v.AddFile("chat=../testdata/chat.vschema.json"); err == nil {
		t.Error("a keyspace was taken twice")
	}
}
