package cert

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/position"
)

func sample() *Certificate {
	side := func(n int) Server {
		return Server{ServerUUID: fmt.Sprintf("uuid-%d", n), Hostname: "h", Host: "10.0.0.1", Port: 3306 + n, ServerID: uint32(n), Version: "8.0.36", Database: "slack"}
	}
	pos := func(n uint64) position.FilePos {
		return position.FilePos{Server: "uuid-1", File: "binlog.000007", Pos: n}
	}
	cut := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("x", 3600))
	return &Certificate{
		Shard: 123, A: side(1), B: side(2), StreamedUUID: "uuid-1", Cut: pos(4711),
		Landing: Landing{Keyspace: "legacy_0123", PrimaryAlias: "zone1-100", PrimaryUUID: "uuid-9", Tablets: []Tablet{{"zone1-100", "uuid-9"}, {"zone1-101", "uuid-8"}}},
		Stream:  Stream{ID: 3, Source: "legacy_0123_a", Start: pos(157)}, SchemaSource: "s1", SchemaTarget: "s1",
		Tables: []Table{{"messages", 12, "aa"}, {"teams", 0, "bb"}}, Drift: Drift{Rows: 12, Rechecked: 1,
			Accepted: []AcceptedRow{{Table: "messages", Key: "1", A: "aa", B: "bb", Newer: "b", NewerBy: "updated_at", Who: "me@here", Why: "agreed", At: cut.UTC()}}},
		Inspected: pos(4800), CutAt: cut, Finished: cut.Add(time.Minute), Version: "v0.1",
	}
}

func TestSealedVerifiesAlsoAfterStorage(t *testing.T) {
	c := sample()
	if err := c.Verify(); !errors.Is(err, ErrInvalid) {
		t.Errorf("an unsealed certificate verifies: %v", err)
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Certificate
	if err := json.Unmarshal(js, &back); err != nil {
		t.Fatal(err)
	}
	if err := back.Verify(); err != nil {
		t.Error(err)
	}
	local := *c
	local.CutAt = local.CutAt.Local() // the same instant
	if err := local.Verify(); err != nil {
		t.Error(err)
	}
	if got := c.Age(c.CutAt.Add(90 * time.Second)); got != 90*time.Second {
		t.Errorf("age %s", got)
	}
	if c.Rows() != 12 {
		t.Errorf("%d rows", c.Rows())
	}
}

// TestEveryFieldCounts changes each value of a sealed certificate, however deep, and
// expects Verify to notice.
func TestEveryFieldCounts(t *testing.T) {
	sealed := sample()
	if err := sealed.Seal(); err != nil {
		t.Fatal(err)
	}
	n := 0
	var visit func(v reflect.Value, path string)
	check := func(path string) {
		n++
		if err := sealed.Verify(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s changed, and Verify says %v", path, err)
		}
	}
	visit = func(v reflect.Value, path string) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		defer v.Set(old)
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(v.Interface().(time.Time).Add(time.Nanosecond)))
			check(path)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				visit(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
			v.Set(v.Slice(0, v.Len()-1))
			check(path + " shortened")
		case v.Kind() == reflect.String:
			v.SetString(v.String() + "x")
			check(path)
		case v.CanInt():
			v.SetInt(v.Int() + 1)
			check(path)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
			check(path)
		default:
			t.Fatalf("%s: nobody has thought of %s here", path, v.Type())
		}
	}
	visit(reflect.ValueOf(sealed).Elem(), "certificate")
	if n < 50 {
		t.Errorf("only %d values were changed", n)
	}
	if err := sealed.Verify(); err != nil {
		t.Fatalf("the test did not put everything back: %v", err)
	}
}

func TestSealRefuses(t *testing.T) {
	for want, damage := range map[string]func(*Certificate){
		"side a":              func(c *Certificate) { c.A = Server{} },
		"streamed server":     func(c *Certificate) { c.StreamedUUID = "" },
		"cut's position":      func(c *Certificate) { c.Cut = position.FilePos{} },
		"landing":             func(c *Certificate) { c.Landing.PrimaryUUID = "" },
		"tablets":             func(c *Certificate) { c.Landing.Tablets = nil },
		"the stream":          func(c *Certificate) { c.Stream.ID = 0 },
		"the tables":          func(c *Certificate) { c.Tables = nil },
		"schema":              func(c *Certificate) { c.SchemaTarget = "" },
		"inspected":           func(c *Certificate) { c.Inspected = position.FilePos{} },
		"times":               func(c *Certificate) { c.Finished = time.Time{} },
		"version":             func(c *Certificate) { c.Version = "" },
		"1 row(s) of the lan": func(c *Certificate) { c.Differing = 1 },
		"2 of side b":         func(c *Certificate) { c.Drift.Differing = 2 },
	} {
		c := sample()
		damage(c)
		err := c.Seal()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "0123") {
			t.Errorf("expected a refusal that says %q, got %v", want, err)
		}
		if c.Digest != "" {
			t.Errorf("%s: sealed in spite of it", want)
		}
	}
}

func TestAcceptedRowsAreSealed(t *testing.T) {
	row := AcceptedRow{Table: "messages", Key: "1", A: "aa", B: "bb", Who: "me@here", At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	c := sample()
	c.Drift.Accepted = []AcceptedRow{row}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*AcceptedRow){
		"another row":      func(r *AcceptedRow) { r.Key = "2" },
		"another content":  func(r *AcceptedRow) { r.B = "cc" },
		"nobody":           func(r *AcceptedRow) { r.Who = "" },
		"no difference":    func(r *AcceptedRow) { r.B = r.A },
		"at no time":       func(r *AcceptedRow) { r.At = time.Time{} },
		"accepted by more": func(r *AcceptedRow) { r.Who += ", you@there" },
	} {
		changed := *c
		changed.Drift.Accepted = []AcceptedRow{row}
		change(&changed.Drift.Accepted[0])
		if err := changed.Verify(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
