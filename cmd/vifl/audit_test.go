package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shown = regexp.MustCompile("(?s)<!-- run -->\n```\n(.*?)```\n")

// The commands of docs/audit.md print what the page shows. VIFL_WRITE_DOCS=1 writes it.
func TestAuditPage(t *testing.T) {
	page, err := filepath.Abs("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../docs/audit-example")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	blocks := 0
	want := shown.ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		var out strings.Builder
		for _, line := range strings.Split(shown.FindStringSubmatch(block)[1], "\n") {
			command, isCommand := strings.CutPrefix(line, "$ vifl ")
			if !isCommand {
				continue
			}
			out.WriteString(line + "\n")
			command, file, redirected := strings.Cut(command, " > ")
			printed := stdout(t, func() {
				if code, errText := run(t, strings.Fields(command)...); code != exitDone {
					t.Errorf("%s: exit code %d: %s", line, code, errText)
				}
			})
			if redirected {
				if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			for _, l := range strings.Split(strings.TrimRight(printed, "\n"), "\n") {
				out.WriteString(strings.TrimRight(l, " ") + "\n")
			}
		}
		return "<!-- run -->\n```\n" + out.String() + "```\n"
	})
	if blocks < 3 {
		t.Fatalf("found %d examples in the page, expected 3 or more", blocks)
	}
	if want == string(text) {
		return
	}
	if os.Getenv("VIFL_WRITE_DOCS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	a, b := strings.Split(string(text), "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("docs/audit.md line %d shows\n%s\nbut the command prints\n%s\nVIFL_WRITE_DOCS=1 writes the page anew", i+1, a[i], b[i])
		}
	}
	t.Fatal("docs/audit.md shows more or fewer lines than the commands print: VIFL_WRITE_DOCS=1 writes it anew")
}

// What is wrong with a command line of audit is said before anything is read.
func TestAuditUsage(t *testing.T) {
	t.Chdir("../../docs/audit-example")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"audit"}, "found nothing to read"},
		{[]string{"audit", "slow.log"}, "found no --vschema"},
		{[]string{"audit", "--vschema", "chat=nope.json", "slow.log"}, "nope.json"},
		{[]string{"audit", "--vschema", "chat=slow.log", "slow.log"}, "expected what vtctldclient GetVSchema"},
		{[]string{"audit", "--vschema", "chat=by_channel.vschema.json", "slow.log"}, "--shards chat=8"},
		{[]string{"audit", "--vschema", "chat=by_channel.vschema.json", "--shards", "chat=8", "slow.log"}, "ids"},
		{[]string{"audit", "--vschema", "chat=by_channel.vschema.json", "--shards", "chat=x", "slow.log"}, `found "chat=x"`},
		{[]string{"audit", "--vschema", "ids.vschema.json", "--shards", "ids=2", "slow.log"}, "not sharded"},
		{[]string{"audit", "--vschema", "ids.vschema.json", "--schema", "chat.sql", "slow.log"}, "expected KEYSPACE=FILE"},
		{[]string{"audit", "--vschema", "ids.vschema.json", "--schema", "chat=chat.sql", "slow.log"}, "found no vschema of it"},
		{[]string{"audit", "--vschema", "ids.vschema.json", "--keyspace", "other", "slow.log"}, `keyspace "other"`},
		{[]string{"audit", "--vschema", "ids.vschema.json", "--format", "xml", "slow.log"}, "--format"},
		{[]string{"audit", "--vschema", "ids.vschema.json", "chat.sql.none"}, ""},
		{[]string{"audit", "--vschema", "ids.vschema.json", "by_user.vschema.json"}, "cannot be told by its first lines"},
		{[]string{"audit", "--fail-on", "sctter>1", "slow.log"}, `found metric "sctter"`},
		{[]string{"audit", "--target", "moon", "slow.log"}, "expected keyspaces or landing"},
		{[]string{"audit", "--target", "landing"}, "found no shard"},
		{[]string{"audit", "--target", "landing", "slow.log"}, "shard number"},
		{[]string{"audit", "--target", "landing", "0123", "--vschema", "ids.vschema.json", "slow.log"}, "has neither"},
		{[]string{"audit", "--mysql", "db1", "--vschema", "ids.vschema.json"}, "expected HOST:PORT"},
		{[]string{"audit", "--mysql", "db1:3306", "--vschema", "ids.vschema.json"}, "found no --mysql-user"},
		{[]string{"audit", "--mysql", "db1:3306", "--mysql-user", "a", "--mysql-password-env", "VIFL_NOT_SET", "--vschema", "ids.vschema.json"}, "VIFL_NOT_SET"},
		{[]string{"audit", "--compare", "a.json"}, "expected two results"},
		{[]string{"audit", "--compare", "slow.log", "slow.log"}, "expected what vifl audit --output json prints"},
		{[]string{"audit", "--compare", "--fail-on", "scatter>1", "a.json", "b.json"}, "expected one of worse"},
	} {
		code, text := run(t, c.args...)
		want := exitUsage
		if c.want == "" {
			want = exitFailed
		}
		if code != want || !strings.Contains(text, c.want) {
			t.Errorf("%v: exit code %d, want %d with %q: %s", c.args, code, want, c.want, text)
		}
	}
}

// --fail-on ends with exit code 4 behind the result, and --html writes a page that needs nothing else.
func TestAuditFailOn(t *testing.T) {
	t.Chdir("../../docs/audit-example")
	page := filepath.Join(t.TempDir(), "audit.html")
	args := []string{"audit", "--html", page, "--vschema", "chat=by_channel.vschema.json", "--vschema", "ids.vschema.json", "--schema", "chat=chat.sql", "--shards", "chat=8", "--fail-on"}
	printed := stdout(t, func() {
		if code, text := run(t, append(args, "scatter>1%,unsupported>0", "slow.log")...); code != exitDifferent || !strings.Contains(text, "scatter>1%: found 9.09") || !strings.Contains(text, "unsupported>0: found 1") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	if !strings.Contains(printed, "queries by cost") {
		t.Errorf("no result is printed: %s", printed)
	}
	stdout(t, func() {
		if code, text := run(t, append(args, "scatter>50%", "slow.log")...); code != exitDone {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "src=", "href=", "url(", "@import", "http://", "https://"} {
		if strings.Contains(string(html), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(string(html), "<svg") {
		t.Error("the page has no picture")
	}
}
