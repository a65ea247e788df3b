package guard

func compression(f *Facts) []Finding {
	return vreplicationOnly(f, "binlog_transaction_compression", []string{"OFF", "0", ""}, "the stream drops compressed transactions without a word")
}
