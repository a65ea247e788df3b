package guard

func rowImage(f *Facts) []Finding {
	return variable(f, "binlog_row_image", []string{"FULL"}, refuse, "row events lack columns, and the stream would write NULL for them")
}
