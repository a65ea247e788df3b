package legacy

import (
	"context"
	"sort"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// piercingQuery finds accounts that can log in and can either write under read_only
// (CONNECTION_ADMIN, SUPER) or take super_read_only off (SYSTEM_VARIABLES_ADMIN, SUPER).
// Roles are accounts too, locked ones; whoever holds one has its privileges.
const piercingQuery = "SELECT DISTINCT holder.user AS User, holder.host AS Host FROM mysql.user holder " +
	"LEFT JOIN mysql.role_edges r ON r.to_user = holder.user AND r.to_host = holder.host " +
	"JOIN mysql.user granted ON (granted.user = holder.user AND granted.host = holder.host) OR (granted.user = r.from_user AND granted.host = r.from_host) " +
	"LEFT JOIN mysql.global_grants g ON g.user = granted.user AND g.host = granted.host AND g.priv IN ('SYSTEM_VARIABLES_ADMIN', 'CONNECTION_ADMIN') " +
	"WHERE holder.account_locked = 'N' AND (granted.super_priv = 'Y' OR g.priv IS NOT NULL)"

// Piercing lists the accounts, as user@host, that a freeze does not stop, without our own,
// the exempt ones ('user' or 'user@host') and the server's own.
func (s *Server) Piercing(ctx context.Context, exempt []string) ([]string, error) {
	rows, err := mysqlconn.Maps(ctx, s.db, piercingQuery)
	if err != nil {
		return nil, s.failed("looking for accounts that pierce read_only", err)
	}
	var out []string
	for _, r := range rows {
		user, host := r["User"], r["Host"]
		if user == s.target.User || AccountMatches(exempt, user, host) {
			continue
		}
		out = append(out, user+"@"+host)
	}
	sort.Strings(out)
	return out, nil
}
