package guard

// durable: a legacy that loses its last transactions in a crash has then streamed what it
// does not hold. That voids a certificate; it is no reason not to begin.
func durable(f *Facts) []Finding {
	out := variable(f, "sync_binlog", []string{"1"}, warn, "a crash of the machine may lose transactions that were streamed already")
	return append(out, variable(f, "innodb_flush_log_at_trx_commit", []string{"1"}, warn, "a crash may lose transactions that were streamed already")...)
}
