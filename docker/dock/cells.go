package main

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// topoRoot is the root of the global topo.
const topoRoot = "/vitess/global"

// cellsTimeout bounds the wait for a topo server that is still electing its leader.
const cellsTimeout = 3 * time.Minute

// cellTimeout bounds one try.
const cellTimeout = 10 * time.Second

// runCells makes the cells that are missing. vtctldclient talks to the topo server itself here:
// vtctld, vtgate and vtorc do not start without their cell.
func runCells(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("dock cells", flag.ContinueOnError)
	server := f.String("topo", "", "etcd, host:port")
	if err := parse(f, args, "topo"); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return fmt.Errorf("%w: dock cells: no cell named", errUsage)
	}
	ctx, cancel := context.WithTimeout(ctx, cellsTimeout)
	defer cancel()
	for _, cell := range f.Args() {
		if err := addCell(ctx, *server, cell); err != nil {
			return fmt.Errorf("cell %s: %w", cell, err)
		}
	}
	return nil
}

func addCell(ctx context.Context, server, cell string) error {
	for {
		// Without a topo server it would try for an hour.
		once, cancel := context.WithTimeout(ctx, cellTimeout)
		cmd := exec.CommandContext(once, "vtctldclient", "--server", "internal",
			"--topo-implementation", "etcd2", "--topo-global-server-address", server, "--topo-global-root", topoRoot,
			"AddCellInfo", "--root", "/vitess/"+cell, "--server-address", server, cell)
		out, err := cmd.CombinedOutput()
		cancel()
		switch {
		case err == nil:
			say("cell %s made", cell)
			return nil
		case strings.Contains(string(out), "node already exists"):
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topo server %s does not take it within %s: %w: %s", server, cellsTimeout, err, lastLine(out))
		case <-time.After(time.Second):
		}
	}
}

// lastLine is the line of a program's output that says most.
func lastLine(out []byte) string {
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	return all[len(all)-1]
}
