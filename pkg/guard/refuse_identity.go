package guard

import (
	"fmt"

	"github.com/vifl/vifl/pkg/cert"
	"github.com/vifl/vifl/pkg/mains"
	"github.com/vifl/vifl/pkg/shardid"
)

func otherShard(o *Observed) []Finding {
	var out []Finding
	if id, err := o.Template.Decode(o.Keyspace); err != nil || id != o.Shard {
		out = append(out, Finding{Server: "landing " + o.Keyspace, Found: fmt.Sprintf("the keyspace's name, which stands for %s (%v)", id, err), Expected: o.Template.Keyspace(o.Shard), Remedy: "check landing.keyspace"})
	}
	if c := o.Certificate; c != nil && c.Shard != o.Shard {
		out = append(out, Finding{Server: "landing " + o.Keyspace, Found: "a certificate of shard " + c.Shard.String(), Expected: o.Shard.String(), Remedy: fmt.Sprintf("vifl diff %s", o.Shard)})
	}
	return out
}

func otherSideA(o *Observed) []Finding {
	if c := o.Certificate; c != nil {
		return append(otherServer(o, "side a", o.A, c.A), streamedElsewhere(o)...)
	}
	return nil
}

func otherSideB(o *Observed) []Finding {
	if c := o.Certificate; c != nil {
		return otherServer(o, "side b", o.B, c.B)
	}
	return nil
}

// otherServer compares what makes a server the same one: its uuid, where it is, its server
// id and the database. Its version may change by an upgrade; then the uuid stays, but the
// proof was of another program.
func otherServer(o *Observed, side string, now, then cert.Server) []Finding {
	if now == then {
		return nil
	}
	return one(o.Shard.String()+" "+side, describe(now), "the certified "+describe(then), "check the shard's sides in vifl.yaml; if the server was replaced, diff again")
}

func describe(s cert.Server) string {
	return fmt.Sprintf("server %s (%s) at %s:%d, server id %d, version %s, database %q", s.ServerUUID, s.Hostname, s.Host, s.Port, s.ServerID, s.Version, s.Database)
}

func streamedElsewhere(o *Observed) []Finding {
	if o.Certificate.StreamedUUID == o.A.ServerUUID {
		return nil
	}
	return one(o.Shard.String()+" side a", "server "+o.A.ServerUUID, "the one whose binlog was streamed, "+o.Certificate.StreamedUUID, "check the shard's sides in vifl.yaml")
}

func otherLanding(o *Observed) []Finding {
	c := o.Certificate
	if c == nil {
		return nil
	}
	if c.Landing.Keyspace != o.Keyspace {
		return one("landing "+o.Keyspace, "a certificate of landing "+c.Landing.Keyspace, o.Keyspace, fmt.Sprintf("vifl diff %s", o.Shard))
	}
	// A failover may have made another tablet the primary; it was compared as well.
	for _, t := range c.Landing.Tablets {
		if t.ServerUUID == o.PrimaryUUID && t.Alias == o.PrimaryAlias {
			return nil
		}
	}
	return one("landing "+o.Keyspace, fmt.Sprintf("primary %s, server %s", o.PrimaryAlias, o.PrimaryUUID), "one of the tablets that were compared", fmt.Sprintf("vifl diff %s", o.Shard))
}

func otherSeed(o *Observed) []Finding {
	var out []Finding
	for _, t := range o.Tablets {
		server := "tablet " + t.Alias
		switch {
		case t.Problem != "":
			continue // R08's
		case t.Seed == nil:
			out = append(out, Finding{Server: server, Found: "no _vifl.seed", Expected: "the record of a seed of " + o.Shard.String(), Remedy: "it did not come from the seed's backup: remove it"})
		case t.Seed.Shard != o.Shard || t.Seed.Keyspace != o.Keyspace || t.Seed.Database != o.Database || t.Seed.UUIDA != o.A.ServerUUID || t.Seed.UUIDB != o.B.ServerUUID:
			out = append(out, Finding{
				Server:   server,
				Found:    fmt.Sprintf("data of shard %s (%s), database %q, servers %s and %s", t.Seed.Shard, t.Seed.Keyspace, t.Seed.Database, t.Seed.UUIDA, t.Seed.UUIDB),
				Expected: fmt.Sprintf("shard %s (%s), database %q, servers %s and %s", o.Shard, o.Keyspace, o.Database, o.A.ServerUUID, o.B.ServerUUID),
				Remedy:   "check the shard's sides in vifl.yaml: one of these is the wrong shard",
			})
		}
	}
	return out
}

func tabletsNotCompared(o *Observed) []Finding {
	var out []Finding
	if len(o.Tablets) < o.WantTablets {
		out = append(out, one("landing "+o.Keyspace, fmt.Sprintf("%d tablets", len(o.Tablets)), fmt.Sprintf("%d (landing.tablets)", o.WantTablets), "start the missing ones, then diff again")...)
	}
	compared := map[string]bool{}
	if o.Certificate != nil {
		for _, t := range o.Certificate.Landing.Tablets {
			compared[t.Alias+" "+t.ServerUUID] = true
		}
	}
	for _, t := range o.Tablets {
		switch {
		case t.Problem != "":
			out = append(out, Finding{Server: "tablet " + t.Alias, Found: t.Problem, Expected: "a tablet that answers", Remedy: "repair it, or remove its record; the first failover may promote any"})
		case o.Certificate != nil && !compared[t.Alias+" "+t.ServerUUID]:
			out = append(out, Finding{Server: "tablet " + t.Alias, Found: "server " + t.ServerUUID + ", which was not compared", Expected: "a tablet of the certificate", Remedy: fmt.Sprintf("vifl diff %s", o.Shard)})
		}
	}
	return out
}

func otherStream(o *Observed) []Finding {
	c := o.Certificate
	if c == nil {
		return nil
	}
	s := o.Stream
	if s.ID == c.Stream.ID && s.Start == c.Stream.Start && o.Connection == c.Stream.Source {
		return nil
	}
	return one("landing "+o.Keyspace, fmt.Sprintf("stream %d from %s by %s", s.ID, s.Start, o.Connection), fmt.Sprintf("the certified %d from %s by %s", c.Stream.ID, c.Stream.Start, c.Stream.Source), fmt.Sprintf("it was made anew, or reads another server: vifl abort %s and seed again", o.Shard))
}

func mainsElsewhere(o *Observed) []Finding {
	switch {
	case mains.Same(o.Places, o.Legacy):
		return nil
	case mains.Same(o.Places, o.Vitess):
		return one("mains", fmt.Sprintf("%v: the shard is on Vitess already", o.Places), fmt.Sprint(o.Legacy), "nothing to switch")
	}
	return one("mains", fmt.Sprint(o.Places), fmt.Sprint(o.Legacy), "the application is sent elsewhere: check the shard's sides in vifl.yaml, and mains")
}

// TypedNumber is the finding of a number that was typed again and differs; nil when it does
// not. It is for verbs that ask no other guard.
func TypedNumber(shard shardid.ID, typed string) []Finding {
	found := notConfirmed(&Observed{Shard: shard, Confirm: typed})
	for i := range found {
		found[i].ID, found[i].Name, found[i].Level = "R21", "typed number differs", Refuse
	}
	return found
}

func notConfirmed(o *Observed) []Finding {
	if o.Confirm == o.Shard.String() {
		return nil
	}
	return one("you", fmt.Sprintf("--confirm %q", o.Confirm), o.Shard.String(), "type the shard's number again, as it is printed")
}
