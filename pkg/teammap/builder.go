package teammap

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

// Builder collects a map, team by team in any order: ten bytes a team.
type Builder struct {
	teams  []uint64
	shards []uint16
}

// Len, Less and Swap sort by team.
func (b *Builder) Len() int           { return len(b.teams) }
func (b *Builder) Less(i, j int) bool { return b.teams[i] < b.teams[j] }
func (b *Builder) Swap(i, j int) {
	b.teams[i], b.teams[j] = b.teams[j], b.teams[i]
	b.shards[i], b.shards[j] = b.shards[j], b.shards[i]
}

// Add adds a team.
func (b *Builder) Add(team uint64, shard shardid.ID) {
	b.teams = append(b.teams, team)
	b.shards = append(b.shards, uint16(shard))
}

// Build is the map of the teams added. A team that was added twice is an error, also with
// the same shard: mains has one place for a team, and what said it twice was not asked right.
// The builder must not be used any more.
func (b *Builder) Build(created time.Time) (*Map, error) {
	if len(b.teams) > math.MaxUint32 {
		return nil, fmt.Errorf("team map: found %d teams, expected less than 2^32", len(b.teams))
	}
	// What mains returns in order, as most do, needs no sorting.
	if !sort.IsSorted(b) {
		sort.Sort(b)
	}
	for i := 1; i < len(b.teams); i++ {
		if b.teams[i-1] == b.teams[i] {
			return nil, fmt.Errorf("team map: team %d is there twice, on shard %s and on shard %s: expected each team once", b.teams[i], shardid.ID(b.shards[i-1]), shardid.ID(b.shards[i]))
		}
	}
	m := &Map{teams: b.teams, shards: b.shards, created: created.UTC().Truncate(time.Millisecond)}
	sum := sha256.New()
	sum.Write(m.header())
	if err := m.body(sum); err != nil {
		return nil, err
	}
	sum.Sum(m.digest[:0])
	m.index()
	return m, nil
}

// header is the file's header up to the digest.
func (m *Map) header() []byte {
	h := make([]byte, 0, headerSize)
	h = append(h, magic...)
	h = binary.BigEndian.AppendUint32(h, Version)
	h = binary.BigEndian.AppendUint32(h, headerSize)
	h = binary.BigEndian.AppendUint64(h, uint64(len(m.teams)))
	return binary.BigEndian.AppendUint64(h, uint64(m.created.UnixMilli()))
}

// body writes what follows the header.
func (m *Map) body(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	var b [8]byte
	for _, team := range m.teams {
		binary.BigEndian.PutUint64(b[:], team)
		if _, err := w.Write(b[:]); err != nil {
			return err
		}
	}
	for _, shard := range m.shards {
		binary.BigEndian.PutUint16(b[:], shard)
		if _, err := w.Write(b[:2]); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Write writes the map: beside the file, synced to the disk, then renamed over it, so that
// a reader, also one after a power cut, finds the old map or the new one. Everybody may read
// it (mode 0644): the tablets run as another user, and ids are no secret.
func (m *Map) Write(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("team map: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("team map %s: %w", path, err), ignoreClosed(f.Close()))
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(append(m.header(), m.digest[:]...)); err != nil {
		return err
	}
	if err := m.body(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// syncDir makes the rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Size is the length of the map's file in bytes.
func (m *Map) Size() int64 { return headerSize + int64(len(m.teams))*bytesATeam }

// Shards is on how many legacy shards the teams live.
func (m *Map) Shards() int {
	seen := make(map[uint16]struct{})
	for _, s := range m.shards {
		seen[s] = struct{}{}
	}
	return len(seen)
}
