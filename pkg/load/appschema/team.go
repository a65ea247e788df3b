package appschema

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// What one workspace has, besides messages.
const (
	usersPerTeam    = 6
	channelsPerTeam = 4
	perTeam         = 3             // files, audit records, …
	epoch           = 1_577_880_000 // 2020-01-01 12:00 UTC: noon exists in every time zone
)

// words are what texts are made of. They hold what a conversion may break: accents,
// letters beyond latin1 and beyond the basic plane, quotes, backslashes, doubled blanks.
var words = []string{
	"the", "build", "is", "green", "again", "please", "review", "it's", "lunch", "at", "noon", "deploy", "rollback",
	"shard", "on-call", "thanks", "ship", "meeting", "moved", "to", "café", "naïve", "Zürich", "señor", "日本語", "Ωmega",
	"🎉", "👩‍👩‍👧", `C:\temp\new`, `"quoted"`, "50%", "a  b", "tab\there", "line\nbreak", "release", "candidate", "and", "why", "not",
}

// latinWords can be stored in latin1.
var latinWords = []string{"Zürich", "señor", "straße", "naïve", "plain", "côté", "fjord", "invoice", "O'Brien"}

// emojiNames tell apart what a case-insensitive collation would not.
var emojiNames = []string{"+1", "tada", "Tada", "eyes", "🎉", "café", "cafe"}

func text(r *rand.Rand, list []string, n int) string {
	b := make([]byte, 0, 8*n)
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, list[r.IntN(len(list))]...)
	}
	return string(b)
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// team writes everything of one workspace. Its random numbers depend on the seed and the
// team only, not on which connection writes it.
func (w *writer) team(ctx context.Context, team int64, s Size) error {
	r := rand.New(rand.NewPCG(s.Seed, uint64(team)))
	e := &emitter{ctx: ctx, w: w, r: r, team: team, n: (team - 1) % teamsPerShard}
	e.identity()
	e.channels()
	e.messages(s.MessagesPerTeam)
	e.people()
	e.longTail()
	return e.err
}

// emitter writes rows of one team and keeps the first error.
type emitter struct {
	ctx  context.Context
	w    *writer
	r    *rand.Rand
	team int64
	n    int64 // of the team within its shard; what AUTO_INCREMENT ids are made from
	err  error
}

func (e *emitter) row(table string, values ...any) {
	if e.err == nil {
		e.err = e.w.row(e.ctx, table, values...)
	}
}

// id is an id of the application: unique over teams and, within one team, over i < 2^20.
func (e *emitter) id(i int) uint64 { return ID(e.team, i) }

// ID is the id that the data gives a team's i-th user, channel or message.
func ID(team int64, i int) uint64 { return uint64(team)<<20 | uint64(i) }

// Users and channels of a team are ID(team, 1) to ID(team, Users) and ID(team, Channels).
const (
	Users    = usersPerTeam
	Channels = channelsPerTeam
)

// auto is an explicit value for an AUTO_INCREMENT key, so that parallel filling gives the
// same ids every time. Odd as side a would give them.
func (e *emitter) auto(i int) int64 { return (e.n*perTeam+int64(i))*2 + 1 }

func (e *emitter) user() uint64 { return e.id(1 + e.r.IntN(usersPerTeam)) }

func (e *emitter) channel() uint64 { return e.id(1 + e.r.IntN(channelsPerTeam)) }

// moment is a time of the year 2020 as seconds since 1970.
func (e *emitter) moment() int { return epoch + e.r.IntN(300)*86400 }

// or gives NULL once in n times.
func (e *emitter) or(n int, v any) any {
	if e.r.IntN(n) == 0 {
		return literal("NULL")
	}
	return v
}

func date(r *rand.Rand) string { return fmt.Sprintf("2020-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28)) }

func (e *emitter) identity() {
	r := e.r
	e.row("teams", e.team, text(r, words, 2), e.or(10, "team-"+strconv.FormatInt(e.team, 36)), 1+r.IntN(4), r.IntN(32), 5+r.IntN(500),
		[]string{"us", "eu", "EU", "jp"}[r.IntN(4)], fmt.Sprintf("%s 12:%02d:00.%06d", date(r), r.IntN(60), r.IntN(1_000_000)),
		[]any{literal("NULL"), date(r) + " 23:59:59.999999"}[boolean(r.IntN(30) == 0)])
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (e *emitter) channels() {
	r := e.r
	for c := 1; c <= channelsPerTeam; c++ {
		e.row("channels", e.team, e.id(c), []string{"general", "General", "random", "café", "дом"}[c%5], e.or(3, text(r, words, 6)), r.IntN(2), e.user(), e.moment(),
			e.or(4, fmt.Sprintf(`{"retention": %d, "ratio": %g, "tags": ["a", null, true], "limit": 12345678901234567890}`, r.IntN(90), r.Float64())))
		for u := 1; u <= usersPerTeam; u += 2 {
			e.row("channel_members", e.id(c), e.id(u), e.team, literal(fmt.Sprintf("%d.%06d", e.moment(), r.IntN(1_000_000))), r.IntN(2), literal("FROM_UNIXTIME("+strconv.Itoa(e.moment())+")"))
		}
	}
}

func (e *emitter) messages(n int) {
	r := e.r
	for i := range n {
		id, at := e.id(i), epoch+i*60
		thread := any(literal("NULL"))
		if r.IntN(6) == 0 {
			thread = literal(fmt.Sprintf("%d.000100", at-600))
		}
		attachments := any(literal("NULL"))
		if r.IntN(12) == 0 {
			attachments = fmt.Sprintf(`[{"type": "image", "width": %d, "scale": 1.50, "alt": "%s"}]`, r.IntN(4000), latinWords[r.IntN(5)])
		}
		e.row("messages", id, e.team, e.channel(), e.user(), literal(fmt.Sprintf("%d.%06d", at, r.IntN(1_000_000))), thread, 1, text(r, words, 3+r.IntN(32)), attachments)
		if i%3 == 0 {
			e.row("reactions", id, e.user(), emojiNames[r.IntN(len(emojiNames))], e.team, at+5)
		}
	}
}

func (e *emitter) people() {
	r := e.r
	for u := 1; u <= usersPerTeam; u++ {
		e.row("handles", fmt.Sprintf("%s-%d-%d", latinWords[r.IntN(len(latinWords))], e.team, u), e.team, e.id(u))
		e.row("presence", e.id(u), e.team, 1+r.IntN(3), e.or(3, literal(strconv.FormatFloat(180*r.Float64()-90, 'g', -1, 64))),
			e.or(3, literal(strconv.FormatFloat(1e-5*r.NormFloat64(), 'g', -1, 64))), literal(strconv.FormatFloat(float64(r.Float32()), 'g', 6, 32)),
			e.or(4, fmt.Sprintf("%d:%02d:00", r.IntN(1600)-800, r.IntN(60))))
	}
	for place := range perTeam {
		e.row("bookmarks", e.id(1), place-1, e.team, "https://example.com/"+hex.EncodeToString(random(r, 12))+"/"+latinWords[r.IntN(len(latinWords))], e.or(3, text(r, words, 4)))
	}
}

func (e *emitter) longTail() {
	r := e.r
	for i := range perTeam {
		e.row("files", e.auto(i), e.team, e.user(), literal("NULL"), 1, text(r, words, 2)+".PNG", "image/"+latinWords[r.IntN(4)], r.IntN(4_000_000_000), e.or(5, random(r, 32)), e.or(3, random(r, r.IntN(120))))
		e.row("audit_log", e.auto(i), e.team, literal("NULL"), fmt.Sprintf("%s 08:00:00.%06d", date(r), r.IntN(1_000_000)), -1-int64(i), "login "+latinWords[r.IntN(len(latinWords))], e.or(4, random(r, 4+12*r.IntN(2))), e.or(2, text(r, words, 12)))
		e.row("team_settings", e.team, fmt.Sprintf("setting.%d", i), fmt.Sprintf(`{"on": %t, "level": %d, "text": "é"}`, r.IntN(2) == 0, r.IntN(100)), e.or(3, text(r, latinWords, 3)), e.or(3, literal(fmt.Sprintf("FROM_UNIXTIME(%d.%03d)", e.moment(), r.IntN(1000)))))
	}
	for i := range 2 {
		token := hex.EncodeToString(random(r, 16))
		e.row("invites", e.auto(i), e.team, fmt.Sprintf("%s.%d@example.com", latinWords[r.IntN(4)], e.auto(i)), token[:8]+"-"+token[8:12]+"-"+token[12:16]+"-"+token[16:20]+"-"+token[20:],
			e.or(2, e.id(i+1)), e.or(3, date(r)))
		e.row("counters", e.team, []string{"messages", "Messages"}[i], int64(r.Uint64()>>1)-1<<61, r.Uint64(), 1)
		e.row("billing", e.team, 2019+i, 1+r.IntN(4), literal(fmt.Sprintf("%d.%010d", r.Int64N(1_000_000_000_000), r.Int64N(10_000_000_000))),
			literal(strconv.FormatFloat(float64(r.Float32()), 'g', 6, 32)), literal(strconv.FormatFloat(r.Float64(), 'g', -1, 64)), r.IntN(4096), e.or(3, date(r)),
			e.or(3, fmt.Sprintf("%d:59:59.%03d", r.IntN(24), r.IntN(1000))), e.or(4, text(r, latinWords, 2)), r.IntN(16_000_000)-8_000_000)
	}
	e.row("api_tokens", random(r, 16), e.team, text(r, words, 2), r.IntN(16), literal(fmt.Sprintf("%d.%04d", r.Int64N(1_000_000_000_000), r.IntN(10000))), 1, e.or(3, literal("FROM_UNIXTIME("+strconv.Itoa(e.moment())+")")))
	e.row("emoji", e.team, emojiNames[r.IntN(len(emojiNames))], random(r, 40+r.IntN(400)))
}
