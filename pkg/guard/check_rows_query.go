package guard

func rowsQuery(f *Facts) []Finding {
	return vreplicationOnly(f, "binlog_rows_query_log_events", []string{"OFF", "0", ""}, "the events it adds make the stream save positions inside transactions, and stop")
}
