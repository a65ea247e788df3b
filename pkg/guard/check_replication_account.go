package guard

// replicationAccount: behind a switch the legacy is kept in offline_mode, which turns away
// every account without CONNECTION_ADMIN, replication's too (error 3032). The pair must go
// on replicating, or its sides part.
func replicationAccount(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if s.AccountsErr != nil {
			return nil // the stream account's finding
		}
		var out []Finding
		for _, account := range sorted(s.SourceGrants) {
			if g := s.SourceGrants[account]; !g.Global("CONNECTION_ADMIN") && !g.Global("SUPER") {
				out = append(out, refuse(s.Name, account+", by which the other side replicates, lacks CONNECTION_ADMIN", "CONNECTION_ADMIN", "GRANT CONNECTION_ADMIN ON *.* TO "+account+", and name it in legacy.exempt_accounts")...)
			} else {
				out = append(out, good(s.Name, "%s has CONNECTION_ADMIN", account)...)
			}
		}
		return out
	})
}
