// Command dock is what the containers of docker/compose.yaml begin with where a program alone
// does not do: it makes the fleet's passwords, its cells, a legacy server with its accounts and
// its replication, a tablet that waits for its seed; and it is their health check.
//
// It is no shell and starts none. A signal reaches what it started, which ends in order first.
// Nothing in it moves a shard.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// errUsage is a command line that says too little or too much.
var errUsage = errors.New("usage")

const usage = `usage:
  dock secrets --config FILE --dir DIR
  dock cells --topo HOST:PORT CELL...
  dock template
  dock mysqld --host NAME --server-id N --accounts legacy|mains --database NAME [--replicate-from HOST] [--set LINE]...
  dock tablet --cell CELL --uid N --host NAME --keyspace NAME --database NAME --topo HOST:PORT [-- FLAG...]
  dock health mysqld FILE | http URL | tablet FOLDER
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "dock: %v\n%s", err, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "dock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no verb given", errUsage)
	}
	verbs := map[string]func(context.Context, []string) error{
		"secrets": runSecrets, "cells": runCells, "template": runTemplate,
		"mysqld": runMySQL, "tablet": runTablet, "health": runHealth,
	}
	verb, ok := verbs[args[0]]
	if !ok {
		return fmt.Errorf("%w: found verb %q", errUsage, args[0])
	}
	return verb(ctx, args[1:])
}

// parse reads flags and sees that those named are not empty.
func parse(f *flag.FlagSet, args []string, required ...string) error {
	f.SetOutput(os.Stderr)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %s: %w", errUsage, f.Name(), err)
	}
	for _, name := range required {
		if f.Lookup(name).Value.String() == "" {
			return fmt.Errorf("%w: %s: --%s is missing", errUsage, f.Name(), name)
		}
	}
	return nil
}

// lines is a flag that may be given several times.
type lines []string

func (l *lines) String() string     { return strings.Join(*l, ", ") }
func (l *lines) Set(s string) error { *l = append(*l, s); return nil }

// say writes a line to the container's log.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "dock: "+format+"\n", args...) }
