package guard

import (
	"fmt"
	"strconv"
	"time"
)

// A seed is assumed to run at seedRate and to take leastSeed with all around it; the binlog
// must outlast it several times, because the landing also has to catch up.
const (
	seedRate  = 10 << 20 // bytes a second, of the slowest seeds seen on small machines
	leastSeed = 10 * time.Minute
	margin    = 4
)

func retention(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if s.Vars["log_bin"] != "ON" {
			return nil
		}
		seconds, err := strconv.ParseInt(s.Vars["binlog_expire_logs_seconds"], 10, 64)
		if err != nil {
			return blind(s.Name, fmt.Errorf("binlog_expire_logs_seconds=%q", s.Vars["binlog_expire_logs_seconds"]), "")
		}
		// The older variable, in days, counts when the newer is 0.
		if days, err := strconv.ParseInt(s.Vars["expire_logs_days"], 10, 64); err == nil && seconds == 0 {
			seconds = days * 24 * 3600
		}
		if seconds == 0 || s.Vars["binlog_expire_logs_auto_purge"] == "OFF" {
			return good(s.Name, "kept until purged by hand")
		}
		keeps := time.Duration(seconds) * time.Second
		seed := leastSeed + time.Duration(s.Bytes()/seedRate)*time.Second
		found := fmt.Sprintf("binlog kept for %s", keeps)
		expected := fmt.Sprintf("%s: %d times the estimated seed of %.1f GB", (margin * seed).Round(time.Minute), margin, float64(s.Bytes())/(1<<30))
		remedy := fmt.Sprintf("SET PERSIST binlog_expire_logs_seconds=%d on %s for the time of the move", int64((margin*seed).Seconds())+1, s.Name)
		switch {
		case keeps < seed:
			return refuse(s.Name, found, expected, remedy)
		case keeps < margin*seed:
			return warn(s.Name, found, expected, remedy)
		}
		return good(s.Name, "%s", found)
	})
}
