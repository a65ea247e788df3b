package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vitess.io/vitess/go/mysql/replication"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// Group is servers that have the same transactions by their GTIDs, one of which takes the
// writes: the tablets of a landing. A stream reads one of those that do not, and goes on at
// another when that one is gone, has been promoted, or was replaced.
//
// Not the one that takes the writes, because its binlog also has transactions that no other
// server has received: they are sent to whoever reads before a replica has acknowledged
// them. If that server is lost then, they never were. What a replica has executed two
// servers have.
type Group interface {
	// Name tells the group from others and stays the same; at most 255 bytes.
	Name() string
	// Sources are the servers that may be read now, the best one first. None is no error.
	Sources(ctx context.Context) ([]dump.Source, error)
	// Elsewhere is the GTIDs that the others have executed, all together.
	Elsewhere(ctx context.Context, server string) (string, error)
}

// NewFrom describes a stream as New does, that reads a group. It is started behind a set of
// GTIDs (StartBehind), and its Status has the set of those applied. Each transaction is
// applied by one connection, with the set, so whoever has the one has the other, also a
// replica of the target.
func NewFrom(target func(context.Context) (*sql.DB, error), name, database string, group Group) *Stream {
	return &Stream{target: target, name: name, database: database, group: group, given: make(chan struct{}, 1)}
}

// StartBehind makes a stream of a group behind the transactions of a GTID set, and runs it.
// One that was made so already is resumed, as by Start.
func (s *Stream) StartBehind(ctx context.Context, gtid string) error {
	if s.group == nil {
		return s.errorf("it reads one server, which has no GTIDs: start it at a position")
	}
	set, err := replication.ParseMysql56GTIDSet(gtid)
	if err != nil || len(set) == 0 {
		return s.errorf("start behind %q: not a set of GTIDs (%v)", gtid, err)
	}
	return s.start(ctx, position.FilePos{}, set.String(), func(context.Context) error { return nil })
}

// advise makes of a message what helps where the landing is what is read: there it must not be
// seeded again, it is the truth.
func (s *Stream) advise(message string) string {
	if s.group == nil {
		return message
	}
	return strings.ReplaceAll(message, "seed the landing again", "the legacy cannot follow: mend it there by hand, or give the way back up (vifl complete --one-way)")
}

// sourceCheck is how often a stream that reads a group asks whether its server is still one
// to be read.
const sourceCheck = 10 * time.Second

// choose picks the server to read, the former one where it will do, and finds the place in
// its binlog.
func (f *follower) choose(ctx context.Context) error {
	s := f.c.w.stream
	sources, err := s.group.Sources(ctx)
	if err != nil {
		return s.errorf("looking for a server to read: %w", err)
	}
	if len(sources) == 0 {
		return s.errorf("no replica is there to be read, expected one that replicates: what only the primary has may be lost with it")
	}
	if i := slices.IndexFunc(sources, func(d dump.Source) bool { return d.Server == f.at.Server }); i > 0 {
		sources[0], sources[i] = sources[i], sources[0]
	}
	var errs []error
	for _, source := range sources {
		at := f.at
		if source.Server != at.Server {
			if at, err = locate(ctx, source, f.gtid); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		elsewhere, err := s.group.Elsewhere(ctx, source.Server)
		if err != nil {
			return s.errorf("%w", err)
		}
		safe, err := replication.ParseMysql56GTIDSet(elsewhere)
		if err != nil {
			return s.errorf("the GTIDs that other servers than %s have: %w", source.Target, err)
		}
		applied := f.gtid
		f.server, f.looked, f.at = source, time.Now(), at
		f.reader = f.c.w.reader(source, func(g transaction.GTID) (bool, error) { return skip(g, source, applied, safe) })
		return nil
	}
	err = errors.Join(errs...)
	for _, e := range errs {
		if !dump.IsPermanent(e) {
			return err // that one may come back
		}
	}
	return final("%v", err)
}

// skip says that a transaction is applied already, and is an error for one that only the
// server that is read has.
func skip(g transaction.GTID, source dump.Source, applied, safe replication.GTIDSet) (bool, error) {
	if g.Tag != "" {
		return false, dump.Permanent(fmt.Errorf("%s: transaction %s has a tagged GTID, which is not understood", source.Target, g))
	}
	sid, err := replication.ParseSID(g.Server)
	if err != nil {
		return false, dump.Permanent(fmt.Errorf("%s: transaction %s: %w", source.Target, g, err))
	}
	id := replication.Mysql56GTID{Server: sid, Sequence: g.Number}
	switch {
	case applied.ContainsGTID(id):
		return true, nil
	case g.Server == source.Server && !safe.ContainsGTID(id):
		// It was first committed here: that a replica has it is not known.
		return false, fmt.Errorf("%s: transaction %s is not known to be on another server yet: it may be lost with this one", source.Target, g)
	}
	return false, nil
}

// locate finds where to begin in a server's binlog so that nothing is missed: the newest
// file before which there is nothing but what is applied. What is applied and lies behind is
// skipped one by one: servers may have committed in another order.
func locate(ctx context.Context, source dump.Source, applied replication.GTIDSet) (position.FilePos, error) {
	db, err := connect(ctx, source)
	if err != nil {
		return position.FilePos{}, err
	}
	defer db.Close()
	files, err := mysqlconn.Maps(ctx, db, "SHOW BINARY LOGS")
	if err != nil {
		return position.FilePos{}, mysqlconn.Explain(source.Target, err)
	}
	oldest := ""
	for _, row := range slices.Backward(files) {
		file := row["Log_name"]
		before, err := previous(ctx, db, file)
		if err != nil {
			return position.FilePos{}, fmt.Errorf("%s: what lies before binlog %s: %w", source.Target, file, err)
		}
		if applied.Contains(before) {
			return position.FilePos{Server: source.Server, File: file, Pos: 4}, nil
		}
		oldest = file
	}
	return position.FilePos{}, dump.Permanent(fmt.Errorf("%s: %w: before its oldest, %s, lie transactions that are not applied yet", source.Target, dump.ErrGone, oldest))
}

// previous is the set of GTIDs before a binlog file.
func previous(ctx context.Context, db *sql.DB, file string) (replication.GTIDSet, error) {
	events, err := mysqlconn.Maps(ctx, db, "SHOW BINLOG EVENTS IN "+quote(file)+" LIMIT 3")
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if e["Event_type"] == "Previous_gtids" {
			return replication.ParseMysql56GTIDSet(strings.ReplaceAll(e["Info"], "\n", ""))
		}
	}
	return nil, errors.New("it does not say so: has the server GTIDs?")
}

// stillFit ends the reading of a server that is none to be read any more, such as one that
// has been promoted. It is asked where there is nothing to do: a server that has something
// to apply and must not be read says so by that.
func (f *follower) stillFit(ctx context.Context) error {
	s := f.c.w.stream
	if s.group == nil || time.Since(f.looked) < sourceCheck {
		return nil
	}
	asked := time.Now()
	sources, err := s.group.Sources(ctx)
	f.looked = time.Now()
	if f.looked.Sub(asked) > sessionKept {
		f.apply.close() // a server that does not answer took so long that the target gives them up
	}
	if err != nil {
		return nil // it is read as long as it can be
	}
	if len(sources) == 0 || slices.ContainsFunc(sources, func(d dump.Source) bool { return d.Server == f.server.Server }) {
		return nil
	}
	return s.errorf("%s is not to be read any more: going on at another", f.server.Target)
}

// applied is what to save of the GTIDs.
func (f *follower) applied() string { return textOf(f.gtid) }

func textOf(set replication.GTIDSet) string {
	if set == nil {
		return ""
	}
	return set.String()
}

// with is what will be applied when these parts are.
func (f *follower) with(parts []*transaction.Part) (replication.GTIDSet, error) {
	set := f.gtid
	if set == nil {
		return nil, nil
	}
	for _, p := range parts {
		if !p.Last || p.GTID.Server == "" {
			continue
		}
		sid, err := replication.ParseSID(p.GTID.Server)
		if err != nil {
			return nil, final("transaction %s: %v", p.GTID, err)
		}
		set = set.AddGTID(replication.Mysql56GTID{Server: sid, Sequence: p.GTID.Number})
	}
	return set, nil
}
