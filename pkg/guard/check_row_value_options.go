package guard

import "github.com/vifl/vifl/pkg/state"

func rowValueOptions(f *Facts) []Finding {
	why := "updates of JSON are logged in part, and the stream loses them"
	if f.Stream == state.Binlog {
		why = "updates of JSON are logged in part, and the stream stops at them"
	}
	return variable(f, "binlog_row_value_options", []string{""}, refuse, why)
}
