package guard

import (
	"fmt"
	"sort"
)

func onHold(o *Observed) []Finding {
	if o.Hold == "" {
		return nil
	}
	return one("shard "+o.Shard.String(), "a hold: "+o.Hold, "none", fmt.Sprintf("ask who holds it; vifl unhold %s --why …", o.Shard))
}

func automated(o *Observed) []Finding {
	var out []Finding
	for _, line := range o.Automation {
		out = append(out, Finding{Server: "landing " + o.Keyspace, Found: line, Expected: "nothing but vifl at work", Remedy: "wait until it has ended, or end it"})
	}
	return out
}

func preparedXA(o *Observed) []Finding {
	return byServer(o.PreparedXA, "prepared XA transactions, which commit on a frozen server", "none", "commit or roll them back")
}

func piercing(o *Observed) []Finding {
	return byServer(o.Piercing, "accounts that can write to a frozen server or thaw it", "none but those of legacy.exempt_accounts", "REVOKE SUPER, SYSTEM_VARIABLES_ADMIN and CONNECTION_ADMIN from them, or name them in legacy.exempt_accounts")
}

func byServer(lists map[string][]string, what, expected, remedy string) []Finding {
	servers := make([]string, 0, len(lists))
	for s, list := range lists {
		if len(list) > 0 {
			servers = append(servers, s)
		}
	}
	sort.Strings(servers)
	var out []Finding
	for _, s := range servers {
		out = append(out, Finding{Server: s, Found: fmt.Sprintf("%d %s: %v", len(lists[s]), what, lists[s]), Expected: expected, Remedy: remedy})
	}
	return out
}

func semiSync(o *Observed) []Finding {
	if o.SemiSyncHave >= o.SemiSyncNeed {
		return nil
	}
	return one("landing "+o.Keyspace, fmt.Sprintf("%d semi-sync replicas", o.SemiSyncHave), fmt.Sprintf("%d", o.SemiSyncNeed), "bring the replicas up: with fewer the first write would hang, or a failover be impossible")
}

func notFenced(o *Observed) []Finding {
	switch {
	case o.Fenced:
		return nil
	case o.NoLanding:
		return one("landing "+o.Keyspace, "no such keyspace", "a fenced landing", fmt.Sprintf("vifl status %s says which verb makes it", o.Shard))
	}
	return one("landing "+o.Keyspace, "is_primary_serving true: clients can write to it", "a fenced landing", "somebody opened it; what was written there meanwhile is not in any diff: fence it, and diff again")
}
