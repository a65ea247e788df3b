package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/audit/querylog"
)

func chatPlanner(t testing.TB, shards int) *planner.Planner {
	t.Helper()
	v := planner.NewVSchema()
	for _, f := range []string{"chat=testdata/chat.vschema.json", "testdata/lookup.vschema.json"} {
		if err := v.AddFile(f); err != nil {
			t.Fatal(err)
		}
	}
	v.Shards["chat"] = shards
	p, err := planner.New(planner.Options{VSchema: v, Schemas: map[string]string{"chat": "testdata/chat.schema.sql"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func audited(t testing.TB, o Options, format querylog.Format, log string) *Result {
	t.Helper()
	if o.Planner == nil {
		o.Planner = chatPlanner(t, 8)
	}
	a := New(o)
	if err := querylog.Read(context.Background(), strings.NewReader(log), format, func(e querylog.Event) error { return a.Observe(context.Background(), e) }); err != nil {
		t.Fatal(err)
	}
	return a.Result()
}

func find(t testing.TB, r *Result, part string) Query {
	t.Helper()
	for _, q := range r.Queries {
		if strings.Contains(q.Text, part) {
			return q
		}
	}
	t.Fatalf("no query with %q in %+v", part, r.Queries)
	return Query{}
}

func TestWeights(t *testing.T) {
	r := audited(t, Options{}, querylog.CSV, `query,calls,seconds,rows
"select * from messages where channel_id = 7",900,1.5,9000
select * from messages where channel_id = 8,90,0.5,1
select * from messages where user_id = 4,10,8,100
"select * from messages where channel_id in (1,2,3)",10,1,10
select * from nowhere.t,5,1,0
set autocommit=1,1000,1,0
`)
	if q := find(t, r, "channel_id = :channel_id"); q.Calls != 990 || q.Seconds != 2 || q.Rows != 9001 || q.Class != planner.OneShard || q.ShardQueries != 1 {
		t.Errorf("one shard: %+v", q)
	}
	if q := find(t, r, "in ::"); q.Class != planner.Several || fmt.Sprintf("%.3f", q.ShardQueries) != "2.641" {
		t.Errorf("a list of three on eight shards, 8*(1-(7/8)^3): %+v", q)
	}
	x := r.Totals
	if x.Calls != 2015 || x.Judged != 2015 || x.Reaching != 1015 || x.UnsupportedTotal != 1 {
		t.Errorf("totals: %+v", x)
	}
	if got := fmt.Sprintf("%.3f %.3f %.3f %.3f %.3f", x.SingleShard, x.SingleShardTime, x.Scatter, x.ScatterTime, x.Amplification); got != "97.537 16.667 0.985 66.667 1.086" {
		t.Errorf("single %s", got)
	}
	if len(find(t, r, "user_id").Remedies) != 2 {
		t.Errorf("remedies: %+v", find(t, r, "user_id"))
	}
}

func TestValuesAreHidden(t *testing.T) {
	log := `select /* by 4711 secret */ * from messages where text = 'secret' and channel_id = 4711; -- secret 4711
set @x = 'secret', @y = 4711;
call p('secret', 4711);
selec 'secret' 4711;
grant all on *.* to 'secret'@'4711';
insert into reactions values (4711, 4711, 4711, 'secret'), (4711, 4711, 4711, 'secret');
select * from messages where text = 'secret' and nonsense nonsense 4711;
select @a := 'secret';
show tables like 'secret';
`
	r := audited(t, Options{}, querylog.SQL, log)
	var text, page bytes.Buffer
	r.WriteText(&text, 100)
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, out := range map[string]string{"text": text.String(), "page": page.String(), "json": string(j)} {
		for _, value := range []string{"secret", "4711"} {
			if i := strings.Index(out, value); i >= 0 {
				t.Errorf("%s shows %q: …%s…", name, value, out[max(0, i-80):min(len(out), i+80)])
			}
		}
	}
	if r.Totals.Calls != 9 || r.Totals.Judged != 9 {
		t.Errorf("totals %+v", r.Totals)
	}
	r = audited(t, Options{Examples: true}, querylog.SQL, log)
	if q := find(t, r, "`text` = :text and channel_id"); !strings.Contains(q.Example, "secret") {
		t.Errorf("an example that was asked for is not there: %+v", q)
	}
}

func general(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		id, command, _ := strings.Cut(l, " ")
		name, text, _ := strings.Cut(command, " ")
		fmt.Fprintf(&b, "2026-01-01T00:00:00.000000Z\t%5s %s\t%s\n", id, name, text)
	}
	return b.String()
}

func TestTransactions(t *testing.T) {
	in7 := "Query select * from messages where channel_id = 7"
	for _, c := range []struct {
		name string
		log  string
		want Transactions
	}{
		{"one value", general("1 Query begin", "1 "+in7, "1 Query insert into reactions values (7, 1, 2, 'x')", "1 Query commit"), Transactions{Total: 1, OneValue: 1, Percent: 100}},
		{"public form", general("1 Query begin", "1 Query select * from messages where channel_id = 'C7'", "1 "+in7, "1 Query commit"), Transactions{Total: 1, OneValue: 1, Percent: 100}},
		{"no transaction", general("1 " + in7), Transactions{}},
		{"rolled back", general("1 Query start transaction", "1 "+in7, "1 Query rollback"), Transactions{Total: 1, OneValue: 1, Percent: 100}},
		{"ended by quit", general("1 Query begin", "1 "+in7, "1 Quit "), Transactions{Total: 1, OneValue: 1, Percent: 100}},
		{"ended by begin", general("1 Query begin", "1 "+in7, "1 Query begin", "1 "+in7), Transactions{Total: 2, OneValue: 2, Percent: 100}},
		{"empty", general("1 Query begin", "1 Query set @a = 1", "1 Query commit"), Transactions{}},
		{"autocommit off", general("1 Query set autocommit=0", "1 "+in7, "1 Query commit", "1 "+in7, "1 Query commit"), Transactions{Total: 2, OneValue: 2, Percent: 100}},
		{"scatter", general("1 Query begin", "1 "+in7, "1 Query update messages set text='a' where id=1", "1 Query commit"), Transactions{Total: 1, Scattering: 1, SeveralWrites: 1}},
		{"list", general("1 Query begin", "1 Query select * from messages where channel_id in (1, 2)", "1 Query commit"), Transactions{Total: 1, Several: 1}},
		{"lookup", general("1 Query begin", "1 Query select * from messages where client_id = 'a'", "1 "+in7, "1 Query commit"), Transactions{Total: 1, Unknown: 1}},
		{"two keyspaces", general("1 Query begin", "1 Query insert into settings values (1)", "1 Query insert into reactions values (7, 1, 2, 'x')", "1 Query commit"), Transactions{Total: 1, Several: 1, SeveralWrites: 1}},
		{"interleaved", general("1 Query begin", "2 Query begin", "1 "+in7, "2 Query update messages set text='a' where id=1", "2 Query commit", "1 Query commit"), Transactions{Total: 2, OneValue: 1, Scattering: 1, SeveralWrites: 1, Percent: 50}},
	} {
		r := audited(t, Options{}, querylog.General, c.log)
		if r.Transactions == nil || *r.Transactions != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, r.Transactions, c.want)
		}
	}
	// Two channels: on one shard or on two, by their keyspace ids; entity_id is xxhash.
	several, one := 0, 0
	for channel := range 40 {
		r := audited(t, Options{Planner: chatPlanner(t, 2)}, querylog.General, general("1 Query begin", "1 "+in7, fmt.Sprintf("1 Query delete from reactions where channel_id = %d", 100+channel), "1 Query commit"))
		several, one = several+int(r.Transactions.Several), one+int(r.Transactions.OneShard)
	}
	if several+one != 40 || several < 8 || one < 8 {
		t.Errorf("of 40 pairs on two shards %d on several, %d on one", several, one)
	}
}

func TestFindings(t *testing.T) {
	for query, want := range map[string][]string{
		"select * from messages limit 10":                                 {findLimit},
		"select * from messages where channel_id = 7 limit 10":            nil,
		"select * from messages order by id limit 10, 10":                 {findOffset},
		"select * from messages where user_id = 1 for update":             {findLocks},
		"select * from messages where channel_id = 1 for update":          nil,
		"delete from reactions where message_id = 9":                      {findWrites},
		"set @@unique_checks = 0":                                         nil,
		"select get_lock('a', 1)":                                         {findNamedLock},
		"select last_insert_id()":                                         {findLastInsertID},
		"select sql_calc_found_rows * from messages where channel_id = 7": {findFoundRows},
		"select user_id, count(*) from messages group by user_id":         {findMemory},
		"select * from nowhere.t":                                         {findUnsupported},
		"lock tables messages write":                                      {findLockTables},
		"select * from channel_members c join messages m on m.channel_id = c.channel_id where c.user_id = 7": {findPerRow},
	} {
		r := audited(t, Options{}, querylog.SQL, query)
		if len(r.Queries) != 1 {
			t.Errorf("%s: %+v", query, r.Queries)
			continue
		}
		var got []string
		for _, f := range r.Findings {
			if len(f.Queries) > 0 {
				got = append(got, f.ID)
			}
		}
		if q := r.Queries[0]; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v; %s %s %+v", query, got, want, q.Class, q.Reason, q.Parts)
		}
	}
	r := audited(t, Options{}, querylog.SQL, "select 1")
	var unique []string
	for _, f := range r.Findings {
		if f.ID == findUnique {
			unique = f.Objects
		}
	}
	if len(unique) != 0 {
		t.Errorf("keys of the schema: %q", unique)
	}
}

func TestMaxQueries(t *testing.T) {
	var log strings.Builder
	for i := range 50 {
		fmt.Fprintf(&log, "select c%d from settings;\n", i)
	}
	r := audited(t, Options{MaxQueries: 20}, querylog.SQL, log.String()+log.String())
	if r.Totals.Queries != 20 || r.Totals.BeyondLimit != 60 || r.Totals.Judged != 40 || r.Totals.Calls != 100 {
		t.Errorf("%+v", r.Totals)
	}
	var text bytes.Buffer
	r.WriteText(&text, 5)
	if !strings.Contains(text.String(), "not judged: 60 call(s) of queries beyond the first 20") {
		t.Error(text.String())
	}
}

func TestStorm(t *testing.T) {
	r := audited(t, Options{}, querylog.SQL, "select 1")
	s := r.Storm[1]
	if s.Keyspace != "chat" || s.Shards != 8 || s.Fails != 0.01 || fmt.Sprintf("%.5f %.5f %.4f", s.Succeeds, s.Tries, s.ShardQueries) != "0.92274 1.08372 8.6698" {
		t.Errorf("%+v", s)
	}
}

func TestLimits(t *testing.T) {
	r := audited(t, Options{}, querylog.SQL, strings.Repeat("select * from messages where channel_id = 7;", 98)+"select * from messages; select * from nowhere.t")
	for text, want := range map[string]string{
		"scatter>1%,unsupported>0": "unsupported>0: found 1",
		"scatter>=1%":              "scatter>=1%: found 1",
		"single_shard<99%":         "single_shard<99%: found 98",
		"scatter>0":                "scatter>0: found 1",
		"amplification>1":          "amplification>1: found 1.071",
		"breaking>5":               "",
	} {
		limits, err := ParseLimits(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range Check(r, limits) {
			got = append(got, b.String())
		}
		if strings.Join(got, ";") != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for _, bad := range []string{"", "scatter", "scatter>x", "sctter>1", "amplification>1%", "scatter_time>1", "scatter>1%;unsupported>0"} {
		if l, err := ParseLimits(bad); err == nil {
			t.Errorf("%q was taken: %v", bad, l)
		}
	}
}

func TestCompare(t *testing.T) {
	log := strings.Repeat("select * from messages where channel_id = 7;", 10) + "select * from messages where user_id = 4; select 1 from emoji;"
	a := audited(t, Options{}, querylog.SQL, log)
	v := planner.NewVSchema()
	if err := v.AddFile("chat=testdata/chat_by_user.vschema.json"); err != nil {
		t.Fatal(err)
	}
	v.Shards["chat"] = 8
	p, err := planner.New(planner.Options{VSchema: v, Schemas: map[string]string{"chat": "testdata/chat.schema.sql"}})
	if err != nil {
		t.Fatal(err)
	}
	b := audited(t, Options{Planner: p}, querylog.SQL, log+"select 2 from reactions")
	c, err := Compare(a, b, "a.json", "b.json")
	if err != nil {
		t.Fatal(err)
	}
	if c.Better.Queries != 1 || c.Better.Calls != 1 || c.Worse.Queries != 1 || c.Worse.Calls != 10 || c.Same.Queries != 1 || c.OnlyB.Queries != 1 || c.OnlyA.Queries != 0 {
		t.Errorf("%+v", c)
	}
	if q := c.Queries[0]; q.Verdict != Worse || q.A.Class != "one_shard" || q.B.Class != "scatter" || q.B.ShardQueries != 8 {
		t.Errorf("%+v", q)
	}
	back, err := Compare(b, a, "b.json", "a.json")
	if err != nil || back.Better.Queries != c.Worse.Queries || back.Worse.Queries != c.Better.Queries {
		t.Errorf("%+v, %v", back, err)
	}
	j, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadResult(bytes.NewReader(j), "a.json")
	if err != nil {
		t.Fatal(err)
	}
	same, err := Compare(a, read, "a.json", "a.json")
	if err != nil || len(same.Queries) != 0 || same.Same.Queries != 3 {
		t.Errorf("a result read back is another: %+v, %v", same, err)
	}
	if _, err := ReadResult(strings.NewReader(`{"version": 99}`), "x.json"); err == nil {
		t.Error("a result of another version was taken")
	}
}

func TestLanding(t *testing.T) {
	l, err := NewLanding("legacy_0123", "slack", "testdata/legacy.schema.sql", "", []TeamColumn{{Column: "team_id"}, {Table: "teams", Column: "id"}})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		"select * from messages where team_id = 7 and id = 9":                           nil,
		"select * from messages where id = 9":                                           {findNoTeam},
		"select * from teams where id = 9":                                              nil,
		"select * from teams where id in (9, 10)":                                       nil,
		"insert into messages(team_id, text) values (7, 'a'), (8, 'b')":                 nil,
		"insert into messages(text) values ('a')":                                       {findNoTeam},
		"select * from slack.messages where team_id = 7":                                {findQualified},
		"select * from slack.messages where slack.messages.id = 7":                      {findQualified, findNoTeam},
		"select * from messages m join other.t on t.id = m.id where m.team_id = 7":      {findCross, findNoTeam},
		"select * from messages m join teams t on t.id = m.team_id where m.team_id = 7": nil,
		"lock tables messages write":                                                    {findTables},
		"unlock tables":                                                                 nil,
		"select get_lock('a', 1)":                                                       {findNamed},
		"create temporary table a (id int)":                                             {findTemporary},
		"call p(1)":                                                                     {findCall},
		"load data infile 'a' into table t":                                             {findLoadData},
		"set sql_mode = 'ansi'":                                                         {findSQLMode},
		"set time_zone = 'UTC'":                                                         {findTimeZone, findSetPins},
		"set names utf8mb4":                                                             nil,
		"use slack":                                                                     {findUse},
		"use legacy_0123":                                                               nil,
		"select @a := 1":                                                                {findRefused, findNoTeam},
		"handler messages open":                                                         {findUnparsed},
		"select * from config":                                                          {findNoTeam},
	} {
		r := audited(t, Options{Planner: l.Planner(), Landing: l}, querylog.SQL, query)
		if len(r.Queries) != 1 {
			t.Errorf("%s: %+v", query, r.Queries)
			continue
		}
		q := r.Queries[0]
		if !slices.Equal(q.Findings, want) {
			t.Errorf("%s: got %v, want %v; %s, reason %q, parts %+v", query, q.Findings, want, q.Class, q.Reason, q.Parts)
		}
		if f := r.Findings[len(r.Findings)-1]; !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == findNoTeamTable && slices.Equal(f.Objects, []string{"config"}) }) {
			t.Errorf("%s: the table without a team is missing: %+v", query, f)
		}
	}
}
