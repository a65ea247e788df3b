package guard

func lowerCase(f *Facts) []Finding {
	return variable(f, "lower_case_table_names", []string{"0"}, func(server, found, expected, _ string) []Finding {
		return refuse(server, found, expected, "it can be set only when a server's data is made: the application must name tables as they are stored, and the landing's servers be made with the same setting; this version does not do that")
	}, "the landing's servers tell Names from names")
}
