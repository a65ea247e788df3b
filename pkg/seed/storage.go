package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/vifl/vifl/pkg/shardid"
)

// In Vitess' file storage a backup is the folder ROOT/KEYSPACE/SHARD/DATE.TIME.CELL-UID; it
// is complete when MANIFEST is in it.
const (
	manifest    = "MANIFEST"
	landingName = "0" // the shard's name in an unsharded keyspace
	// sidecar is our own file in a backup's folder, which restores do not look at: the
	// record, so that a backup's source can be known without restoring it.
	sidecar = "vifl-seed.json"
	// cell is the made-up cell in the alias of our backups: it tells them from those that
	// tablets make.
	cell = "vifl"
)

// ErrExists is returned when the storage already holds a complete backup of the landing.
var ErrExists = errors.New("the landing already has a backup")

// Backup is one backup of a landing in the storage.
type Backup struct {
	Name     string
	Complete bool
	Ours     bool    // made by a seed
	Record   *Record // of a seed; nil when it is not ours, or was interrupted early
}

// Backups lists what the file storage holds for a landing, by name, which is by time.
func Backups(root, keyspace string) ([]Backup, error) {
	entries, err := os.ReadDir(filepath.Join(root, keyspace, landingName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("backups of %s: %w", keyspace, err)
	}
	var all []Backup
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(root, keyspace, landingName, e.Name())
		b := Backup{Name: e.Name(), Ours: strings.Contains(e.Name(), "."+cell+"-")}
		if _, err := os.Stat(filepath.Join(dir, manifest)); err == nil {
			b.Complete = true
		}
		if raw, err := os.ReadFile(filepath.Join(dir, sidecar)); err == nil {
			r := &Record{}
			if json.Unmarshal(raw, r) == nil {
				b.Record = r
			}
		}
		all = append(all, b)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// RemoveBackups removes all backups of a landing from the file storage, as an abort does,
// and says how many. A tablet that is started afterwards comes up empty.
func RemoveBackups(ctx context.Context, root, keyspace string) (int, error) {
	all, err := Backups(root, keyspace)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, b := range all {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("remove the backups of %s: %w: %d of %d removed", keyspace, err, n, len(all))
		}
		if err := removeBackup(root, keyspace, b.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// removeBackup takes the MANIFEST away first: a backup that is removed halfway must not be
// restored from.
func removeBackup(root, keyspace, name string) error {
	dir := filepath.Join(root, keyspace, landingName, name)
	if err := os.Remove(filepath.Join(dir, manifest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the backup %s of %s: %w", name, keyspace, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the backup %s of %s: %w", name, keyspace, err)
	}
	return nil
}

// makeWay removes what interrupted seeds of this landing left, and refuses when there is a
// complete backup already and replacing it was not asked for. It returns the complete
// backups to remove once the new one is there.
func makeWay(spec Spec, say func(string)) ([]Backup, error) {
	all, err := Backups(spec.BackupRoot, spec.Keyspace)
	if err != nil {
		return nil, err
	}
	var complete []Backup
	for _, b := range all {
		switch {
		case b.Complete:
			complete = append(complete, b)
		case b.Ours:
			if err := removeBackup(spec.BackupRoot, spec.Keyspace, b.Name); err != nil {
				return nil, err
			}
			say(fmt.Sprintf("removed the half-written backup %s of an interrupted seed", b.Name))
		}
	}
	if len(complete) == 0 || spec.Replace {
		return complete, nil
	}
	newest := complete[len(complete)-1]
	return nil, fmt.Errorf("seed %s: %w: %s in %s, %s, expected none: tablets that restore it carry other data than the new seed's; abort the move first, or seed with --replace",
		spec.Shard, ErrExists, newest.Name, filepath.Join(spec.BackupRoot, spec.Keyspace, landingName), newest.origin(spec.Shard, spec.source().ServerUUID))
}

// origin says in words where a backup came from.
func (b Backup) origin(shard shardid.ID, uuid string) string {
	switch r := b.Record; {
	case r == nil && b.Ours:
		return "of a seed of unknown source"
	case r == nil:
		return "made by a tablet"
	case r.Shard != shard:
		return fmt.Sprintf("seeded from ANOTHER legacy shard, %s (server %s)", r.Shard, r.Position.Server)
	case r.Position.Server != uuid:
		return fmt.Sprintf("seeded from another server, %s", r.Position.Server)
	default:
		return fmt.Sprintf("seeded from the same server at %s on %s", r.Position, r.Time.Format("2006-01-02 15:04:05Z"))
	}
}
