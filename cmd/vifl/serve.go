package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/workflows/shardmove"
)

func (a *app) newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve [SHARD...]", Short: "run the workers of the binlog streams, of all shards or of these, until interrupted",
		Long: `serve runs the workers of vifl's own binlog streams: of every shard of vifl.yaml, or of those
that are named. It follows what the other verbs do: a stream that one of them starts is worked
for a moment later. It may run on several hosts at once; one worker writes, the others stand by.`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, arg := range args {
				if _, err := shardid.Parse(arg); err != nil {
					return usageError{err}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			shards := c.Shards
			if len(args) > 0 {
				shards = nil
			}
			for _, arg := range args {
				id, err := shardid.Parse(arg)
				if err != nil {
					return usageError{err}
				}
				shard, err := c.Shard(id)
				if err != nil {
					return usageError{err}
				}
				shards = append(shards, shard)
			}
			r := newReporter(os.Stderr)
			r.Note("serving %d shard(s)", len(shards))
			return shardmove.Serve(cmd.Context(), c, shards, r)
		},
	}
}
