package seed

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/runas"
	seedcopy "github.com/vifl/vifl/pkg/seed/copy"
)

// userOfNobody is "as we are": the child has become the seed's user already.
var userOfNobody = runas.User{}

// copy fills an empty scratch server through ordinary connections.
func (j *job) copy(ctx context.Context) error {
	src, err := j.openSource(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	need, err := j.enoughRoom(ctx, src, j.spec.Database)
	if err != nil {
		return err
	}
	s := j.scratch
	if err := s.initialise(ctx); err != nil {
		return err
	}
	if err := s.start(ctx, loadSettings(j.bufferPool(need))...); err != nil {
		return err
	}
	if err := s.makeAccounts(ctx, "root", j.spec.Database, j.spec.Landing); err != nil {
		return err
	}
	j.enter(PhaseCut, "opening snapshots on "+src.Target().String())
	cut, err := src.Cut(ctx, j.spec.Parallelism, j.spec.LockTimeout)
	if err != nil {
		return err
	}
	defer cut.Close()
	j.result.Position, j.result.Blocked = cut.Position, cut.Blocked
	if want := j.spec.source().ServerUUID; cut.Position.Server != want {
		return fmt.Errorf("%s: the snapshots are of server %s, expected %s: was the address moved?", src.Target(), cut.Position.Server, want)
	}
	j.enter(PhaseFill, fmt.Sprintf("copying from %s at %s (writes blocked for %s)", src.Name(), cut.Position, cut.Blocked))
	r, err := seedcopy.Fill(ctx, seedcopy.Source{Name: src.Target().String(), Database: j.spec.Database, Snapshots: cut.Snapshots}, s.target("root", ""),
		seedcopy.Options{Scratch: true, Progress: func(p seedcopy.Progress) {
			j.out.send(Event{Phase: PhaseFill, BytesDone: p.BytesDone, RowsDone: p.Rows, RowsTotal: p.RowsTotal, Tables: p.Tables, TablesDone: p.TablesDone, Elapsed: p.Elapsed, Position: cut.Position})
		}})
	if err != nil {
		return err
	}
	j.result.Rows, j.result.Bytes, j.result.Tables, j.result.LeftOut = r.Rows, r.Bytes, r.Tables, r.LeftOut
	if len(r.LeftOut) > 0 {
		j.say("left out: " + strings.Join(r.LeftOut, ", "))
	}
	j.enter(PhaseConvert, "writing the record")
	return j.record(ctx, r.Schema.Digest())
}

// openSource connects to the side that is read and makes sure it is the server it is said
// to be.
func (j *job) openSource(ctx context.Context) (*legacy.Server, error) {
	src, err := legacy.Open(ctx, j.spec.Source, j.spec.Shard, j.spec.StreamSide, j.spec.Database)
	if err != nil {
		return nil, err
	}
	id, err := src.Identity(ctx)
	if err == nil && id.ServerUUID != j.spec.source().ServerUUID {
		err = fmt.Errorf("%s is server %s, expected %s: is the address another server's by now?", src.Target(), id, j.spec.source())
	}
	if err != nil {
		_ = src.Close()
		return nil, err
	}
	return src, nil
}

// loadSettings make a server that is filled once and thrown away fast: nothing of it has to
// survive a crash. What a backup of it holds does not depend on them.
func loadSettings(bufferPool int64) []string {
	return []string{
		"--super-read-only=OFF", "--read-only=OFF", "--local-infile=ON", "--slow-query-log=OFF", "--general-log=OFF",
		"--performance-schema=OFF", "--max-connections=100", "--max-allowed-packet=1G",
		"--innodb-buffer-pool-size=" + strconv.FormatInt(bufferPool, 10),
		"--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-doublewrite=OFF", "--innodb-log-buffer-size=32M",
		"--innodb-adaptive-hash-index=OFF", "--innodb-flush-neighbors=0",
		// Statistics are made once, at the end; there is nothing to purge.
		"--innodb-stats-auto-recalc=OFF", "--innodb-purge-threads=1",
		"--innodb-io-capacity=2000", "--innodb-io-capacity-max=10000", "--innodb-max-dirty-pages-pct=90", "--innodb-max-dirty-pages-pct-lwm=0",
		"--loose-innodb-redo-log-capacity=256M", "--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF",
	}
}

const (
	minBufferPool = 128 << 20
	maxBufferPool = 4 << 30
)

// bufferPool is what was asked for, or enough for the data within a quarter of the memory.
func (j *job) bufferPool(data uint64) int64 {
	if j.spec.BufferPool > 0 {
		return j.spec.BufferPool
	}
	n := int64(min(data+data/4, maxBufferPool))
	n = max(min(n, memory()/4), minBufferPool)
	return n
}

// memory is what the machine has available now, in bytes.
func memory() int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 30
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return kb << 10
			}
		}
	}
	return 1 << 30
}

// serverBytes is what an empty server takes.
const serverBytes = 250 << 20

// enoughRoom compares the size of the database (of all, when it is ""), as the server
// estimates it, with the free room in the work folder, before anybody is bothered with a
// lock. It returns that size.
func (j *job) enoughRoom(ctx context.Context, src *legacy.Server, database string) (uint64, error) {
	var data uint64
	err := src.DB().QueryRowContext(ctx, "SELECT IFNULL(SUM(data_length+index_length),0) FROM information_schema.tables WHERE table_schema=? OR ?=''", database, database).Scan(&data)
	if err != nil {
		return 0, fmt.Errorf("%s: size of the shard: %w", src.Target(), err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(j.w.Dir, &st); err != nil {
		return 0, fmt.Errorf("work folder: %w", err)
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	if need := data + serverBytes; free < need {
		return 0, fmt.Errorf("the work folder %s has %d MB free, expected %d MB for the data of %s: make room, or choose another (workdir)", j.spec.WorkDir, free>>20, need>>20, src.Name())
	}
	return data, nil
}
