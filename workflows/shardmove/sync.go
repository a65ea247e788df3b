package shardmove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/inspect"
	"github.com/vifl/vifl/workflows/engine"
)

// SyncStatus is where the stream of a shard is.
type SyncStatus struct {
	Shard    string `json:"shard"`
	Kind     string `json:"kind"`
	State    string `json:"state"`
	Message  string `json:"message,omitempty"`
	Position string `json:"position"`
	Source   string `json:"source_position"` // the end of the legacy's binlog
	// LagSeconds is the age of the oldest heartbeat that the stream has not passed; -1 when
	// it could not be told.
	LagSeconds float64 `json:"lag_seconds"`
	LagBytes   uint64  `json:"lag_bytes"`
	// Inspected is how far the reader beside a vreplication stream is; the binlog stream has
	// none.
	Inspected string        `json:"inspected,omitempty"`
	Taints    []state.Taint `json:"taints,omitempty"`
}

// SyncStart starts the stream from the seed's position, and waits until it is close to the
// end of the legacy's binlog.
func (m *Move) SyncStart(ctx context.Context) (out *SyncStatus, err error) {
	err = m.locked(ctx, engine.SyncStart, func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		a, err := m.side(ctx, streamSide)
		if err != nil {
			return "", err
		}
		if err := m.sameSource(ctx, &doc); err != nil {
			return "", err
		}
		if err := m.checkSeedRecords(ctx, &doc); err != nil {
			return "", err
		}
		from := doc.Seed.Position
		if doc.Stream != nil {
			from = doc.Stream.Start // behind a rollback it is not the seed's
		}
		if _, err := a.BytesBehind(ctx, from); err != nil {
			return "", fmt.Errorf("shard %s: %w", m.show, err)
		}
		s := m.stream(&doc)
		// Start resumes the stream of this seed where there is one: an earlier run that was
		// killed may have made it without writing so.
		if err := s.Start(ctx, from); err != nil {
			return "", err
		}
		next := state.Stream{Kind: streamKind(&doc), Side: streamSide, Connection: m.streamSource(&doc), Start: from, Inspected: from}
		if doc.Stream != nil {
			next = *doc.Stream
		} else {
			defer m.work(ctx, &state.Shard{Seed: doc.Seed, Stream: &next})()
		}
		m.pause(engine.SyncStart, "stream made")
		st, err := s.Status(ctx)
		if err != nil {
			return "", err
		}
		next.ID, next.Halted = st.ID, ""
		if err := lease.Update(ctx, func(d *state.Shard) { d.Stream = &next }); err != nil {
			return "", err
		}
		// From here a lost event is found by this reader, or by the next one, which goes on
		// where the state says that the last one ended.
		reader, err := m.inspect(ctx, lease)
		if err != nil {
			return "", err
		}
		defer reader.close()
		mark, err := a.Beat(ctx)
		if err != nil {
			return "", err
		}
		if err := m.waitStream(ctx, s, mark); err != nil {
			return "", err
		}
		if err := reader.wait(ctx, mark); err != nil {
			return "", err
		}
		// While a worker of ours still runs: without one there is no lag to be told.
		if out, err = m.SyncStatus(ctx); err != nil {
			return "", err
		}
		return "following side " + streamSide + " from " + from.String() + ", at " + mark.String(), nil
	})
	if err != nil {
		return nil, err
	}
	return out, m.follower(ctx)
}

// followerWait is how long a vifl serve may need to take the stream over from this command.
const followerWait = 2 * time.Second

// follower says when nobody follows the legacy between the commands.
func (m *Move) follower(ctx context.Context) error {
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	if err != nil || streamKind(doc) != state.Binlog {
		return err
	}
	for start := time.Now(); ; {
		st, err := m.stream(doc).Status(ctx)
		if err != nil || st.State != stream.Running || st.Message == "" {
			return err
		}
		if time.Since(start) > followerWait {
			m.reporter.Note("between commands nobody follows %s: %s", m.source, st.Message)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// SyncStop stops the stream at the end of a transaction.
func (m *Move) SyncStop(ctx context.Context) error {
	return m.locked(ctx, engine.SyncStop, func(ctx context.Context, lease *state.Lease) (string, error) {
		doc := lease.Doc()
		if err := m.stream(&doc).Stop(ctx); err != nil {
			return "", err
		}
		return "stream stopped", lease.Update(ctx, func(d *state.Shard) {
			next := *d.Stream
			next.Halted = "by vifl sync stop, " + state.Whoami()
			d.Stream = &next
		})
	})
}

// SyncStatus reads where the stream is. The lag in seconds is measured by a heartbeat of
// its own, so it takes as long as the stream needs to reach it, at most two seconds.
func (m *Move) SyncStatus(ctx context.Context) (*SyncStatus, error) {
	doc, _, err := m.store.Load(ctx, m.id, m.keyspace)
	if err != nil {
		return nil, err
	}
	if doc.Stream == nil || doc.Seed == nil {
		return &SyncStatus{Shard: m.show, State: string(stream.Absent), LagSeconds: -1}, nil
	}
	s := m.stream(doc)
	st, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := &SyncStatus{
		Shard: m.show, Kind: doc.Stream.Kind, State: string(st.State), Message: st.Message, Position: st.Position.String(),
		Taints: doc.Stream.Taints, LagSeconds: -1,
	}
	if doc.Stream.Kind == state.VReplication {
		out.Inspected = doc.Stream.Inspected.String()
	}
	a, err := m.side(ctx, streamSide)
	if err != nil {
		return nil, err
	}
	end, err := a.Position(ctx)
	if err != nil {
		return nil, err
	}
	out.Source = end.String()
	if out.LagBytes, err = a.BytesBehind(ctx, st.Position); err != nil {
		return nil, err
	}
	if lag, err := m.lag(ctx, doc, 2*time.Second); err == nil {
		out.LagSeconds = lag.Seconds()
	}
	return out, nil
}

// lag beats once and waits until the stream has passed the beat; past the bound it is the
// bound (the lag is at least that).
func (m *Move) lag(ctx context.Context, doc *state.Shard, bound time.Duration) (time.Duration, error) {
	a, err := m.side(ctx, streamSide)
	if err != nil {
		return 0, err
	}
	mark, err := a.Mark(ctx)
	if err != nil {
		return 0, err
	}
	s := m.stream(doc)
	for {
		st, err := s.Status(ctx)
		if err != nil {
			return 0, err
		}
		order, err := position.Compare(st.Position, mark.Position)
		if err != nil {
			return 0, err
		}
		age := time.Since(mark.Time)
		if order >= 0 || age >= bound {
			return age, nil
		}
		select {
		case <-ctx.Done():
			return age, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// running makes sure that the stream runs: one that a killed diff or rehearsal left stopped
// is resumed, one that the operator halted is not.
func (m *Move) running(ctx context.Context, doc *state.Shard, s stream.Stream) error {
	if doc.Stream.Halted != "" {
		return fmt.Errorf("shard %s: the stream was stopped %s: vifl sync start %s", m.show, doc.Stream.Halted, m.id)
	}
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if st.State != stream.Stopped {
		return nil
	}
	why := st.Message
	if why == "" {
		why = "left so by a command that was killed"
	}
	m.reporter.Note("the stream stands still at %s (%s): resuming it", st.Position, why)
	if err := s.Resume(ctx); err != nil {
		return err
	}
	// Where one CREATE USER stopped it there may be more behind it, and each stops it again:
	// go on up to where the legacy is now. Not behind a wrong server, of which the refusals
	// speak.
	if m.sameSource(ctx, doc) != nil {
		return nil
	}
	a, err := m.side(ctx, streamSide)
	if err != nil {
		return err
	}
	end, err := a.Position(ctx)
	if err != nil {
		return err
	}
	return m.waitStream(ctx, s, end)
}

// waitStream waits until the stream has passed a position, showing how much is left.
func (m *Move) waitStream(ctx context.Context, s stream.Stream, upTo position.FilePos) error {
	limit := m.cfg.Limits.CatchUpTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := m.side(ctx, streamSide)
	if err != nil {
		return err
	}
	start := time.Now()
	var first uint64
	for {
		st, err := s.Status(ctx)
		if err != nil {
			return err
		}
		if st.State == stream.Failed || st.State == stream.Absent {
			return fmt.Errorf("shard %s: the stream is %s at %s: %s", m.show, st.State, st.Position, st.Message)
		}
		order, err := position.Compare(st.Position, upTo)
		if err != nil {
			return fmt.Errorf("shard %s: the stream: %w", m.show, err)
		}
		if order >= 0 {
			if time.Since(start) > time.Second {
				m.reporter.Progress(Progress{What: "stream", Done: 1, Total: 1, Detail: "passed " + upTo.String(), Final: true})
			}
			return nil
		}
		// A CREATE USER and its like on the legacy stop VReplication; they mean nothing to
		// the shard's tables, and resuming goes on behind them. It refuses where it must not.
		if st.State == stream.Stopped {
			if err := s.Resume(ctx); err != nil {
				return fmt.Errorf("shard %s: %w", m.show, err)
			}
		}
		behind, err := a.BytesBehind(ctx, st.Position)
		if err != nil {
			return err
		}
		first = max(first, behind, 1)
		m.reporter.Progress(Progress{What: "stream", Done: float64(first - min(behind, first)), Total: float64(first), Detail: fmt.Sprintf("%s behind, at %s", sizeText(behind), st.Position)})
		select {
		case <-ctx.Done():
			if st.Message != "" {
				st.Message = " (" + st.Message + ")"
			}
			return fmt.Errorf("shard %s: waited %s (catch_up_timeout) for the stream to reach %s, it is at %s%s: %w", m.show, limit, upTo, st.Position, st.Message, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// inspection is the reader that runs beside the stream; what it finds is kept in the state.
type inspection struct {
	m      *Move
	lease  *state.Lease
	reader *inspect.Inspector
	cancel context.CancelFunc
	done   chan error
}

// inspect starts a reader where the last one ended. The binlog stream needs none: it stops
// by itself before what it cannot carry over.
func (m *Move) inspect(ctx context.Context, lease *state.Lease) (*inspection, error) {
	doc := lease.Doc()
	if doc.Stream.Kind == state.Binlog {
		return &inspection{m: m}, nil
	}
	reader, err := inspect.New(m.source, doc.Seed.SourceA.ServerUUID, m.shard.Database, doc.Stream.Inspected)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", m.show, err)
	}
	rctx, cancel := context.WithCancel(ctx)
	i := &inspection{m: m, lease: lease, reader: reader, cancel: cancel, done: make(chan error, 1)}
	go func() { i.done <- reader.Run(rctx) }()
	return i, nil
}

// wait reads up to a position, and writes down how far it came. An event that the stream
// would lose is an error, and taints the stream for good.
func (i *inspection) wait(ctx context.Context, upTo position.FilePos) error {
	if i.reader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.m.cfg.Limits.CatchUpTimeout)
	defer cancel()
	found, err := i.reader.Wait(ctx, upTo)
	if err != nil {
		select {
		case rerr := <-i.done:
			i.done <- rerr
			err = errors.Join(err, rerr)
		default:
		}
		return fmt.Errorf("shard %s: reading the legacy's binlog up to %s for events that the stream would lose: %w", i.m.show, upTo, err)
	}
	var taints []state.Taint
	for _, t := range found {
		taints = append(taints, state.Taint{Position: t.Position, Kind: string(t.Kind), Detail: t.Detail})
	}
	if uerr := i.lease.Update(ctx, func(d *state.Shard) {
		next := *d.Stream
		next.Inspected = upTo
		if len(taints) > 0 {
			next.Taints = taints
			d.CertificateVoid = "the stream is tainted"
		}
		d.Stream = &next
	}); uerr != nil {
		return uerr
	}
	if len(taints) == 0 {
		return nil
	}
	t := taints[0]
	return &Refused{Verb: engine.Verb(i.lease.Doc().Step.Verb), Shard: i.m.show, Findings: []guard.Finding{{
		ID: "R10", Name: "stream lost events", Level: guard.Refuse, Server: i.m.shard.Number.String() + " side " + streamSide,
		Found:    fmt.Sprintf("%d event(s) in the binlog that the vreplication stream loses, first at %s: %s (%s)", len(taints), t.Position, t.Kind, t.Detail),
		Expected: "none",
		Remedy:   fmt.Sprintf("this landing can never be trusted: end the cause, vifl abort %s, and seed again", i.m.id),
	}}}
}

func (i *inspection) close() {
	if i.reader == nil {
		return
	}
	i.cancel()
	<-i.done
}

// sameSource proves that the servers behind the shard's addresses are those that were
// seeded from.
func (m *Move) sameSource(ctx context.Context, doc *state.Shard) error {
	for _, want := range []struct {
		side string
		uuid string
		addr string
	}{
		{config.SideA, doc.Seed.SourceA.ServerUUID, address(doc.Seed.SourceA)},
		{config.SideB, doc.Seed.SourceB.ServerUUID, address(doc.Seed.SourceB)},
	} {
		s, err := m.side(ctx, want.side)
		if err != nil {
			return err
		}
		id, err := s.Identity(ctx)
		if err != nil {
			return err
		}
		if id.ServerUUID != want.uuid {
			return fmt.Errorf("shard %s side %s: found server %s at %s:%d, expected %s (%s), from which the landing was seeded: check the shard's sides in %s", m.show, want.side, id.ServerUUID, id.Host, id.Port, want.uuid, want.addr, m.cfg.Path())
		}
	}
	return nil
}

func address(s cert.Server) string { return fmt.Sprintf("%s:%d", s.Host, s.Port) }

func sizeText(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
