package guard

import "strings"

// ownPrivileges is what docs/accounts.md asks for, with what fails without.
var ownPrivileges = []string{
	"SELECT", "RELOAD", "LOCK TABLES", "PROCESS", "REPLICATION SLAVE", "REPLICATION CLIENT", "SHOW VIEW", "TRIGGER", "EVENT",
	"SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN", "XA_RECOVER_ADMIN", "SHOW_ROUTINE",
}

func ownGrants(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		var lacks, own []string
		for _, p := range ownPrivileges {
			if !s.Grants.Global(p) {
				lacks = append(lacks, p)
			}
		}
		for _, p := range []string{"CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE"} {
			if !s.Grants.On("_vifl", p) {
				own = append(own, p)
			}
		}
		var out []Finding
		if len(lacks) > 0 {
			list := strings.Join(lacks, ", ")
			out = append(out, refuse(s.Name, s.Account+" lacks "+list, "the grants of docs/accounts.md", "GRANT "+list+" ON *.* TO "+s.Account)...)
		}
		if len(own) > 0 {
			out = append(out, refuse(s.Name, s.Account+" lacks "+strings.Join(own, ", ")+" on _vifl", "ALL on `_vifl`.*", "GRANT ALL ON `_vifl`.* TO "+s.Account)...)
		}
		if !s.Grants.Global("BACKUP_ADMIN") {
			out = append(out, warn(s.Name, s.Account+" lacks BACKUP_ADMIN", "BACKUP_ADMIN, for seeds by clone", "GRANT BACKUP_ADMIN ON *.* TO "+s.Account)...)
		}
		if len(out) == 0 {
			return good(s.Name, "%s has all", s.Account)
		}
		return out
	})
}
