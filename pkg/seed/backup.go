package seed

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"vitess.io/vitess/go/vt/logutil"
	"vitess.io/vitess/go/vt/mysqlctl"
	"vitess.io/vitess/go/vt/mysqlctl/backupstorage"
	"vitess.io/vitess/go/vt/mysqlctl/filebackupstorage"
	topodatapb "vitess.io/vitess/go/vt/proto/topodata"
)

// record writes _vifl.seed and makes the server's history begin anew: no binlog of the
// load, and one transaction of its own, without which replicas would not know it (as
// vtbackup does).
func (j *job) record(ctx context.Context, digest string) error {
	s := j.scratch
	db, err := s.open(ctx, "vt_dba")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	defer conn.Close()
	j.result.SchemaDigest = digest
	if err := j.seedRecord().write(ctx, conn); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if err := s.ResetReplication(ctx); err != nil {
		return fmt.Errorf("%s: clear its binlogs: %w", s.name, err)
	}
	if err := s.ExecuteSuperQueryList(ctx, []string{mysqlctl.GenerateInitialBinlogEntry()}); err != nil {
		return fmt.Errorf("%s: first transaction: %w", s.name, err)
	}
	return firstTransactionOnly(ctx, conn, &j.result.ScratchUUID)
}

// firstTransactionOnly proves that the history holds nothing but what we put there: a seed
// whose load went to the binlog would make every restored tablet errant.
func firstTransactionOnly(ctx context.Context, conn *sql.Conn, uuid *string) error {
	var executed string
	if err := conn.QueryRowContext(ctx, "SELECT @@server_uuid, @@global.gtid_executed").Scan(uuid, &executed); err != nil {
		return err
	}
	if strings.TrimSpace(executed) != *uuid+":1" {
		return fmt.Errorf("the scratch server's history is %q, expected %s:1", executed, *uuid)
	}
	return nil
}

func (j *job) seedRecord() *Record {
	return &Record{
		Shard: j.spec.Shard, Keyspace: j.spec.Keyspace, Database: j.spec.Database, Method: j.spec.Method, StreamSide: j.spec.StreamSide,
		ServerA: j.spec.A, ServerB: j.spec.B, Position: j.result.Position, SchemaDigest: j.result.SchemaDigest,
		Time: time.Now().UTC().Truncate(time.Second), Version: j.spec.Version,
	}
}

// backup stops the scratch server and puts its data into the storage.
func (j *job) backup(ctx context.Context) error {
	j.enter(PhaseBackup, "writing the backup")
	s := j.scratch
	backupstorage.BackupStorageImplementation = "file"
	filebackupstorage.FileBackupStorageRoot = j.spec.BackupRoot
	mysqlctl.CompressionEngineName = "zstd"
	at := time.Now()
	alias := fmt.Sprintf("%s-%010d", cell, scratchUID(j.spec))
	j.result.BackupName = at.UTC().Format(mysqlctl.BackupTimestampFormat) + "." + alias
	s.backupDir = filepath.Join(j.spec.BackupRoot, j.spec.Keyspace, landingName, j.result.BackupName)
	watched, stopWatch := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.watchBackup(watched, stopWatch)
	}()
	ended := make(chan error, 1)
	go func() {
		ended <- mysqlctl.Backup(watched, mysqlctl.BackupParams{
			Cnf: s.cnf, Mysqld: &storing{s, j}, Logger: logutil.NewConsoleLogger(), Concurrency: backupConcurrency,
			Keyspace: j.spec.Keyspace, Shard: landingName, TabletAlias: alias, TabletType: topodatapb.TabletType_BACKUP,
			BackupTime: at, BackupEngine: "builtin", UpgradeSafe: true, MysqlShutdownTimeout: stopTimeout,
		})
	}()
	var err error
	select {
	case err = <-ended:
	case <-watched.Done():
		// A writer that Vitess waits for may hang on a storage that takes no more: it is left
		// to the end of this process, which is near.
		select {
		case err = <-ended:
		case <-time.After(abandonBackup):
			err = fmt.Errorf("the backup goes on after its end: %w", context.Cause(watched))
		}
	}
	stalled := context.Cause(watched)
	stopWatch(nil)
	<-done
	_, missing := os.Stat(filepath.Join(s.backupDir, manifest))
	// Vitess' errors do not unwrap; a flag tells this one.
	if err != nil && (missing != nil || !s.ended) {
		j.dropBackup()
		if stalled != nil && ctx.Err() == nil {
			return stalled
		}
		if strings.Contains(err.Error(), "no space left") {
			return fmt.Errorf("the backup storage %s is full: %w: make room and seed again", j.spec.BackupRoot, err)
		}
		return fmt.Errorf("backup into %s: %w", j.spec.BackupRoot, err)
	}
	if missing != nil {
		return fmt.Errorf("backup into %s: no MANIFEST was written: %w", j.spec.BackupRoot, missing)
	}
	j.result.BackupBytes, _ = folderSize(s.backupDir)
	return nil
}

// backupConcurrency is how many files are compressed at once; each uses several threads.
const backupConcurrency = 4

// storing is the scratch server during a backup. Vitess asks it to stop after it has made
// the backup's folder and before it writes into it: the moment for our own file.
type storing struct {
	*scratch
	j *job
}

// Shutdown writes the record beside the data, and stops the server.
func (s *storing) Shutdown(ctx context.Context, cnf *mysqlctl.Mycnf, wait bool, timeout time.Duration) error {
	raw, err := json.MarshalIndent(s.j.seedRecord(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.backupDir, sidecar), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return s.scratch.Shutdown(ctx, cnf, wait, timeout)
}

// dropBackup removes a backup that was not finished. It has no MANIFEST, so nothing would
// restore it; it would only take room until the next seed.
func (j *job) dropBackup() {
	_ = removeBackup(j.spec.BackupRoot, j.spec.Keyspace, j.result.BackupName)
}

// abandonBackup is how long a backup whose context has ended may take to notice.
const abandonBackup = 5 * time.Second

// stall notices a backup that will never end: Vitess' writers retry for ever on a storage
// that is full.
type stall struct {
	bytes uint64
	since time.Time // when it last grew
}

const (
	fullAfter  = 5 * time.Second // without growth, on a storage without room
	stallAfter = 2 * time.Minute // without growth at all, behind the stop of the server
	noRoom     = 1 << 20         // less is no room: the storage rounds up to blocks
)

// check says why the backup is over, nil while it goes on.
func (s *stall) check(root string, bytes, free uint64, stopped bool, now time.Time) error {
	if bytes != s.bytes || s.since.IsZero() {
		s.bytes, s.since = bytes, now
		return nil
	}
	quiet := now.Sub(s.since)
	switch {
	case free < noRoom && quiet >= fullAfter:
		return fmt.Errorf("the backup storage %s is full: found %d bytes free and %.1f MB written, expected room for the whole backup: make room and seed again", root, free, float64(bytes)/1e6)
	case stopped && quiet >= stallAfter:
		return fmt.Errorf("the backup storage %s has taken nothing for %s behind %.1f MB: look whether it answers, then seed again", root, stallAfter, float64(bytes)/1e6)
	}
	return nil
}

func (j *job) watchBackup(ctx context.Context, stop context.CancelCauseFunc) {
	var s stall
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n, err := folderSize(j.scratch.backupDir)
			if err == nil {
				j.out.send(Event{Phase: PhaseBackup, BytesDone: n, Elapsed: time.Since(j.began), Position: j.result.Position})
				var st unix.Statfs_t
				free := uint64(noRoom)
				if unix.Statfs(j.spec.BackupRoot, &st) == nil {
					free = st.Bavail * uint64(st.Bsize)
				}
				// Before the server has stopped nothing is written, however long that takes.
				if err := s.check(j.spec.BackupRoot, n, free, n > noRoom, time.Now()); err != nil {
					stop(err)
					return
				}
			}
		}
	}
}

func folderSize(dir string) (uint64, error) {
	var sum uint64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += uint64(info.Size())
		}
		return nil
	})
	return sum, err
}
