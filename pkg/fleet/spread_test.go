package fleet

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"0123":      "0123 ",
		"123, 0124": "0123,0124 ",
		"main_ks":   " main_ks",
		"":          "expected",
		"0123,main": "expected",
		"a,b":       "expected",
		"ks:-40":    "expected",
		"0123,123":  "twice",
	} {
		s, err := parse(text)
		var ids []string
		for _, id := range s.shards {
			ids = append(ids, id.String())
		}
		got := strings.Join(ids, ",") + " " + s.keyspace
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: found %q, expected %q", text, got, want)
		}
	}
}
