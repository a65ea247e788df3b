package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func noCertificate(o *Observed) []Finding {
	switch {
	case o.Certificate == nil:
		return one("landing "+o.Keyspace, "no certificate", "one that a diff of this shard gave", fmt.Sprintf("vifl diff %s", o.Shard))
	case o.CertificateVoid != "":
		return one("landing "+o.Keyspace, "a certificate that is void: "+o.CertificateVoid, "one that counts", fmt.Sprintf("vifl diff %s", o.Shard))
	}
	return nil
}

func brokenCertificate(o *Observed) []Finding {
	if o.Certificate == nil {
		return nil
	}
	if err := o.Certificate.Verify(); err != nil {
		return one("landing "+o.Keyspace, err.Error(), "a certificate as the diff sealed it", fmt.Sprintf("vifl diff %s; find out who edited the state", o.Shard))
	}
	return nil
}

func tooOld(o *Observed) []Finding {
	if o.Certificate == nil {
		return nil
	}
	age := o.Now.Sub(o.Certificate.CutAt)
	if age >= 0 && age <= o.MaxAge {
		return nil
	}
	return one("landing "+o.Keyspace, fmt.Sprintf("a certificate %s old", age.Round(time.Second)), fmt.Sprintf("at most %s", o.MaxAge), fmt.Sprintf("vifl diff %s, or --max-age", o.Shard))
}

func differences(o *Observed) []Finding {
	c := o.Certificate
	if c == nil {
		return nil
	}
	if c.Differing > 0 || c.Drift.Differing > 0 {
		return one("landing "+o.Keyspace, fmt.Sprintf("%d differing rows, %d of side b", c.Differing, c.Drift.Differing), "none", fmt.Sprintf("repair them, then vifl diff %s", o.Shard))
	}
	var open []string
	for _, r := range c.Drift.Accepted {
		if !slices.ContainsFunc(o.AcceptedDrift, r.Is) {
			open = append(open, fmt.Sprintf("%s (%s)", r.Table, r.Key))
		}
	}
	if len(open) > 0 {
		return one("side b", fmt.Sprintf("%d row(s) differ from side a and are no longer accepted as the certificate says: %s", len(open), few(open)), "none, or accepted ones",
			fmt.Sprintf("repair them or vifl diff %s --accept-drift TABLE KEY, then vifl diff %s", o.Shard, o.Shard))
	}
	return nil
}

func schemaChanged(o *Observed) []Finding {
	c := o.Certificate
	if c == nil {
		return nil
	}
	var out []Finding
	for _, s := range []struct{ server, now, then string }{
		{"side a", o.SchemaA, c.SchemaSource},
		{"side b", o.SchemaB, c.SchemaSource},
		{"landing " + o.Keyspace, o.SchemaTarget, c.SchemaTarget},
	} {
		if s.now != s.then {
			out = append(out, Finding{Server: s.server, Found: "tables with the digest " + short(s.now), Expected: "the certificate's " + short(s.then), Remedy: fmt.Sprintf("was there a DDL? vifl abort %s and seed again", o.Shard)})
		}
	}
	return out
}

func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	if digest == "" {
		return "(none)"
	}
	return digest
}

func brokenStream(o *Observed) []Finding {
	switch {
	case o.Stream.Taints > 0:
		return one("landing "+o.Keyspace, fmt.Sprintf("%d event(s) in the legacy's binlog that the stream loses", o.Stream.Taints), "none", fmt.Sprintf("vifl abort %s, end the cause, seed again", o.Shard))
	case o.Stream.State == "" || o.Stream.State == "absent":
		return one("landing "+o.Keyspace, "no stream", "a running one", fmt.Sprintf("vifl sync start %s", o.Shard))
	case o.Stream.State != "running":
		return one("landing "+o.Keyspace, strings.TrimSuffix("a stream that is "+o.Stream.State+": "+o.Stream.Message, ": "), "a running one", fmt.Sprintf("vifl sync start %s", o.Shard))
	}
	return nil
}

func lagging(o *Observed) []Finding {
	switch {
	case o.Lag < 0:
		return one("landing "+o.Keyspace, "a lag that cannot be told", fmt.Sprintf("at most %s", o.MaxLag), fmt.Sprintf("vifl sync status %s", o.Shard))
	case o.Lag > o.MaxLag:
		return one("landing "+o.Keyspace, fmt.Sprintf("a lag of at least %s", o.Lag.Round(time.Millisecond)), fmt.Sprintf("at most %s", o.MaxLag), "wait until it has caught up, or --max-lag")
	}
	return nil
}

func one(server, found, expected, remedy string) []Finding {
	return []Finding{{Server: server, Found: found, Expected: expected, Remedy: remedy}}
}
