package guard

import "fmt"

func noPreparedXA(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		switch {
		case s.XAErr != nil:
			return blind(s.Name, s.XAErr, "GRANT XA_RECOVER_ADMIN ON *.* TO "+s.Account)
		case len(s.XA) > 0:
			return refuse(s.Name, fmt.Sprintf("%d transactions left prepared: %s", len(s.XA), few(s.XA)), "none", "XA COMMIT or XA ROLLBACK each: they can commit on a frozen server, and no stream carries them")
		}
		return good(s.Name, "none")
	})
}
