// Package serving owns the flags that we recommend for vtgate. They are a file, vtgate.flags, so
// that an operator's own start script can read them:
//
//	vtgate $(grep '^--' vtgate.flags) …
//
// The local fleet's vtgate runs with them, and e2e/keyspaces shows what they are for.
package serving

import (
	_ "embed"
	"strings"
)

//go:embed vtgate.flags
var vtgateFlags string

// VtgateFlags are the recommended flags, as --name or --name=value. Of a flag that is given twice
// vtgate takes the last, so what a caller appends wins.
func VtgateFlags() []string {
	var flags []string
	for _, line := range strings.Split(vtgateFlags, "\n") {
		if strings.HasPrefix(line, "--") {
			flags = append(flags, line)
		}
	}
	return flags
}
