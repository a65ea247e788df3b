package guard

func compression(f *Facts) []Finding {
	return variable(f, "binlog_transaction_compression", []string{"OFF", "0", ""}, refuse, "the stream drops compressed transactions without a word")
}
