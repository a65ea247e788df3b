package shardid

import (
	"encoding/json"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want ID
		ok   bool
	}{
		{"0123", 123, true}, {"123", 123, true}, {"0", 0, true}, {"65535", 65535, true}, {"08", 8, true},
		{"65536", 0, false}, {"", 0, false}, {"-1", 0, false}, {"+1", 0, false}, {"0x7b", 0, false}, {" 1", 0, false}, {"1_2", 0, false}, {"٣", 0, false},
	} {
		got, err := Parse(c.in)
		if (err == nil) != c.ok || got != c.want {
			t.Errorf("Parse(%q) = %v, %v", c.in, got, err)
		}
	}
}

func TestTemplateDecodesOnlyItsOwnNames(t *testing.T) {
	tpl := Template("legacy_{shard}")
	for _, id := range []ID{0, 7, 123, 4567, 65535} {
		got, err := tpl.Decode(tpl.Keyspace(id))
		if err != nil || got != id {
			t.Errorf("Decode(Keyspace(%v)) = %v, %v", id, got, err)
		}
	}
	for _, name := range []string{"legacy_123", "legacy_00123", "legacy_", "legacy", "other_0123", "legacy_0123x", "legacy_012a", ""} {
		if id, err := tpl.Decode(name); err == nil {
			t.Errorf("Decode(%q) = %v, want an error", name, id)
		}
	}
	for _, bad := range []Template{"legacy", "a{shard}b{shard}", "", "a/{shard}", "a {shard}", "{shard}:0"} {
		if bad.Validate() == nil {
			t.Errorf("%q validates", bad)
		}
	}
}

func TestJSONKeepsLeadingZeros(t *testing.T) {
	b, err := json.Marshal(map[string]ID{"shard": 123})
	if err != nil || string(b) != `{"shard":"0123"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var back map[string]ID
	if err := json.Unmarshal(b, &back); err != nil || back["shard"] != 123 {
		t.Fatalf("%v, %v", back, err)
	}
}
