package seed

import (
	"context"
	"errors"
	"strings"
)

func (j *job) clone(ctx context.Context) error { return errors.New("seed by clone is not there yet") }

// quoteText makes a string literal for any sql_mode without ANSI_QUOTES. Backslashes are
// doubled: NO_BACKSLASH_ESCAPES is never set on our connections.
func quoteText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", `\0`).Replace(s) + "'"
}
