// Command vifl moves legacy MySQL shards into Vitess. It parses, wires and maps errors to
// exit codes; the work is done in workflows/shardmove and the packages below it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vifl/vifl/workflows/engine"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "vifl: interrupted, stopping at the next safe point (again: stop now)")
		cancel(engine.ErrInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	err := newRootCommand().ExecuteContext(ctx)
	if err != nil && !isSilent(err) {
		if errors.Is(context.Cause(ctx), engine.ErrInterrupted) && !errors.Is(err, engine.ErrInterrupted) {
			err = fmt.Errorf("%w (at that moment: %w)", engine.ErrInterrupted, err)
		}
		fmt.Fprintln(os.Stderr, "vifl:", err)
	}
	os.Exit(exitCode(err))
}
