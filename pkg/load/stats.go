package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/vifl/vifl/pkg/load/ledger"
)

// Wait is how long one logical operation took as the client saw it: from wanting it to its
// acknowledgement, all retries, look-ups and pauses included.
type Wait struct {
	// Nanoseconds.
	Duration time.Duration `json:"wait_ns"`
	Writer   int           `json:"writer"`
	Kind     string        `json:"kind"`
	Team     int64         `json:"team"`
	Shard    string        `json:"shard"`
	Tries    int           `json:"tries"`
	Started  time.Time     `json:"started"`
	// Pending says that the operation still waits.
	Pending bool `json:"pending,omitempty"`
}

func (w Wait) String() string {
	if w.Duration == 0 {
		return "none"
	}
	if w.Pending {
		return fmt.Sprintf("%s so far (writer %d, since %s)", show(w.Duration), w.Writer, w.Started.Format("15:04:05.000"))
	}
	return fmt.Sprintf("%s (writer %d, %s of team %d on %s, %d tries, from %s)",
		show(w.Duration), w.Writer, w.Kind, w.Team, w.Shard, w.Tries, w.Started.Format("15:04:05.000"))
}

func show(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Counts are of logical operations, except Unknown and Refused, which count tries.
type Counts struct {
	// Ops ended one way or another.
	Ops uint64 `json:"ops"`
	// Acked are committed by word of the server.
	Acked uint64 `json:"acked"`
	// RolledBack are those that the application rolled back on purpose.
	RolledBack uint64 `json:"rolled_back"`
	// Unknown are tries whose reply was lost.
	Unknown uint64 `json:"unknown"`
	// Refused are tries that were sent and had no effect: read only, dead connection,
	// deadlock.
	Refused uint64 `json:"refused"`
	// Errors are operations that ended in an error that the application's user sees.
	Errors uint64 `json:"errors"`
	// Unfinished are operations that still waited when the load was stopped.
	Unfinished uint64 `json:"unfinished"`
}

// Latency is in nanoseconds; quantiles are at most 1/16 too high, Max is exact.
type Latency struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// tally is what is counted of one writer, or of one window.
type tally struct {
	counts  Counts
	waits   histogram
	longest Wait
}

func (t *tally) latency() Latency {
	return Latency{t.waits.quantile(0.5), t.waits.quantile(0.99), t.waits.max}
}

// keepErrors bounds the error texts that are kept.
const keepErrors = 20

// stats counts; safe for use by many goroutines.
type stats struct {
	mu      sync.Mutex
	total   tally
	writers []tally
	current []time.Time // when the operation under way began; zero when there is none
	windows []window
	errors  []string
}

// window is the time from one mark to the next.
type window struct {
	name string
	from time.Time
	to   time.Time // zero while it is the last
	tally
}

func newStats(writers int, now time.Time) *stats {
	return &stats{writers: make([]tally, writers), current: make([]time.Time, writers), windows: []window{{name: "start", from: now}}}
}

// each calls f for the three tallies that an event of a writer belongs to.
func (s *stats) each(w int, f func(*tally)) {
	f(&s.total)
	f(&s.writers[w])
	f(&s.windows[len(s.windows)-1].tally)
}

func (s *stats) begin(w int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current[w] = now
}

func (s *stats) tried(w int, o ledger.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each(w, func(t *tally) {
		switch o {
		case ledger.Unknown:
			t.counts.Unknown++
		case ledger.Refused:
			t.counts.Refused++
		}
	})
}

func (s *stats) done(w int, wait Wait, rolledBack bool) {
	wait.Duration = time.Since(wait.Started)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current[w] = time.Time{}
	s.each(w, func(t *tally) {
		t.counts.Ops++
		if rolledBack {
			t.counts.RolledBack++
		} else {
			t.counts.Acked++
		}
		t.waits.add(wait.Duration)
		if wait.Duration > t.longest.Duration {
			t.longest = wait
		}
	})
}

func (s *stats) failed(w int, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current[w] = time.Time{}
	s.each(w, func(t *tally) {
		t.counts.Ops++
		t.counts.Errors++
	})
	if len(s.errors) < keepErrors {
		s.errors = append(s.errors, fmt.Sprintf("%s writer %d: %v", now.Format("15:04:05.000"), w, err))
	}
}

// unfinished counts an operation that the end of the load cut off; how long it had waited
// stays in the longest wait.
func (s *stats) unfinished(w int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := Wait{Writer: w, Started: s.current[w], Duration: time.Since(s.current[w]), Pending: true}
	s.current[w] = time.Time{}
	s.each(w, func(t *tally) {
		t.counts.Ops++
		t.counts.Unfinished++
		if wait.Duration > t.longest.Duration {
			t.longest = wait
		}
	})
}

func (s *stats) mark(name string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows[len(s.windows)-1].to = now
	s.windows = append(s.windows, window{name: name, from: now})
}

// WriterSummary is of one writer.
type WriterSummary struct {
	Writer int `json:"writer"`
	Counts
	Latency
	Longest Wait `json:"longest_wait"`
}

// Window is the time from one Mark to the next. An operation belongs to the window in which
// it ended, with all of its wait.
type Window struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	// To is zero in the last window of a snapshot.
	To time.Time `json:"to,omitzero"`
	Counts
	Latency
	Longest Wait `json:"longest_wait"`
}

// Summary is what a load has done so far.
type Summary struct {
	Ledger  string    `json:"ledger"`
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// Elapsed is in nanoseconds.
	Elapsed time.Duration `json:"elapsed_ns"`
	Counts
	Latency
	// Longest is the longest wait of any writer for one operation, also one that still
	// waits.
	Longest Wait            `json:"longest_wait"`
	Writers []WriterSummary `json:"writers"`
	Windows []Window        `json:"windows"`
	// ErrorTexts are the first errors that the application's users saw.
	ErrorTexts []string `json:"error_texts,omitempty"`
}

// snapshot copies the numbers. Operations that wait now count in the longest waits of their
// writer, of the total and of the last window: a writer that is stuck is the longest wait.
func (s *stats) snapshot(now time.Time) Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{Counts: s.total.counts, Latency: s.total.latency(), Longest: s.total.longest, ErrorTexts: append([]string(nil), s.errors...)}
	for i := range s.windows {
		w := &s.windows[i]
		out.Windows = append(out.Windows, Window{w.name, w.from, w.to, w.counts, w.latency(), w.longest})
	}
	last := &out.Windows[len(out.Windows)-1]
	for i := range s.writers {
		t := &s.writers[i]
		ws := WriterSummary{i, t.counts, t.latency(), t.longest}
		if began := s.current[i]; !began.IsZero() {
			pending := Wait{Writer: i, Started: began, Duration: now.Sub(began), Pending: true}
			for _, longest := range []*Wait{&ws.Longest, &out.Longest, &last.Longest} {
				if pending.Duration > longest.Duration {
					*longest = pending
				}
			}
		}
		out.Writers = append(out.Writers, ws)
	}
	return out
}
