package vindexes

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vitess.io/vitess/go/sqltypes"
	"vitess.io/vitess/go/vt/key"
	"vitess.io/vitess/go/vt/vterrors"
	vtvindexes "vitess.io/vitess/go/vt/vtgate/vindexes"

	querypb "vitess.io/vitess/go/vt/proto/query"
	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/teammap"
)

// subject is a vindex under the suite.
type subject struct {
	name, kind string
	params     map[string]string
	// vcursor is nil where there is no vtgate, as in a tablet.
	vcursor vtvindexes.VCursor
	// vectors are values and their keyspace ids in hex, pinned: a change moves rows away
	// from where they are looked for.
	vectors map[string]string
	// numbers are ids that the vindex knows.
	numbers []uint64
	// inside reports whether a keyspace id can be this vindex's.
	inside func(ksid []byte) bool
	// refused are values that this vindex refuses, beside those that all refuse.
	refused []sqltypes.Value
}

// knownTeams are the teams of mains and of the team map in these tests.
var knownTeams = map[uint64]shardid.ID{
	0: 123, 1: 123, 2: 124, 7: 0, 10: 123, 123: 65535, 4614570057: 83, 1<<63 - 1: 123, 1 << 63: 124, 1<<64 - 1: 124,
}

const servedByTests = "0000,0083,0123-0124,65535"

func teamMapFile(t testing.TB, teams map[uint64]shardid.ID) string {
	t.Helper()
	var b teammap.Builder
	for team, shard := range teams {
		b.Add(team, shard)
	}
	m, err := b.Build(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "teams.map")
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func create(t testing.TB, kind, name string, params map[string]string) vtvindexes.SingleColumn {
	t.Helper()
	v, err := vtvindexes.CreateVindex(kind, name, params)
	if err != nil {
		t.Fatal(err)
	}
	single, ok := v.(vtvindexes.SingleColumn)
	if !ok {
		t.Fatalf("%s: found %T, expected a vindex of one column", kind, v)
	}
	if p, ok := v.(vtvindexes.ParamValidating); !ok || len(p.UnknownParams()) != 0 {
		t.Fatalf("%s: its parameters are not validated, or it does not know its own", kind)
	}
	return single
}

// The vectors were computed by a second implementation of xxHash64, not by this package.
func subjects(t testing.TB) []subject {
	teams := map[string]string{
		"0": "007becaf441208573463", "1": "007bd46405367612b4b7", "2": "007c8b59801662b52160", "7": "0000b77a0da0b6524a18",
		"10": "007b177fb0a30e55484b", "123": "ffff85e8a73f227d693c", "4614570057": "00534b5e4e5018b2f877",
		"9223372036854775807": "007bb37eb01f7bffafd8", "9223372036854775808": "007ca3523da2ce8f4a3f", "18446744073709551615": "007c477cfa8d6d8f1f8d",
		"0001": "007bd46405367612b4b7", "00000000000000000000000000000000000002": "007c8b59801662b52160",
	}
	numbers := make([]uint64, 0, len(knownTeams))
	for n := range knownTeams {
		numbers = append(numbers, n)
	}
	served, err := parseShards(servedByTests)
	if err != nil {
		t.Fatal(err)
	}
	inside := func(ksid []byte) bool {
		return len(ksid) == prefixSize+hashSize && served.has(shardid.ID(binary.BigEndian.Uint16(ksid)))
	}
	byLookup := map[string]string{"shards": servedByTests, "table": "mains.teams", "from": "team_id", "to": "shard"}
	byFile := map[string]string{"shards": servedByTests, "file": teamMapFile(t, knownTeams)}
	both := maps.Clone(byLookup)
	maps.Copy(both, byFile)
	public := texts("C024BE91L", "Tomorrow")
	return []subject{
		{
			name: "entity_id", kind: "entity_id",
			vectors: map[string]string{
				"0": "ecaf441208573463", "1": "d46405367612b4b7", "4614570057": "4b5e4e5018b2f877", "9223372036854775807": "b37eb01f7bffafd8",
				"9223372036854775808": "a3523da2ce8f4a3f", "18446744073709551615": "477cfa8d6d8f1f8d", "1234567890123": "1f7797988213f681",
				"A0": "ecaf441208573463", "C1": "d46405367612b4b7", "C000001": "d46405367612b4b7", "ZZ": "d68b874c6ef51074", "C024BE91L": "4b5e4e5018b2f877",
				"U24BE91L": "4b5e4e5018b2f877", "CFR5HUGNF": "1f7797988213f681", "W3W5E11264SGSF": "477cfa8d6d8f1f8d",
			},
			numbers: numbers,
			inside:  func(ksid []byte) bool { return len(ksid) == hashSize },
			refused: append(texts("007", "00", "0001", "C", "c024be91l", "C024be91l", "024BE91L", "C-1", "C 1", "CC_", "W3W5E11264SGSG", "WZZZZZZZZZZZZZZZZZZ", "ÄC1", "C1\n"),
				sqltypes.MakeTrusted(sqltypes.Int64, []byte("007")), sqltypes.MakeTrusted(sqltypes.Int64, []byte("C1"))),
		},
		{name: "legacy_shard by look-up", kind: "legacy_shard", params: byLookup, vcursor: newMains(knownTeams), vectors: teams, numbers: numbers, inside: inside, refused: public},
		{name: "legacy_shard by team map", kind: "legacy_shard", params: byFile, vectors: teams, numbers: numbers, inside: inside, refused: public},
		{name: "legacy_shard of both, in vtgate", kind: "legacy_shard", params: both, vcursor: newMains(knownTeams), vectors: teams, numbers: numbers, inside: inside, refused: public},
		{name: "legacy_shard of both, in a tablet", kind: "legacy_shard", params: both, vectors: teams, numbers: numbers, inside: inside, refused: public},
	}
}

func texts(list ...string) []sqltypes.Value {
	values := make([]sqltypes.Value, len(list))
	for i, s := range list {
		values[i] = sqltypes.NewVarChar(s)
	}
	return values
}

// refusedByAll are values that no vindex of ours takes.
func refusedByAll() []sqltypes.Value {
	return append(texts("", " ", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "18446744073709551616", "99999999999999999999", "184467440737095516150",
		"000000000000000000000000018446744073709551616", "abc", "1\x00", "\x001", "\u0661", "\xff", strings.Repeat("9", 100000)),
		sqltypes.NewInt64(-1), sqltypes.NewInt64(-1<<63), sqltypes.MakeTrusted(sqltypes.Uint64, []byte("18446744073709551616")), sqltypes.MakeTrusted(sqltypes.Int64, nil),
		sqltypes.NewFloat64(1.5), sqltypes.NewFloat64(1e20), sqltypes.NewFloat64(math.NaN()), sqltypes.NewFloat64(math.Inf(1)), sqltypes.NewDecimal("1.0"), sqltypes.NewDecimal("-1"),
		sqltypes.NewHexNum([]byte("0x31")), sqltypes.NewHexVal([]byte("x'31'")), sqltypes.NewBitNum([]byte("0b1")),
		sqltypes.NewDate("2026-01-01"), sqltypes.NewDatetime("2026-01-01 00:00:00"), sqltypes.NewTime("01:00:00"),
		sqltypes.MakeTrusted(sqltypes.Year, []byte("2026")), sqltypes.MakeTrusted(sqltypes.TypeJSON, []byte("1")), sqltypes.MakeTrusted(sqltypes.Enum, []byte("1")),
		sqltypes.MakeTrusted(sqltypes.Set, []byte("1")), sqltypes.MakeTrusted(sqltypes.Bit, []byte("1")), sqltypes.MakeTrusted(sqltypes.Geometry, []byte("1")),
		sqltypes.MakeTrusted(sqltypes.Tuple, []byte("1")), sqltypes.MakeTrusted(sqltypes.Expression, []byte("1")),
	)
}

// decimals are the ids as values, each in another type in turn.
func decimals(numbers []uint64) []sqltypes.Value {
	types := []querypb.Type{sqltypes.Uint64, sqltypes.VarChar, sqltypes.VarBinary, sqltypes.Int64, sqltypes.Decimal, sqltypes.Text, sqltypes.Char, sqltypes.Blob, sqltypes.Binary, sqltypes.Float64}
	values := make([]sqltypes.Value, len(numbers))
	for i, n := range numbers {
		values[i] = sqltypes.MakeTrusted(types[i%len(types)], strconv.AppendUint(nil, n, 10))
	}
	return values
}

func ksidOf(t testing.TB, d key.ShardDestination) []byte {
	t.Helper()
	ksid, ok := d.(key.DestinationKeyspaceID)
	if !ok {
		t.Fatalf("found the destination %v, expected a keyspace id", d)
	}
	return ksid
}

func TestConformance(t *testing.T) {
	ctx := context.Background()
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			v := create(t, s.kind, s.name, s.params)
			mapOne := func(t testing.TB, v vtvindexes.SingleColumn, id sqltypes.Value) []byte {
				t.Helper()
				out, err := v.Map(ctx, s.vcursor, []sqltypes.Value{id})
				if err != nil || len(out) != 1 {
					t.Fatalf("%s: found %v (%v), expected one destination", id, out, err)
				}
				return ksidOf(t, out[0])
			}

			t.Run("is a unique vindex with the name it was given", func(t *testing.T) {
				if !v.IsUnique() || v.String() != s.name || v.Cost() < 1 {
					t.Fatalf("found unique %v, name %q, cost %d", v.IsUnique(), v.String(), v.Cost())
				}
			})
			t.Run("known vectors are pinned", func(t *testing.T) {
				for value, want := range s.vectors {
					if got := hex.EncodeToString(mapOne(t, v, sqltypes.NewVarChar(value))); got != want {
						t.Errorf("%s: found %s, expected %s", value, got, want)
					}
				}
			})
			t.Run("deterministic, also when it is built anew", func(t *testing.T) {
				again := create(t, s.kind, s.name, s.params)
				for _, id := range decimals(s.numbers) {
					first := mapOne(t, v, id)
					if !bytes.Equal(first, mapOne(t, v, id)) || !bytes.Equal(first, mapOne(t, again, id)) {
						t.Errorf("%s: found two keyspace ids", id)
					}
				}
			})
			t.Run("inside the keyspace", func(t *testing.T) {
				for _, id := range decimals(s.numbers) {
					if ksid := mapOne(t, v, id); !s.inside(ksid) {
						t.Errorf("%s: found %x", id, ksid)
					}
				}
			})
			t.Run("the number alone counts, not its type", func(t *testing.T) {
				for _, n := range s.numbers {
					want := mapOne(t, v, sqltypes.NewUint64(n))
					for _, kind := range []querypb.Type{sqltypes.Int64, sqltypes.VarChar, sqltypes.VarBinary, sqltypes.Decimal, sqltypes.Float64, sqltypes.Binary} {
						if got := mapOne(t, v, sqltypes.MakeTrusted(kind, strconv.AppendUint(nil, n, 10))); !bytes.Equal(got, want) {
							t.Errorf("%d as %s: found %x, expected %x", n, kind, got, want)
						}
					}
				}
			})
			t.Run("batch is single", func(t *testing.T) {
				ids := append(decimals(s.numbers), sqltypes.NULL)
				ids = append(ids, decimals(s.numbers[:3])...)
				out, err := v.Map(ctx, s.vcursor, ids)
				if err != nil || len(out) != len(ids) {
					t.Fatalf("found %d destinations (%v), expected %d", len(out), err, len(ids))
				}
				for i, id := range ids {
					if id.IsNull() {
						if _, ok := out[i].(key.DestinationNone); !ok {
							t.Errorf("NULL: found %v, expected no destination", out[i])
						}
						continue
					}
					if got, want := ksidOf(t, out[i]), mapOne(t, v, id); !bytes.Equal(got, want) {
						t.Errorf("%s: found %x in the batch, %x alone", id, got, want)
					}
				}
				for _, none := range [][]sqltypes.Value{nil, {}} {
					if out, err := v.Map(ctx, s.vcursor, none); err != nil || len(out) != 0 {
						t.Errorf("no values: found %v (%v)", out, err)
					}
				}
			})
			t.Run("NULL is on no shard", func(t *testing.T) {
				out, err := v.Map(ctx, s.vcursor, []sqltypes.Value{sqltypes.NULL})
				if err != nil || len(out) != 1 || out[0] != (key.DestinationNone{}) {
					t.Fatalf("found %v (%v), expected no destination", out, err)
				}
				ok, err := v.Verify(ctx, s.vcursor, []sqltypes.Value{sqltypes.NULL, sqltypes.NULL}, [][]byte{nil, mapOne(t, v, sqltypes.NewInt64(1))})
				if err != nil || ok[0] || ok[1] {
					t.Fatalf("found %v (%v), expected false", ok, err)
				}
			})
			t.Run("Verify agrees with Map", func(t *testing.T) {
				ids := decimals(s.numbers)
				out, err := v.Map(ctx, s.vcursor, ids)
				if err != nil {
					t.Fatal(err)
				}
				own := make([][]byte, len(ids))
				for i := range out {
					own[i] = ksidOf(t, out[i])
				}
				for turn := range ids {
					ksids := append(append([][]byte{}, own[turn:]...), own[:turn]...)
					found, err := v.Verify(ctx, s.vcursor, ids, ksids)
					if err != nil || len(found) != len(ids) {
						t.Fatalf("found %v (%v)", found, err)
					}
					for i, ok := range found {
						if ok != (turn == 0) {
							t.Errorf("%s and %x: found %v", ids[i], ksids[i], ok)
						}
					}
				}
				for _, bad := range [][]byte{nil, {}, own[0][:1], append(append([]byte{}, own[0]...), 0)} {
					if found, err := v.Verify(ctx, s.vcursor, ids[:1], [][]byte{bad}); err != nil || found[0] {
						t.Errorf("keyspace id %x: found %v (%v), expected false", bad, found, err)
					}
				}
				if _, err := v.Verify(ctx, s.vcursor, ids, own[1:]); err == nil {
					t.Error("a keyspace id is missing: found no error")
				}
			})
			t.Run("anything else is refused, by name and alone", func(t *testing.T) {
				good := sqltypes.NewInt64(1)
				for _, bad := range append(refusedByAll(), s.refused...) {
					for _, ids := range [][]sqltypes.Value{{bad}, {good, bad}, {bad, good}} {
						out, err := v.Map(ctx, s.vcursor, ids)
						if err == nil || out != nil {
							t.Fatalf("%s: found %v, expected an error", bad, out)
						}
						if !strings.Contains(err.Error(), "vindex "+s.name+": found "+strings.ToLower(bad.Type().String())) || !strings.Contains(err.Error(), "expected") || len(err.Error()) > 500 {
							t.Errorf("%s: found the error %q, expected the vindex, what was found and what is expected", bad, err)
						}
						if vterrors.Code(err) != vtrpcpb.Code_INVALID_ARGUMENT {
							t.Errorf("%s: found the code %s", bad, vterrors.Code(err))
						}
						if _, err := v.Verify(ctx, s.vcursor, ids, make([][]byte, len(ids))); err == nil {
							t.Errorf("%s: Verify took it", bad)
						}
					}
				}
			})
			t.Run("a result is the caller's own", func(t *testing.T) {
				id := sqltypes.NewInt64(1)
				first := mapOne(t, v, id)
				want := bytes.Clone(first)
				clear(first)
				if got := mapOne(t, v, id); !bytes.Equal(got, want) {
					t.Fatalf("found %x after the first result was written to, expected %x", got, want)
				}
				out, err := v.Map(ctx, s.vcursor, []sqltypes.Value{id, id})
				if err != nil {
					t.Fatal(err)
				}
				_ = append(ksidOf(t, out[0]), 1, 2, 3)
				if got := ksidOf(t, out[1]); !bytes.Equal(got, want) {
					t.Fatalf("found %x after something was appended to its neighbour, expected %x", got, want)
				}
			})
			t.Run("from many goroutines", func(t *testing.T) {
				var all sync.WaitGroup
				ids := decimals(s.numbers)
				want := make([][]byte, len(ids))
				for i, id := range ids {
					want[i] = mapOne(t, v, id)
				}
				for g := range 8 {
					all.Go(func() {
						own := create(t, s.kind, fmt.Sprintf("%s %d", s.name, g%2), s.params)
						for i := range 200 {
							at := (i*7 + g) % len(ids)
							out, err := own.Map(ctx, s.vcursor, ids[at:at+1])
							if err != nil || !bytes.Equal(out[0].(key.DestinationKeyspaceID), want[at]) {
								t.Errorf("%s: found %v (%v), expected %x", ids[at], out, err, want[at])
								return
							}
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// A keyspace that is sharded by Vitess' xxhash can change over to entity_id.
func TestEntityIDAgreesWithVitessXXHash(t *testing.T) {
	ctx := context.Background()
	theirs, err := vtvindexes.CreateVindex("xxhash", "xxhash", nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := create(t, "entity_id", "entity_id", nil)
	random := rand.New(rand.NewPCG(1, 2))
	numbers := []uint64{0, 1, 9, 10, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	for range 20000 {
		numbers = append(numbers, random.Uint64()>>random.UintN(64))
	}
	ids := decimals(numbers)
	want, err := vtvindexes.Map(ctx, theirs, nil, rowsOf(ids))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ours.Map(ctx, nil, ids)
	if err != nil {
		t.Fatal(err)
	}
	public := make([]sqltypes.Value, len(numbers))
	for i, n := range numbers {
		public[i] = sqltypes.NewVarChar("U" + strings.Repeat("0", i%3) + strings.ToUpper(strconv.FormatUint(n, 36)))
	}
	byPublic, err := ours.Map(ctx, nil, public)
	if err != nil {
		t.Fatal(err)
	}
	hashing, ok := ours.(vtvindexes.Hashing)
	if !ok {
		t.Fatal("multicol cannot use it")
	}
	for i := range ids {
		w := ksidOf(t, want[i])
		h, err := hashing.Hash(ids[i])
		if g, p := ksidOf(t, got[i]), ksidOf(t, byPublic[i]); err != nil || !bytes.Equal(g, w) || !bytes.Equal(p, w) || !bytes.Equal(h, w) {
			t.Fatalf("%s, %s: found %x and %x, hash %x (%v), xxhash has %x", ids[i], public[i], g, p, h, err, w)
		}
	}
	if _, err := hashing.Hash(sqltypes.NULL); err == nil {
		t.Error("Hash of NULL: found no error")
	}
}

func rowsOf(ids []sqltypes.Value) [][]sqltypes.Value {
	rows := make([][]sqltypes.Value, len(ids))
	for i, id := range ids {
		rows[i] = []sqltypes.Value{id}
	}
	return rows
}

// What follows the shard in a keyspace id is what Vitess' xxhash gives the team: a fleet that
// leaves the prefix behind (a landing that is split by xxhash) hashes as before.
func TestLegacyShardEndsWithVitessXXHash(t *testing.T) {
	ctx := context.Background()
	theirs, err := vtvindexes.CreateVindex("xxhash", "xxhash", nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, shard := range knownTeams {
		ksid := ksidOf(t, destination(make([]byte, ksidSize), shard, n, nil))
		want, err := vtvindexes.Map(ctx, theirs, nil, rowsOf([]sqltypes.Value{sqltypes.NewUint64(n)}))
		if err != nil {
			t.Fatal(err)
		}
		if got := append(binary.BigEndian.AppendUint16(nil, uint16(shard)), ksidOf(t, want[0])...); !bytes.Equal(ksid, got) {
			t.Errorf("%d: found %x, expected %x", n, ksid, got)
		}
	}
}

func TestEntityIDTakesTheListedPrefixesOnly(t *testing.T) {
	v := create(t, "entity_id", "channel_id", map[string]string{"prefixes": "CDG"})
	for value, taken := range map[string]bool{"C1": true, "G1": true, "U1": false, "1": true} {
		_, err := v.Map(context.Background(), nil, texts(value))
		if (err == nil) != taken {
			t.Errorf("%s: found %v", value, err)
		}
		if err != nil && !strings.Contains(err.Error(), "the letter one of CDG") {
			t.Errorf("%s: found the error %q, expected the letters", value, err)
		}
	}
}

func TestWrongParametersAreRefused(t *testing.T) {
	look := func(more ...string) map[string]string {
		p := map[string]string{"shards": "0123", "table": "mains.teams", "from": "team_id", "to": "shard"}
		for i := 0; i < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return p
	}
	for _, c := range []struct {
		kind   string
		params map[string]string
		want   string
	}{
		{"entity_id", map[string]string{"prefixes": ""}, "prefixes is empty"},
		{"entity_id", map[string]string{"prefixes": "cd"}, "expected letters from A to Z"},
		{"legacy_shard", nil, "shards is missing"},
		{"legacy_shard", map[string]string{"shards": "0123"}, "neither table nor file is given"},
		{"legacy_shard", look("shards", "0x7b"), "expected decimal digits only"},
		{"legacy_shard", look("shards", "65536"), "between 0 and 65535"},
		{"legacy_shard", look("shards", "0124-0123"), "expected the lower number first"},
		{"legacy_shard", look("shards", "0123,"), "shard number is empty"},
		{"legacy_shard", look("table", "teams"), "expected keyspace.table"},
		{"legacy_shard", look("table", "a.b.c"), "expected keyspace.table"},
		{"legacy_shard", look("from", ""), "expected all of them"},
		{"legacy_shard", look("staleness", "0s"), "expected a time above 0"},
		{"legacy_shard", look("staleness", "30"), "expected a time above 0"},
		{"legacy_shard", look("timeout", "-1s"), "expected a time above 0"},
		{"legacy_shard", look("cache_size", "0"), "expected a number of teams"},
		{"legacy_shard", look("cache_size", "1e9"), "expected a number of teams"},
		{"legacy_shard", look("unknown", "scatter"), "expected error or none"},
		{"legacy_shard", look("file_max_age", "1h"), "file_max_age is given without file"},
	} {
		_, err := vtvindexes.CreateVindex(c.kind, "v", c.params)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "vindex v: ") {
			t.Errorf("%s %v: found %v, expected %q", c.kind, c.params, err, c.want)
		}
	}
	v, err := vtvindexes.CreateVindex("legacy_shard", "v", look("stalenes", "1s"))
	if err != nil {
		t.Fatal(err)
	}
	if u := v.(vtvindexes.ParamValidating).UnknownParams(); len(u) != 1 || u[0] != "stalenes" {
		t.Errorf("found the unknown parameters %v, expected stalenes", u)
	}
}
