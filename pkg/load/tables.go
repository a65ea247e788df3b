package load

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/load/appschema"
)

// kind says how a column's text is written into SQL and read from it.
type kind int

const (
	number kind = iota
	text
	binaryText // BINARY columns; their text is upper-case hexadecimal
)

type column struct {
	name string
	kind kind
}

// sql is the column as a SELECT names it, so that its text comes back.
func (c column) sql() string {
	if c.kind == binaryText {
		return "HEX(" + c.name + ")"
	}
	return c.name
}

// literal writes a text as a value of the column. The load's own texts hold neither quotes
// nor backslashes, so that they mean the same under every sql_mode.
func (c column) literal(v string) string {
	switch c.kind {
	case text:
		return "'" + v + "'"
	case binaryText:
		return "x'" + v + "'"
	}
	return v
}

// table is one that the load writes to. Only columns whose text every server gives back as
// it was written are among its values.
type table struct {
	name   string
	key    []column
	values []column
	// auto says that the real primary key is an AUTO_INCREMENT id, and key a reference of
	// the application's own, by which a row is found whose id was lost with the reply.
	auto bool
	// version is the index in values of the version counter; -1: rows are never updated.
	version int
	// changed are the indexes in values that an update sets besides the version.
	changed []int
	// fill makes the values of a new row, or those of the changed columns anew.
	fill func(g *generator, team int64) []string
}

// row is a row that a writer made and that nobody else touches.
type row struct {
	table   *table
	team    int64
	key     []string
	values  []string
	version uint32
}

const keySeparator = "|"

func (r *row) keyText() string { return strings.Join(r.key, keySeparator) }

// Digest is 64 bits over the texts of a row's compared columns, each with its length, so that
// no two rows run together to the same text.
func Digest(values ...string) uint64 {
	h := fnv.New64a()
	var length [4]byte
	for _, v := range values {
		binary.BigEndian.PutUint32(length[:], uint32(len(v)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(v))
	}
	return h.Sum64()
}

var (
	messages = &table{
		name: "messages", key: []column{{"id", number}},
		values:  []column{{"team_id", number}, {"channel_id", number}, {"user_id", number}, {"ts", number}, {"version", number}, {"body", text}},
		version: 4, changed: []int{5},
		fill: func(g *generator, team int64) []string {
			return []string{number64(team), g.channel(team), g.user(team), g.fraction(6), "1", g.text(1 + g.IntN(30))}
		},
	}
	reactions = &table{
		name: "reactions", key: []column{{"message_id", number}, {"user_id", number}, {"emoji", text}},
		values: []column{{"team_id", number}, {"added_at", number}}, version: -1,
		fill: func(g *generator, team int64) []string {
			return []string{number64(team), strconv.FormatInt(g.now().Unix(), 10)}
		},
	}
	files = &table{
		name: "files", key: []column{{"client_ref", text}}, auto: true,
		values:  []column{{"team_id", number}, {"user_id", number}, {"version", number}, {"name", text}, {"mime", text}, {"size", number}, {"sha256", binaryText}},
		version: 2, changed: []int{3, 5},
		fill: func(g *generator, team int64) []string {
			return []string{number64(team), g.user(team), "1", g.text(2) + ".png", "image/png", strconv.Itoa(g.IntN(4_000_000_000)), g.hex(32)}
		},
	}
	auditLog = &table{
		name: "audit_log", key: []column{{"client_ref", text}}, auto: true,
		values: []column{{"team_id", number}, {"at", text}, {"actor_id", number}, {"action", text}, {"detail", text}}, version: -1,
		fill: func(g *generator, team int64) []string {
			return []string{number64(team), g.now().UTC().Format("2006-01-02 15:04:05.000000"), g.user(team), "post", g.text(4)}
		},
	}
	apiTokens = &table{
		name: "api_tokens", key: []column{{"token_id", binaryText}},
		values:  []column{{"team_id", number}, {"name", text}, {"scopes", text}, {"quota", number}, {"version", number}},
		version: 4, changed: []int{1, 3},
		fill: func(g *generator, team int64) []string {
			return []string{number64(team), g.text(2), "read,files", g.fraction(4), "1"}
		},
	}
	counters = &table{
		name: "counters", key: []column{{"team_id", number}, {"name", text}},
		values:  []column{{"value", number}, {"highest", number}, {"version", number}},
		version: 2, changed: []int{0, 1},
		fill: func(g *generator, _ int64) []string {
			return []string{strconv.FormatInt(int64(g.Uint64()), 10), strconv.FormatUint(g.Uint64(), 10), "1"}
		},
	}
)

// tableNamed finds one of the tables that the load writes to; nil for any other.
func tableNamed(name string) *table {
	for _, t := range []*table{messages, reactions, files, auditLog, apiTokens, counters} {
		if t.name == name {
			return t
		}
	}
	return nil
}

func number64(n int64) string { return strconv.FormatInt(n, 10) }

// generator makes keys and values for one writer.
type generator struct {
	*rand.Rand
	run    string
	node   uint64 // 10 bits, of the writer
	last   uint64 // the id given last
	serial int    // of references
}

func (g *generator) now() time.Time { return time.Now() }

// idEpoch makes ids of 59 bits today: beyond what a float64 holds exactly.
const idEpoch = 1_577_880_000_000

// id is an id as applications make them: milliseconds, node, count.
func (g *generator) id() string {
	id := uint64(g.now().UnixMilli()-idEpoch)<<22 | g.node<<12
	if id <= g.last {
		id = g.last + 1 // the count within the millisecond; it may run into the node's bits only beyond 4,095
	}
	g.last = id
	return strconv.FormatUint(id, 10)
}

// ref is a reference that no other row of any run has.
func (g *generator) ref() string {
	g.serial++
	return fmt.Sprintf("%s.%d.%d", g.run, g.node, g.serial)
}

// token is a key of 16 bytes that no other row of any run has, and that is no text in any
// character set. The run's name is 10 hexadecimal digits.
func (g *generator) token() string {
	g.serial++
	return strings.ToUpper(fmt.Sprintf("%s%04x%08x", g.run, g.node|0x8000, g.serial)) + g.hex(5)
}

func (g *generator) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return strings.ToUpper(hex.EncodeToString(b))
}

func (g *generator) fraction(digits int) string {
	whole := g.IntN(2_000_000_000)
	part := g.IntN(1_000_000_000)
	return strconv.Itoa(whole) + "." + fmt.Sprintf("%09d", part)[:digits]
}

func (g *generator) user(team int64) string {
	return strconv.FormatUint(appschema.ID(team, 1+g.IntN(appschema.Users)), 10)
}

func (g *generator) channel(team int64) string {
	return strconv.FormatUint(appschema.ID(team, 1+g.IntN(appschema.Channels)), 10)
}

var words = []string{"ship", "it", "the", "build", "is", "green", "lunch", "café", "naïve", "日本語", "🎉", "50%", "a  b", "rollback", "thanks", "why", "not", "#general", "Ω"}

func (g *generator) text(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[g.IntN(len(words))])
	}
	return b.String()
}

// fresh makes a row with the first version.
func (g *generator) fresh(t *table, team int64) *row {
	r := &row{table: t, team: team, values: t.fill(g, team), version: 1}
	switch t {
	case messages:
		r.key = []string{g.id()}
	case apiTokens:
		r.key = []string{g.token()}
	case counters:
		r.key = []string{number64(team), "load." + g.ref()}
	default:
		r.key = []string{g.ref()}
	}
	return r
}

// reaction makes a reaction to a message.
func (g *generator) reaction(m *row) *row {
	r := &row{table: reactions, team: m.team, values: reactions.fill(g, m.team), version: 1}
	r.key = []string{m.key[0], g.user(m.team), []string{"+1", "tada", "Tada", "🎉"}[g.IntN(4)]}
	return r
}

// next is the row after one more update.
func (g *generator) next(r *row) *row {
	n := *r
	n.version++
	n.values = append([]string(nil), r.values...)
	anew := r.table.fill(g, r.team)
	for _, i := range r.table.changed {
		n.values[i] = anew[i]
	}
	n.values[r.table.version] = strconv.FormatUint(uint64(n.version), 10)
	return &n
}
