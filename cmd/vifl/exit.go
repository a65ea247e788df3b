package main

import (
	"errors"
	"strings"

	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/workflows/engine"
	"github.com/vifl/vifl/workflows/shardmove"
)

// The exit codes. Scripts branch on them; docs/cli.md lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitDifferent   = 4
	exitInterrupted = 130
)

// usageError is a command line or a configuration that cannot be understood.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// silentError is a failure whose report has been printed already.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

func isSilent(err error) bool {
	var s silentError
	return errors.As(err, &s)
}

func exitCode(err error) int {
	var usage usageError
	var illegal *engine.IllegalMove
	var refused *shardmove.Refused
	var different *shardmove.Different
	var spread spreadDiffers
	var limits exceeded
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown flag"), strings.HasPrefix(err.Error(), "required flag"):
		return exitUsage
	case errors.As(err, &refused), errors.As(err, &illegal), errors.Is(err, state.ErrHeld):
		return exitRefused
	case errors.As(err, &different), errors.As(err, &spread), errors.As(err, &limits):
		return exitDifferent
	}
	return exitFailed
}
