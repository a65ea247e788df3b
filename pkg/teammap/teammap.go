// Package teammap owns the team map: a file that says on which legacy shard each team lives,
// and its compact form in memory. vifl mains export writes it; the vindex legacy_shard reads
// it where mains cannot be asked (in tablets, which have no vtgate to ask through).
//
// It does not own where the teams come from (mains) nor when a file is read again (vindexes).
//
// Invariants:
//   - A reader sees a whole map or none: files are written beside, synced, and renamed.
//   - A map that was cut short, changed, or written by a version this one does not know is
//     an error. A team that a damaged map has lost would look like a team that never was.
//   - A team is in a map once.
//
// The file, all numbers big-endian:
//
//	offset  bytes
//	0       8      "viflteam"
//	8       4      version, 1
//	12      4      length of this header, 64
//	16      8      number of teams, n
//	24      8      when mains was read, in milliseconds since 1970 (UTC)
//	32      32     SHA-256 of bytes 0 to 31 and of everything from 64 on
//	64      8n     ids of the teams, ascending
//	64+8n   2n     numbers of their legacy shards, in the same order
package teammap

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"math/bits"
	"os"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
)

const (
	magic       = "viflteam"
	headerSize  = 64
	digestAt    = 32
	bytesATeam  = 8 + 2
	teamsABlock = 32 // teams in a block of the index, on average: six steps of a search
)

// Version is the version of the format that this package writes, and the only one it reads.
const Version = 1

// ErrDamaged: the file is no whole team map of a known version.
var ErrDamaged = errors.New("not a whole team map")

// Map is a team map in memory: ten bytes a team and one eighth of a byte for the index. It
// never changes, so any number of goroutines may read it.
type Map struct {
	teams  []uint64
	shards []uint16
	// blocks[k] is the first place in teams whose id minus the least one is k<<shift or more.
	blocks  []uint32
	shift   uint
	created time.Time
	digest  [sha256.Size]byte
}

// Count is the number of teams.
func (m *Map) Count() int { return len(m.teams) }

// Created is when mains was read.
func (m *Map) Created() time.Time { return m.created }

// Digest is the SHA-256 of the map in hex: equal digests, equal maps read at the same time.
func (m *Map) Digest() string { return hex.EncodeToString(m.digest[:]) }

// Lookup is the legacy shard that a team lives on; false when the map does not know the team.
func (m *Map) Lookup(team uint64) (shardid.ID, bool) {
	if len(m.teams) == 0 || team < m.teams[0] || team > m.teams[len(m.teams)-1] {
		return 0, false
	}
	block := (team - m.teams[0]) >> m.shift
	low, high := int(m.blocks[block]), int(m.blocks[block+1])
	for low < high {
		middle := int(uint(low+high) >> 1)
		if m.teams[middle] < team {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(m.teams) || m.teams[low] != team {
		return 0, false
	}
	return shardid.ID(m.shards[low]), true
}

// index builds the blocks over the sorted ids.
func (m *Map) index() {
	if len(m.teams) == 0 {
		return
	}
	span := m.teams[len(m.teams)-1] - m.teams[0]
	want := uint64(len(m.teams)/teamsABlock + 1)
	m.shift = 0
	if over := bits.Len64(span) - bits.Len64(want); over > 0 {
		m.shift = uint(over)
	}
	count := span>>m.shift + 1
	m.blocks = make([]uint32, count+1)
	block := uint64(0)
	for i, team := range m.teams {
		for ; block <= (team-m.teams[0])>>m.shift; block++ {
			m.blocks[block] = uint32(i)
		}
	}
	for ; block <= count; block++ {
		m.blocks[block] = uint32(len(m.teams))
	}
}

// Read reads a map from a file. A map that is not whole, or whose digest is another, is
// ErrDamaged.
func Read(path string) (*Map, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("team map: %w", err)
	}
	defer f.Close()
	return ReadFrom(f)
}

// ReadFrom is Read of an open file, for callers that must know which file they read.
func ReadFrom(f *os.File) (*Map, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("team map %s: "+format+": %w: write it again with vifl mains export", append(append([]any{f.Name()}, args...), ErrDamaged)...)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("team map %s: %w", f.Name(), err)
	}
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(f, header); err != nil {
		return nil, fail("found %d bytes, expected a header of %d", info.Size(), headerSize)
	}
	if string(header[:8]) != magic {
		return nil, fail("it begins with %q, expected %q", header[:8], magic)
	}
	if v := binary.BigEndian.Uint32(header[8:]); v != Version || binary.BigEndian.Uint32(header[12:]) != headerSize {
		return nil, fail("found version %d, expected %d", v, Version)
	}
	count := binary.BigEndian.Uint64(header[16:])
	// Before anything is allocated: a damaged count must not ask for all memory.
	if count > math.MaxUint32 || uint64(info.Size()) != headerSize+count*bytesATeam {
		return nil, fail("found %d bytes, expected those of %d teams", info.Size(), count)
	}
	m := &Map{
		teams: make([]uint64, count), shards: make([]uint16, count),
		created: time.UnixMilli(int64(binary.BigEndian.Uint64(header[24:]))).UTC(),
	}
	sum := sha256.New()
	sum.Write(header[:digestAt])
	chunk := make([]byte, 1<<16)
	err = chunks(f, sum, chunk, len(m.teams), 8, func(i int, b []byte) { m.teams[i] = binary.BigEndian.Uint64(b) })
	if err == nil {
		err = chunks(f, sum, chunk, len(m.shards), 2, func(i int, b []byte) { m.shards[i] = binary.BigEndian.Uint16(b) })
	}
	if err != nil {
		return nil, fmt.Errorf("team map %s: %w", f.Name(), err)
	}
	sum.Sum(m.digest[:0])
	if string(m.digest[:]) != string(header[digestAt:headerSize]) {
		return nil, fail("its digest is %s, its header says %x", m.Digest(), header[digestAt:headerSize])
	}
	for i := 1; i < len(m.teams); i++ {
		if m.teams[i-1] >= m.teams[i] {
			return nil, fail("team %d comes behind team %d", m.teams[i], m.teams[i-1])
		}
	}
	m.index()
	return m, nil
}

// chunks reads n values of a size and adds them to the sum.
func chunks(in io.Reader, sum hash.Hash, buf []byte, n, size int, each func(i int, b []byte)) error {
	for i := 0; i < n; {
		part := buf[:min(len(buf), (n-i)*size)]
		if _, err := io.ReadFull(in, part); err != nil {
			return err
		}
		sum.Write(part)
		for ; len(part) > 0; part = part[size:] {
			each(i, part)
			i++
		}
	}
	return nil
}
