package binlog

import (
	"errors"
	"fmt"
)

// blockedError is something in the binlog that cannot be carried over. Nothing of its
// transaction, and nothing behind it, is applied.
type blockedError struct {
	kind string // such as ALTER TABLE; no data, no password
	why  string
}

func (e blockedError) Error() string { return fmt.Sprintf("stopped before %s: %s", e.kind, e.why) }

// finalError is one that trying again does not mend.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool {
	var f finalError
	var b blockedError
	return errors.As(err, &f) || errors.As(err, &b)
}

var (
	// errControl: somebody changed what the stream is to do; it is read anew.
	errControl = errors.New("the stream's orders were changed")
	// errLost: another worker has the stream now, or it was deleted.
	errLost = errors.New("the stream is not this worker's any more")
)
