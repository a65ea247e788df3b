package guard

import "fmt"

func piercingAccounts(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		switch {
		case s.PierceErr != nil:
			return blind(s.Name, s.PierceErr, "GRANT SELECT ON *.* TO "+s.Account)
		case len(s.Piercing) > 0:
			return refuse(s.Name, fmt.Sprintf("%d accounts can write to a frozen server or thaw it (SUPER, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN): %s", len(s.Piercing), few(s.Piercing)), "none but those of legacy.exempt_accounts", "REVOKE these from applications; name administrators' and replication accounts in legacy.exempt_accounts")
		}
		return good(s.Name, "none but the exempt")
	})
}
