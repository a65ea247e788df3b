package vindexes

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"vitess.io/vitess/go/vt/log"
	"vitess.io/vitess/go/vt/vterrors"

	vtrpcpb "vitess.io/vitess/go/vt/proto/vtrpc"

	"github.com/vifl/vifl/pkg/teammap"
)

const (
	// checkEvery is how often a team map's file is looked at for a change. It is one stat.
	checkEvery = time.Second
	// checkAfterFailure is that after a file that could not be read: a damaged one of ten
	// million teams takes the better part of a second to find out.
	checkAfterFailure = 10 * time.Second
)

// teamFile is a team map's file, and the map that was last read from it. A new file is read
// beside the queries, which go on with the old map; a new one that is damaged or gone leaves
// the old map in use, and is counted and logged.
type teamFile struct {
	path string
	made time.Time

	current  atomic.Pointer[loadedMap]
	nextLook atomic.Int64 // since made

	mu      sync.Mutex
	loading *loading
}

// loadedMap is a map and the file it was read from, by which a change is noticed.
type loadedMap struct {
	*teammap.Map
	info os.FileInfo
}

// loading is one reading of the file.
type loading struct {
	done chan struct{}
	err  error
}

// teamFiles are the files in use, by path. A map of ten million teams takes 100 MB, so all
// vindexes of a process share it; there are as many as vschemas name, which is few.
var teamFiles = struct {
	sync.Mutex
	byPath map[string]*teamFile
}{byPath: map[string]*teamFile{}}

func teamFileAt(path string) *teamFile {
	teamFiles.Lock()
	defer teamFiles.Unlock()
	f, ok := teamFiles.byPath[path]
	if !ok {
		f = &teamFile{path: path, made: time.Now()}
		teamFiles.byPath[path] = f
	}
	return f
}

// get is the map. Only the first caller and those beside it wait for the file, and get the
// error when it cannot be read; the next tries again.
func (f *teamFile) get(ctx context.Context) (*teammap.Map, error) {
	now := time.Since(f.made)
	if m := f.current.Load(); m != nil {
		if next := f.nextLook.Load(); int64(now) >= next && f.nextLook.CompareAndSwap(next, int64(now+checkEvery)) {
			info, err := os.Stat(f.path)
			switch {
			case err != nil:
				f.failed(err)
			case !same(info, m.info):
				f.load()
			}
		}
		return m.Map, nil
	}
	l := f.load()
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, vterrors.Wrapf(ctx.Err(), "reading the team map %s", f.path)
	}
	if m := f.current.Load(); m != nil {
		return m.Map, nil
	}
	return nil, vterrors.Errorf(vtrpcpb.Code_UNAVAILABLE, "%v", l.err)
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// load begins to read the file, unless somebody does.
func (f *teamFile) load() *loading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loading != nil {
		return f.loading
	}
	l := &loading{done: make(chan struct{})}
	f.loading = l
	go func() {
		m, err := f.read()
		if err != nil {
			l.err = err
			f.failed(err)
		} else {
			f.current.Store(m)
			f.nextLook.Store(int64(time.Since(f.made) + checkEvery))
			mapTeams.Set([]string{f.path}, int64(m.Count()))
			mapCreated.Set([]string{f.path}, m.Created().Unix())
			mapLoads.Add([]string{f.path, "loaded"}, 1)
			log.Info(fmt.Sprintf("team map %s: %d teams, digest %s, of %s", f.path, m.Count(), m.Digest(), m.Created().Format(time.RFC3339)))
		}
		f.mu.Lock()
		f.loading = nil
		f.mu.Unlock()
		close(l.done)
	}()
	return l
}

func (f *teamFile) read() (*loadedMap, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("team map: %w: write it with vifl mains export", err)
	}
	defer file.Close()
	// Of the open file: the name may stand for another one by the time it is read.
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("team map: %w", err)
	}
	m, err := teammap.ReadFrom(file)
	if err != nil {
		return nil, err
	}
	return &loadedMap{Map: m, info: info}, nil
}

func (f *teamFile) failed(err error) {
	f.nextLook.Store(int64(time.Since(f.made) + checkAfterFailure))
	mapLoads.Add([]string{f.path, "failed"}, 1)
	log.Error(fmt.Sprintf("team map %s cannot be read (a map that was read before stays in use): %v", f.path, err))
}
