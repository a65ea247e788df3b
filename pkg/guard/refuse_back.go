package guard

import (
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mains"
)

// BackPrivileges are what a stream back needs on the shard's database on the legacy, beside
// those of docs/accounts.md: the rows, and raising the AUTO_INCREMENT counters, which MySQL
// calls ALTER, and wants CREATE and INSERT for as well.
var BackPrivileges = []string{"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER"}

// DiffBackMaxAge is how old the diff may be by which a move is ended.
const DiffBackMaxAge = 24 * time.Hour

// backGrants warns early: without them a cutover must be one-way.
func backGrants(f *Facts) []Finding {
	return onTables(f, func(s *Side) []Finding {
		var lacks []string
		for _, p := range BackPrivileges {
			if !s.Grants.On(f.Shard.Database, p) {
				lacks = append(lacks, p)
			}
		}
		if len(lacks) == 0 {
			return good(s.Name, "%s has all", s.Account)
		}
		list := strings.Join(lacks, ", ")
		return warn(s.Name, s.Account+" lacks "+list+" on "+f.Shard.Database, "what a stream back to the legacy needs; without it a cutover cannot be rolled back (--one-way)", fmt.Sprintf("GRANT %s ON `%s`.* TO %s", list, f.Shard.Database, s.Account))
	})
}

func noWayBack(o *Observed) []Finding {
	if o.OneWay {
		return nil
	}
	var out []Finding
	for _, server := range sorted(o.LacksBack) {
		if lacks := o.LacksBack[server]; len(lacks) > 0 {
			out = append(out, Finding{
				Server: server, Found: "vifl's account lacks " + strings.Join(lacks, ", "), Expected: "what a stream back needs (docs/accounts.md)",
				Remedy: "grant it; or say --one-way: then what is written behind the cutover cannot be brought back",
			})
		}
	}
	return out
}

// schemaChangedBehind is schemaChanged where the landing is what counts.
func schemaChangedBehind(o *Observed) []Finding {
	out := schemaChanged(o)
	for i := range out {
		out[i].Remedy = fmt.Sprintf("a DDL ends the way back: vifl complete %s --confirm %s --one-way", o.Shard, o.Shard)
	}
	return out
}

func differsBack(o *Observed) []Finding {
	if o.Back == nil || o.Back.Differing == 0 {
		return nil
	}
	return one("landing "+o.Keyspace, fmt.Sprintf("%d row(s) that differed in the last reverse diff", o.Back.Differing), "none", fmt.Sprintf("make them equal by hand on the legacy, then vifl diff %s --reverse", o.Shard))
}

func noStreamBack(o *Observed) []Finding {
	if o.Back != nil {
		return nil
	}
	return one("landing "+o.Keyspace, "no stream back: the cutover was one-way, or complete has ended it", "one that has kept the legacy in step", "what was written since is on the landing only: bring it back by hand, or go on with the landing")
}

func brokenStreamBack(o *Observed) []Finding {
	b := o.Back
	switch {
	case b == nil:
		return nil
	case b.Stream.State != "running":
		return one("landing "+o.Keyspace, strings.TrimSuffix("a stream back that is "+b.Stream.State+": "+b.Stream.Message, ": "), "a running one", fmt.Sprintf("mend what it says, then vifl diff %s --reverse lets it try again; where it met a DDL the way back has ended: vifl complete %s --confirm %s --one-way", o.Shard, o.Shard, o.Shard))
	case b.Lag < 0:
		return one("landing "+o.Keyspace, strings.TrimSuffix("a lag of the stream back that cannot be told: "+b.Stream.Message, ": "), fmt.Sprintf("at most %s", o.MaxLag), fmt.Sprintf("vifl status %s", o.Shard))
	case b.Lag > o.MaxLag:
		return one("landing "+o.Keyspace, strings.TrimSuffix(fmt.Sprintf("a stream back that lags by at least %s: %s", b.Lag.Round(time.Millisecond), b.Stream.Message), ": "), fmt.Sprintf("at most %s", o.MaxLag), fmt.Sprintf("let it catch up (vifl serve %s runs its worker), or --max-lag", o.Shard))
	}
	return nil
}

func legacyTouched(o *Observed) []Finding {
	if o.Back == nil {
		return nil
	}
	var out []Finding
	for _, s := range []struct{ side, now, then string }{{"side a", o.A.ServerUUID, o.Back.UUIDA}, {"side b", o.B.ServerUUID, o.Back.UUIDB}} {
		if s.now != s.then {
			out = append(out, Finding{Server: o.Shard.String() + " " + s.side, Found: "server " + s.now, Expected: "server " + s.then + ", which the cutover closed", Remedy: "check the shard's sides in vifl.yaml"})
		}
	}
	for _, server := range sorted(o.Back.Open) {
		out = append(out, Finding{Server: server, Found: o.Back.Open[server], Expected: "closed to everybody but vifl, as the cutover left it", Remedy: fmt.Sprintf("find out who opened it and what was written there; close it again, then vifl diff --reverse %s", o.Shard)})
	}
	return out
}

func notOnVitess(o *Observed) []Finding {
	if mains.Same(o.Places, o.Vitess) {
		return nil
	}
	return one("mains", fmt.Sprint(o.Places), fmt.Sprint(o.Vitess), "somebody else changed it: find out where the application writes to")
}

func noDiffBack(o *Observed) []Finding {
	switch {
	case o.Back == nil:
		return nil
	case o.Back.Diff.IsZero():
		return one("landing "+o.Keyspace, "no clean comparison of the legacy with the landing", "one", fmt.Sprintf("vifl diff --reverse %s", o.Shard))
	case o.Now.Sub(o.Back.Diff) > DiffBackMaxAge:
		return one("landing "+o.Keyspace, fmt.Sprintf("one %s old", o.Now.Sub(o.Back.Diff).Round(time.Second)), fmt.Sprintf("at most %s", DiffBackMaxAge), fmt.Sprintf("vifl diff --reverse %s", o.Shard))
	}
	return nil
}
