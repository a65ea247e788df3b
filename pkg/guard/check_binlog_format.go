package guard

func binlogFormat(f *Facts) []Finding {
	return variable(f, "binlog_format", []string{"ROW"}, func(server, found, expected, _ string) []Finding {
		return refuse(server, found, expected, "STOP REPLICA SQL_THREAD, SET PERSIST binlog_format=ROW, START REPLICA SQL_THREAD on "+server+", and let sessions reconnect; a fleet that must log statements needs a relay")
	}, "the binlog holds changes in statement format, and no stream can read a STATEMENT")
}
