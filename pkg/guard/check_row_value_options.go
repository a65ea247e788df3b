package guard

func rowValueOptions(f *Facts) []Finding {
	return variable(f, "binlog_row_value_options", []string{""}, refuse, "updates of JSON are logged in part, and the stream loses them")
}
