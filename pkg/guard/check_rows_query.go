package guard

func rowsQuery(f *Facts) []Finding {
	return variable(f, "binlog_rows_query_log_events", []string{"OFF", "0", ""}, refuse, "the events it adds make the stream save positions inside transactions, and stop")
}
