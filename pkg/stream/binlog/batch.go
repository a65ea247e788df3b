package binlog

import (
	"time"

	"github.com/vifl/vifl/pkg/position"
)

// Kinds of changes.
const (
	opInsert = iota
	opUpdate
	opDelete
)

// change is one row's change. before has the key only.
type change struct {
	t             *table
	op            byte
	before, after image
}

// overhead is about what a change takes beside its texts.
const overhead = 200

func (c *change) bytes() int {
	return overhead + len(c.before.key) + len(c.after.key) + cap(c.after.tuple)
}

// batch is what one or more transactions change in the end: for each key that they touched,
// the last image of its row, or that there is none.
//
// Keys are told apart by their bytes. For the server two keys with other bytes may be one
// ('A' and 'a'): at most one of them has a row at the end, and the others are deleted before
// that one is written.
type batch struct {
	tables []*rows
	byName map[string]*rows
	rows   int
	bytes  int

	// end is where the last transaction ends; zero for a piece of one that goes on.
	end       position.FilePos
	committed time.Time // of the last transaction
	// readFrom is where reading must begin after a restart: before end when a transaction
	// of two phases is prepared and not decided.
	readFrom position.FilePos
	born     uint32 // when end's file was begun, by the source's clock
	// piece marks a part of a transaction that is too large for one batch; its last part
	// has an end.
	piece bool
	// void tells that the pieces before are to be rolled back.
	void bool
}

// rows are a batch's changes of one table.
type rows struct {
	t       *table
	entries []entry
	at      map[string]int
	// high is the inserted row with the highest AUTO_INCREMENT value.
	high image
}

// entry is a key that was touched.
type entry struct {
	key   string
	tuple []byte // nil: there is no row
	// fresh: the batch itself made the row, so that there was none before.
	fresh bool
	lax   bool
	// counter is the AUTO_INCREMENT value.
	counter uint64
}

func newBatch() *batch { return &batch{byName: map[string]*rows{}} }

func (b *batch) of(t *table) *rows {
	r := b.byName[t.Name]
	if r == nil {
		r = &rows{t: t, at: map[string]int{}}
		b.byName[t.Name] = r
		b.tables = append(b.tables, r)
	}
	r.t = t // another file may have another metadata of the same columns
	return r
}

// add nets the changes of a transaction, or of a part of one, into the batch.
func (b *batch) add(changes []change) {
	for i := range changes {
		c := &changes[i]
		r := b.of(c.t)
		switch {
		case c.op == opInsert:
			r.write(&c.after, true)
		case c.op == opDelete:
			r.remove(c.before.key)
		case c.before.key == c.after.key:
			r.write(&c.after, false)
		default: // the key moved
			r.remove(c.before.key)
			r.write(&c.after, true)
		}
		b.rows++
		b.bytes += c.bytes()
	}
}

func (r *rows) write(img *image, made bool) {
	i, ok := r.at[img.key]
	if !ok {
		i = len(r.entries)
		r.at[img.key] = i
		r.entries = append(r.entries, entry{key: img.key, fresh: made})
	}
	e := &r.entries[i]
	e.tuple, e.lax, e.counter = img.tuple, img.lax, img.counter
	if made && img.counter > r.high.counter {
		r.high = *img
	}
}

func (r *rows) remove(key string) {
	if i, ok := r.at[key]; ok {
		r.entries[i].tuple = nil
		return
	}
	r.at[key] = len(r.entries)
	r.entries = append(r.entries, entry{key: key})
}

// swallowed is the row with the highest AUTO_INCREMENT value that was made, when no row with
// that value is left at the end: its value is used up all the same.
func (r *rows) swallowed() (image, bool) {
	if r.high.counter == 0 {
		return image{}, false
	}
	for i := range r.entries {
		if e := &r.entries[i]; e.tuple != nil && e.counter >= r.high.counter {
			return image{}, false
		}
	}
	return r.high, true
}
