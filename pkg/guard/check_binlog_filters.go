package guard

func binlogFilters(f *Facts) []Finding {
	return onSides(f, func(s *Side) []Finding {
		switch {
		case s.FiltersErr != nil:
			return blind(s.Name, s.FiltersErr, "GRANT REPLICATION CLIENT ON *.* TO "+s.Account)
		case s.Filters != "":
			return refuse(s.Name, s.Filters+": what a session writes goes by its default database, so changes of the shard may be missing from the binlog, and so are heartbeats", "no binlog filter", "remove binlog_do_db and binlog_ignore_db from the option file, and restart")
		}
		return good(s.Name, "none")
	})
}
