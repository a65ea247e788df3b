package guard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/state"
)

// Facts is all that the preflight checks look at, read once from both sides, from mains and
// from this machine. Where something could not be read there is the error instead: a check
// that could not look must not be taken for one that found nothing.
type Facts struct {
	Config *config.Config
	Shard  config.Shard
	// Sides are a and b, in this order.
	Sides []*Side
	Mains MainsFacts
	// FreeBytes is the room in the work folder.
	FreeBytes uint64
	FreeErr   error
	// StreamAccount is the user name that the tablets connect as; it stands in their own
	// configuration file, which is not here.
	StreamAccount string
	// Stream is the kind of stream that the shard shall be moved by.
	Stream string
	// Audit is the last audit of the shard's queries that was kept; nil: none. AuditErr is why it
	// could not be read. Both are the caller's, as the shard's state is.
	Audit    *state.Audit
	AuditErr error
}

// Side is what one legacy server says of itself.
type Side struct {
	Name, Side string
	Target     mysqlconn.Target
	// Err is why it could not be asked at all; then nothing else is set.
	Err error

	Identity   legacy.Identity
	Version    legacy.Version
	Vars       map[string]string
	Account    string // our own, 'user'@'host'
	Grants     *legacy.Grants
	Replica    *legacy.ReplicaStatus // nil: it replicates from nobody
	ReplicaErr error
	Filters    string // of its binlog
	FiltersErr error
	Schema     *schema.Schema
	SchemaErr  error
	// DefinerViews are views that run as the account that made them, by name.
	DefinerViews map[string]string
	// Lost and Risky are what in the tables Vitess' stream changes, and may change: its own
	// package says so.
	Lost, Risky []string
	XA          []string
	XAErr       error
	Piercing    []string
	PierceErr   error
	// StreamGrants and SourceGrants are by account: those that the stream connects as, and
	// those that the other side replicates as.
	StreamGrants, SourceGrants map[string]*legacy.Grants
	AccountsErr                error
	Teams                      []int64 // that the data holds
	TeamsErr                   error
}

// Bytes is the size of the shard's tables, data and indexes.
func (s *Side) Bytes() uint64 {
	var n uint64
	if s.Schema != nil {
		for _, t := range s.Schema.Tables {
			n += t.Bytes
		}
	}
	return n
}

// MainsFacts is what mains says.
type MainsFacts struct {
	Target mysqlconn.Target
	// Err is why it could not be asked at all.
	Err       error
	Teams     []int64
	TeamsErr  error
	Places    []mains.Place
	PlacesErr error
	Grants    *legacy.Grants
	GrantsErr error
	// SwitchErr is why the configured switch cannot be planned by the server.
	SwitchErr error
	// Legacy and Vitess are what it must say before and after a switch.
	Legacy, Vitess []mains.Place
}

// gatherTimeout bounds reading the facts of one server; SHOW CREATE of some thousand tables
// is the longest part.
const gatherTimeout = 2 * time.Minute

// Gather reads the facts. It changes nothing anywhere. It fails only where the
// configuration cannot be used; what servers say, and that they do not answer, is in the
// facts.
func Gather(ctx context.Context, cfg *config.Config, shard config.Shard, streamAccount string) (*Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	f := &Facts{Config: cfg, Shard: shard, StreamAccount: streamAccount}
	var err error
	if f.Mains.Target, err = cfg.MainsTarget(); err != nil {
		return nil, err
	}
	gateHost, gatePort, err := config.SplitAddress(cfg.Vtgate.Address)
	if err != nil {
		return nil, fmt.Errorf("vtgate.address: %w", err)
	}
	for _, name := range []string{config.SideA, config.SideB} {
		t, err := cfg.SideTarget(shard, name)
		if err != nil {
			return nil, err
		}
		f.Sides = append(f.Sides, &Side{Name: t.Name, Side: name, Target: t})
		f.Mains.Legacy = append(f.Mains.Legacy, mains.Place{Side: name, Host: t.Host, Port: t.Port, Database: shard.Database})
		f.Mains.Vitess = append(f.Mains.Vitess, mains.Place{Side: name, Host: gateHost, Port: gatePort, Database: cfg.AppDatabase(shard.Number.ID)})
	}
	f.FreeBytes, f.FreeErr = freeBytes(cfg.WorkDir)

	// Mains' list of teams is read before the data's: a team that is made meanwhile is then
	// in the data only, which is no reason to refuse.
	m, err := mains.Open(ctx, f.Mains.Target, cfg.Mains)
	if err != nil {
		f.Mains.Err = err
	} else {
		defer m.Close()
		f.Mains.gather(ctx, m, shard)
	}
	servers := make([]*legacy.Server, len(f.Sides))
	group, gctx := errgroup.WithContext(ctx)
	for i, s := range f.Sides {
		group.Go(func() error {
			if servers[i], s.Err = legacy.Open(gctx, s.Target, shard.Number.ID, s.Side, shard.Database); s.Err == nil {
				s.gather(gctx, f, servers[i], m)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are facts
	for i, s := range servers {
		if s == nil {
			continue
		}
		defer s.Close()
		// Who the other side replicates as is known only now.
		other := f.Sides[1-i]
		if other.Replica != nil && f.Sides[i].AccountsErr == nil {
			f.Sides[i].SourceGrants, f.Sides[i].AccountsErr = s.GrantsOf(ctx, other.Replica.SourceUser)
		}
	}
	return f, ctx.Err()
}

func (m *MainsFacts) gather(ctx context.Context, server *mains.Mains, shard config.Shard) {
	m.Teams, m.TeamsErr = server.Teams(ctx, shard.Number.ID)
	m.Places, m.PlacesErr = server.Where(ctx, shard.Number.ID)
	m.Grants, m.GrantsErr = legacy.ReadGrants(ctx, server.DB(), "")
	m.SwitchErr = server.TrySwitch(ctx, shard.Number.ID, m.Vitess)
}

// gather reads what one side says. The server is of any version: where it is not one that
// is supported, most of this fails, and the version's finding says why.
func (s *Side) gather(ctx context.Context, f *Facts, server *legacy.Server, m *mains.Mains) {
	s.Version = server.Version()
	if !s.Version.Supported() {
		return
	}
	if s.Identity, s.Err = server.Identity(ctx); s.Err != nil {
		return
	}
	if s.Vars, s.Err = server.Variables(ctx); s.Err != nil {
		return
	}
	if s.Account, s.Err = server.Account(ctx); s.Err != nil {
		return
	}
	if s.Grants, s.Err = server.Grants(ctx); s.Err != nil {
		return
	}
	s.Replica, s.ReplicaErr = server.Replica(ctx)
	if s.Vars["log_bin"] == "ON" {
		s.Filters, s.FiltersErr = server.BinlogFilters(ctx)
	}
	s.Schema, s.SchemaErr = schema.Read(ctx, server.DB(), f.Shard.Database)
	if s.SchemaErr == nil {
		s.DefinerViews, s.SchemaErr = schema.DefinerViews(ctx, server.DB(), f.Shard.Database)
	}
	s.XA, s.XAErr = server.PreparedXA(ctx)
	s.Piercing, s.PierceErr = server.Piercing(ctx, f.Config.Legacy.Exempt)
	s.StreamGrants, s.AccountsErr = server.GrantsOf(ctx, f.StreamAccount)
	if m != nil && s.SchemaErr == nil {
		t := s.Target
		t.Database = f.Shard.Database
		s.Teams, s.TeamsErr = m.DataTeams(ctx, t, f.Shard.Number.ID)
	}
}

// freeBytes is what an ordinary user may still write below dir; the nearest folder above it
// that exists counts.
func freeBytes(dir string) (uint64, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return st.Bavail * uint64(st.Bsize), nil
		}
		parent := filepath.Dir(dir)
		if !os.IsNotExist(err) || parent == dir {
			return 0, fmt.Errorf("workdir %s: %w", dir, err)
		}
		dir = parent
	}
}
