package clone

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/position"
)

// CheckReplica says whether the position of the source can be told from a clone of this
// replica. Each applier notes the end of what it applied in the transaction that applied it;
// as long as transactions are committed in the source's order, the newest note is how far
// the whole is. Out of order there may be gaps below it, which the stream would never fill.
func CheckReplica(ctx context.Context, donor *legacy.Server, source, sourceUUID string) error {
	r, err := donor.Replica(ctx)
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("%s replicates from nobody, expected from %s: clone from the side itself, or name a replica of it", donor.Target(), source)
	}
	if r.SourceUUID != sourceUUID {
		return fmt.Errorf("%s replicates from server %s, expected %s (%s): name a replica of the streamed side", donor.Target(), r.SourceUUID, sourceUUID, source)
	}
	if r.AutoPosition {
		return fmt.Errorf("%s replicates by GTID, expected by file and position: clone from the side itself", donor.Target())
	}
	if len(r.OtherChannels) > 0 {
		return fmt.Errorf("%s has other replication channels (%s), expected none: clone from the side itself", donor.Target(), strings.Join(r.OtherChannels, ", "))
	}
	vars, err := donor.Variables(ctx)
	if err != nil {
		return err
	}
	if n := vars["replica_parallel_workers"]; n != "0" && n != "1" && vars["replica_preserve_commit_order"] != "ON" {
		return fmt.Errorf("%s: replica_parallel_workers is %s and replica_preserve_commit_order is %s, expected ON (out of order, a clone does not tell how far it is): set it and restart its replication, or clone from the side itself", donor.Target(), n, vars["replica_preserve_commit_order"])
	}
	return nil
}

// SourcePosition is how far the cloned replica had applied its source: the furthest of the
// coordinator's note, which is written now and then, and the appliers'.
func SourcePosition(ctx context.Context, c *sql.Conn, sourceUUID string) (position.FilePos, error) {
	notes, err := list(ctx, c, "SELECT CONCAT(master_log_name,':',master_log_pos) FROM mysql.slave_relay_log_info WHERE channel_name='' AND master_log_name<>'' "+
		"UNION ALL SELECT CONCAT(CONVERT(master_log_name USING utf8mb4),':',master_log_pos) FROM mysql.slave_worker_info WHERE channel_name='' AND master_log_name<>''")
	if err != nil {
		return position.FilePos{}, fmt.Errorf("read how far the cloned replica had applied: %w", err)
	}
	var newest position.FilePos
	for _, n := range notes {
		p, err := position.Parse(sourceUUID, n)
		if err != nil {
			return position.FilePos{}, fmt.Errorf("read how far the cloned replica had applied: %w", err)
		}
		if !newest.IsZero() {
			order, err := position.Compare(p, newest)
			if err != nil {
				return position.FilePos{}, fmt.Errorf("read how far the cloned replica had applied: %w", err)
			}
			if order <= 0 {
				continue
			}
		}
		newest = p
	}
	if newest.IsZero() {
		return position.FilePos{}, errors.New("the cloned replica has no note of how far it had applied: clone from the side itself")
	}
	return newest, nil
}
