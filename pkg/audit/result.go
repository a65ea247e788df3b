package audit

import (
	"github.com/vifl/vifl/pkg/audit/planner"
)

// Version is the version of Result's JSON form. A file of another version is not compared.
const Version = 1

// Result is what an audit found. Its JSON form is described in docs/audit.md.
type Result struct {
	Version int    `json:"version"`
	Vitess  string `json:"vitess"` // the version whose parser and planner were used
	// Target is "keyspaces", or "landing" for queries of a legacy shard behind vtgate.
	Target string `json:"target"`
	// Keyspace is what sessions were taken to have selected.
	Keyspace string         `json:"keyspace,omitempty"`
	Shards   map[string]int `json:"shards"` // by keyspace
	Inputs   []string       `json:"inputs"`

	Totals       Totals        `json:"totals"`
	Queries      []Query       `json:"queries"`
	Transactions *Transactions `json:"transactions,omitempty"` // absent when no input tells connections apart
	Storm        []Storm       `json:"storm,omitempty"`
	Findings     []Finding     `json:"findings"`
	// Broken are the limits of --fail-on that are not kept.
	Broken []Broken `json:"broken_limits,omitempty"`
}

// Totals are sums over all queries.
type Totals struct {
	// Calls is all calls; Judged those whose query has a class.
	Calls  uint64 `json:"calls"`
	Judged uint64 `json:"judged"`
	// Seconds is the time of Timed of the judged calls.
	Seconds float64 `json:"seconds"`
	Timed   uint64  `json:"timed"`
	Queries int     `json:"queries"` // distinct
	// ByClass has every class that occurs.
	ByClass map[planner.Class]Weight `json:"by_class"`
	// Reaching is the judged calls that reach a shard, or should: all but those of class none.
	// The shares below are of these and of their time, in percent.
	Reaching          uint64  `json:"reaching"`
	SingleShard       float64 `json:"single_shard_percent"`
	SingleShardTime   float64 `json:"single_shard_time_percent"`
	Scatter           float64 `json:"scatter_percent"`
	ScatterTime       float64 `json:"scatter_time_percent"`
	Unsupported       float64 `json:"unsupported_percent"`
	UnsupportedTotal  int     `json:"unsupported_queries"`
	ShardQueries      float64 `json:"shard_queries"`
	Amplification     float64 `json:"amplification"` // shard queries for each supported call that reaches a shard
	LowerBound        bool    `json:"amplification_is_lower_bound,omitempty"`
	CutOff            uint64  `json:"cut_off,omitempty"`      // calls whose text the log has only in part
	BeyondLimit       uint64  `json:"beyond_limit,omitempty"` // calls of queries beyond the limit of distinct ones
	LimitOfQueries    int     `json:"limit_of_queries"`
	ShardQueriesByLog uint64  `json:"shard_queries_by_log,omitempty"` // as vtgate itself counted them, in its log
}

// Weight is how much of something there was.
type Weight struct {
	Queries int     `json:"queries"`
	Calls   uint64  `json:"calls"`
	Seconds float64 `json:"seconds"`
	Rows    uint64  `json:"rows"`
}

// Query is one normalised query.
type Query struct {
	// ID is the first 12 hex digits of the SHA-256 of Text.
	ID    string        `json:"id"`
	Text  string        `json:"text"`
	Kind  string        `json:"kind"`
	Class planner.Class `json:"class"`
	// Reason is Vitess' own, of an unsupported query.
	Reason   string         `json:"reason,omitempty"`
	Vindexes []string       `json:"vindexes,omitempty"`
	Shards   int            `json:"shards"` // of the widest part of the plan
	Parts    []planner.Part `json:"parts,omitempty"`
	Calls    uint64         `json:"calls"`
	Seconds  float64        `json:"seconds"`
	Timed    uint64         `json:"timed"`
	Rows     uint64         `json:"rows"`
	// ShardQueries is the mean of a call; LowerBound says that it is one.
	ShardQueries float64  `json:"shard_queries_per_call"`
	LowerBound   bool     `json:"lower_bound,omitempty"`
	Tables       []string `json:"tables,omitempty"`
	Memory       []string `json:"memory,omitempty"` // what vtgate does with rows in its memory
	// Remedies are columns of which an equality would bring it to one shard.
	Remedies []string `json:"remedies,omitempty"`
	Findings []string `json:"findings,omitempty"` // IDs
	// Example is a statement with its values, only when they were asked for.
	Example string `json:"example,omitempty"`
}

// Finding is a risk known to bite, with the queries that run it.
type Finding struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Breaks   bool     `json:"breaks"` // true: it fails or means something else; false: look at it
	Why      string   `json:"why"`
	Remedy   string   `json:"remedy"`
	Queries  []string `json:"queries,omitempty"` // IDs, the most called first
	Calls    uint64   `json:"calls"`
	Objects  []string `json:"objects,omitempty"` // tables or keys, for findings of a schema
	Distinct int      `json:"distinct"`          // queries or objects
}

// Transactions says how many transactions stay on one shard. Only statements between BEGIN and
// its end, or under autocommit=0, are counted; a statement alone is a transaction of its own.
type Transactions struct {
	Total uint64 `json:"total"`
	// OneValue: all its statements led to one keyspace id, or to one unsharded keyspace.
	OneValue uint64 `json:"one_value"`
	// OneShard: to several keyspace ids, all on one shard if key ranges are equal.
	OneShard uint64 `json:"one_shard"`
	// Several: to more than one shard.
	Several uint64 `json:"several"`
	// Scattering: at least one statement goes to all shards.
	Scattering uint64 `json:"scattering"`
	// Unknown: at least one statement's shard cannot be told from the log, and the rest is on one.
	Unknown uint64 `json:"unknown"`
	// SeveralWrites: of Several and Scattering, those that write on more than one shard: no
	// longer atomic.
	SeveralWrites uint64 `json:"several_writes"`
	// Percent is OneValue and OneShard of Total without Unknown.
	Percent float64 `json:"one_shard_percent"`
	// Dropped counts connections that were forgotten, beyond the limit of those open at once.
	Dropped uint64 `json:"dropped,omitempty"`
}

// Storm is what an emptied cache does to a scatter query that fills it.
type Storm struct {
	Keyspace string  `json:"keyspace"`
	Shards   int     `json:"shards"`
	Fails    float64 `json:"q"` // the probability that one shard's answer fails or is late
	// Succeeds is (1-q)^shards: the whole fill succeeds.
	Succeeds float64 `json:"fill_succeeds"`
	// Tries and ShardQueries are the means until a fill succeeds, when each failure is tried again.
	Tries        float64 `json:"tries"`
	ShardQueries float64 `json:"shard_queries_per_fill"`
}
