package shardmove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"vitess.io/vitess/go/mysql/replication"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/guard"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/stream"
	"github.com/vifl/vifl/pkg/stream/binlog"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/vitess"
)

// backSide is the side that the stream back writes to. The other one replicates it, its
// position included.
const backSide = config.SideA

// backwards says whether the shard has a stream back that is wanted.
func backwards(doc *state.Shard) bool {
	return doc.Phase == state.Switched && doc.Reverse != nil && doc.Reverse.Ended == ""
}

// back is the handle of the stream from the landing to the legacy.
func (m *Move) back() *binlog.Stream {
	target := func(ctx context.Context) (*sql.DB, error) {
		s, err := m.side(ctx, backSide)
		if err != nil {
			return nil, err
		}
		return s.DB(), nil
	}
	return binlog.NewFrom(target, "vifl_back_"+m.id.String(), m.shard.Database, landingGroup{m})
}

// landingGroup is the landing's servers, as a stream back reads them.
type landingGroup struct{ m *Move }

func (g landingGroup) Name() string { return g.m.landing.String() }

// Sources are the replicas that replicate.
func (g landingGroup) Sources(ctx context.Context) ([]dump.Source, error) {
	acc, err := g.m.landingAccount()
	if err != nil {
		return nil, err
	}
	tablets, err := g.m.landing.Tablets(ctx)
	if err != nil {
		return nil, err
	}
	var out []dump.Source
	for _, t := range tablets {
		if t.Type == "REPLICA" && t.Problem == "" && t.Replicating {
			out = append(out, dump.Source{Target: g.m.landing.Target(t, acc, ""), Server: t.ServerUUID})
		}
	}
	return out, nil
}

// Elsewhere is what the other tablets have executed. One that does not answer has nothing
// that could be counted on.
func (g landingGroup) Elsewhere(ctx context.Context, server string) (string, error) {
	tablets, err := g.m.landing.Tablets(ctx)
	if err != nil {
		return "", err
	}
	var union replication.GTIDSet = replication.Mysql56GTIDSet{}
	for _, t := range tablets {
		if t.Problem != "" || t.ServerUUID == server {
			continue
		}
		executed, err := g.m.executed(ctx, t)
		if err != nil {
			continue
		}
		union = union.Union(executed)
	}
	return union.String(), nil
}

// executed is the GTIDs that a tablet has executed.
func (m *Move) executed(ctx context.Context, t vitess.Tablet) (replication.Mysql56GTIDSet, error) {
	acc, err := m.landingAccount()
	if err != nil {
		return nil, err
	}
	db, err := m.landing.Connect(ctx, t, acc, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	return executedOn(ctx, db)
}

func executedOn(ctx context.Context, db *sql.DB) (replication.Mysql56GTIDSet, error) {
	text, err := vitess.GTIDExecuted(ctx, db)
	if err != nil {
		return nil, err
	}
	return replication.ParseMysql56GTIDSet(text)
}

// startBack makes the stream back behind what the landing had executed when it was about to
// be opened: the legacy has all of that, and nothing else. Side a, which the stream writes
// to, is let open for vifl's own account alone.
func (s *switchover) startBack(ctx context.Context) (string, error) {
	at := s.lease.Doc().Attempt
	if at.OneWay {
		return "none: --one-way", nil
	}
	w := state.LegacyWrite{Server: s.a.Name(), What: "SET PERSIST read_only = ON", Undo: "RESET PERSIST IF EXISTS read_only", Kept: true}
	if err := wrote(ctx, s.lease, w); err != nil {
		return "", err
	}
	if err := s.a.AdmitOwn(ctx); err != nil {
		return "", err
	}
	return "to " + s.a.Name(), s.m.back().StartBehind(ctx, at.LandingGTID)
}

// lacksBack is what vifl's account lacks for a stream back, by server.
func (m *Move) lacksBack(ctx context.Context) (map[string][]string, error) {
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, side := range []*legacy.Server{a, b} {
		granted, err := side.Grants(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range guard.BackPrivileges {
			if !granted.On(m.shard.Database, p) {
				out[side.Name()] = append(out[side.Name()], p+" on "+m.shard.Database)
			}
		}
	}
	db, err := m.primary.get(ctx)
	if err != nil {
		return nil, err
	}
	granted, err := legacy.ReadGrants(ctx, db, "")
	if err != nil {
		return nil, fmt.Errorf("%s: reading vifl's own grants: %w", m.landing, err)
	}
	for _, p := range []string{"RELOAD", "REPLICATION SLAVE", "REPLICATION CLIENT", "SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN"} {
		if !granted.Global(p) {
			out[m.landing.String()] = append(out[m.landing.String()], p)
		}
	}
	return out, nil
}

// BackStatus is where the stream back is.
type BackStatus struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Reads is the server_uuid of the tablet whose binlog is read; empty before the first.
	Reads   string `json:"reads,omitempty"`
	Applied string `json:"applied_gtid"`
	// Behind is how many transactions of the landing are not applied yet.
	Behind int64 `json:"behind_transactions"`
	// LagSeconds is how long what the landing had executed took to be applied, at least; -1
	// when it could not be told.
	LagSeconds float64 `json:"lag_seconds"`
	// WindowSeconds is how long the stream may stand still before the landing's binlogs that
	// it needs are gone, and with them the way back; -1: they are kept for ever.
	WindowSeconds float64 `json:"rollback_window_seconds"`
	// Alarm says what of this endangers the way back; empty while nothing does.
	Alarm string `json:"alarm,omitempty"`
}

// windowAlarm is what must be left of the window for nobody to be alarmed.
const windowAlarm = 24 * time.Hour

// backStatus reads where the stream back is, and waits up to bound for it to apply what the
// landing has executed now.
func (m *Move) backStatus(ctx context.Context, doc *state.Shard, bound time.Duration) (*BackStatus, error) {
	db, err := m.primary.get(ctx)
	if err != nil {
		return nil, err
	}
	executed, err := executedOn(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.landing, err)
	}
	var keep int64
	if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.binlog_expire_logs_seconds").Scan(&keep); err != nil {
		return nil, fmt.Errorf("%s: how long its binlogs are kept: %w", m.landing, err)
	}
	out := &BackStatus{LagSeconds: -1, WindowSeconds: -1}
	start := time.Now()
	unattended := false
	for {
		st, err := m.back().Status(ctx)
		if err != nil {
			return nil, err
		}
		out.State, out.Message, out.Reads, out.Applied = string(st.State), st.Message, st.Position.Server, st.GTID
		unattended = st.Unattended
		applied, err := replication.ParseMysql56GTIDSet(st.GTID)
		if err != nil {
			return nil, fmt.Errorf("shard %s: the stream back: %w", m.show, err)
		}
		out.Behind = executed.Difference(applied).Count()
		age := time.Since(start)
		if out.Behind == 0 || age >= bound || st.State != stream.Running {
			if out.Behind > 0 {
				last := st.Transaction
				if last.Before(doc.Switch.At) {
					last = doc.Switch.At // nothing was applied yet
				}
				age = max(age, time.Since(last))
			}
			if st.State != stream.Absent {
				out.LagSeconds = age.Seconds()
			}
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if keep > 0 {
		out.WindowSeconds = max(0, float64(keep)-max(0, out.LagSeconds))
	}
	switch {
	case out.State != string(stream.Running):
		out.Alarm = "the stream back does not run: what is written on the landing does not reach the legacy"
	case unattended && out.Behind > 0:
		out.Alarm = fmt.Sprintf("nobody works for the stream back, %d transaction(s) wait: vifl serve %s", out.Behind, m.id)
	case out.WindowSeconds >= 0 && out.WindowSeconds < windowAlarm.Seconds():
		out.Alarm = fmt.Sprintf("the landing keeps its binlogs for %s and the stream back is %.0f s behind: rollback window left %s",
			time.Duration(keep)*time.Second, max(0, out.LagSeconds), (time.Duration(out.WindowSeconds) * time.Second).Round(time.Second))
	}
	return out, nil
}

// observeBack asks what the refusals of a rollback, and of the end of a move, need to know.
func (m *Move) observeBack(ctx context.Context, doc *state.Shard, o CutoverOptions) (*guard.Observed, error) {
	defer m.atWork("asking the servers for what would refuse the way back")()
	out, err := m.observePair(ctx, doc, o)
	if err != nil {
		return nil, err
	}
	primary, err := m.landing.Primary(ctx)
	if err != nil {
		return nil, err
	}
	if out.SchemaTarget, err = m.targetDigest(ctx, primary); err != nil {
		return nil, err
	}
	var own int64
	if doc.Stream != nil && doc.Stream.Kind == state.VReplication {
		own = doc.Stream.ID
	}
	if out.Automation, err = m.landing.Automation(ctx, own); err != nil {
		return nil, err
	}
	if !backwards(doc) {
		return out, nil
	}
	st, err := m.backStatus(ctx, doc, out.MaxLag+time.Second)
	if err != nil {
		return nil, err
	}
	out.Back = &guard.Back{Stream: guard.Stream{State: st.State, Message: st.Message}, Lag: -1}
	if st.LagSeconds >= 0 {
		out.Back.Lag = time.Duration(st.LagSeconds * float64(time.Second))
	}
	for _, f := range doc.Switch.Frozen {
		if f.Side == config.SideA {
			out.Back.UUIDA = f.Server
		} else {
			out.Back.UUIDB = f.Server
		}
	}
	if d := doc.Reverse.Diff; d != nil {
		if out.Back.Differing = d.Differing; d.Differing == 0 {
			out.Back.Diff = d.At
		}
	}
	out.Back.Open, err = m.reopened(ctx)
	return out, err
}

// reopened says of each side that is not as closed as a cutover with a stream back leaves it
// what was found and expected.
func (m *Move) reopened(ctx context.Context) (map[string]string, error) {
	a, b, err := m.pair(ctx)
	if err != nil {
		return nil, err
	}
	open := map[string]string{}
	for _, side := range []*legacy.Server{a, b} {
		flags, err := side.Flags(ctx)
		if err != nil {
			return nil, err
		}
		if want := closedFlags(side.Side()); flags != want {
			open[side.Name()] = fmt.Sprintf("%s, expected %s", flags, want)
		}
	}
	return open, nil
}

// closedFlags are a side's behind a cutover with a stream back.
func closedFlags(side string) legacy.Flags {
	return legacy.Flags{ReadOnly: true, SuperReadOnly: side != backSide, OfflineMode: true}
}

// errBackFailed is a stream back that has stopped by itself.
var errBackFailed = errors.New("the stream back does not run")

// backReady makes the stream back run when a killed command left it stopped, lets it try again
// what it has failed at (the cause may have been mended), and waits until it
// has applied what the landing had executed at the call.
func (m *Move) backReady(ctx context.Context) error {
	b := m.back()
	st, err := b.Status(ctx)
	if err != nil {
		return err
	}
	switch st.State {
	case stream.Stopped:
		m.reporter.Note("the stream back stands still (left so by a command that was killed): resuming it")
	case stream.Failed:
		m.reporter.Note("the stream back has failed (%s): trying again", st.Message)
	}
	if st.State == stream.Stopped || st.State == stream.Failed {
		if err := b.Resume(ctx); errors.Is(err, stream.ErrBlocked) {
			return fmt.Errorf("shard %s: %w: %w", m.show, errBackFailed, err)
		} else if err != nil {
			return err
		}
	}
	db, err := m.primary.get(ctx)
	if err != nil {
		return err
	}
	executed, err := executedOn(ctx, db)
	if err != nil {
		return fmt.Errorf("%s: %w", m.landing, err)
	}
	limit := m.cfg.Limits.CatchUpTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s (catch_up_timeout)", limit))
	defer cancel()
	return m.backApplied(ctx, executed)
}

// backApplied waits until the stream back has applied everything of a set, showing how much
// is left.
func (m *Move) backApplied(ctx context.Context, want replication.Mysql56GTIDSet) error {
	var first int64
	for start := time.Now(); ; {
		st, err := m.back().Status(ctx)
		if err != nil {
			return err
		}
		if st.State == stream.Failed || st.State == stream.Absent {
			return fmt.Errorf("shard %s: %w: it is %s: %s", m.show, errBackFailed, st.State, st.Message)
		}
		applied, err := replication.ParseMysql56GTIDSet(st.GTID)
		if err != nil {
			return fmt.Errorf("shard %s: the stream back: %w", m.show, err)
		}
		left := want.Difference(applied).Count()
		if left == 0 {
			return nil
		}
		first = max(first, left)
		if time.Since(start) > time.Second {
			m.reporter.Progress(Progress{What: "stream back", Done: float64(first - left), Total: float64(first), Detail: strconv.FormatInt(left, 10) + " transactions behind " + st.Message})
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shard %s: the stream back has %d transaction(s) left to apply: %w%s", m.show, left, context.Cause(ctx), hint(st.Message))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func hint(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
