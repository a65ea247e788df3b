package binlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// netRow is what a batch comes to for one primary key.
type netRow struct {
	// id has the key's values in it.
	id    transaction.Image
	image transaction.Image // nil: there is no such row in the end
	// born says that there was no such row when the batch began.
	born  bool
	bytes int
}

// netTable is what a batch comes to for one table. Keys are told apart by their values'
// bytes. Where the server takes two spellings for one key, a batch that goes from one to
// the other holds both: the old one as gone, since that is written first.
type netTable struct {
	plan *plan
	rows []*netRow
	by   map[string]*netRow
	// swallowed is the row that had the greatest AUTO_INCREMENT value, if it is not there
	// in the end; auto is that value.
	auto   uint64
	oldest *netRow
	image  transaction.Image
}

// net is what a batch comes to.
type net struct {
	tables []*netTable
	by     map[*schema.Table]*netTable
	rows   int
	plan   func(*schema.Table) (*plan, error)
	key    []byte
	// room is memory for the next rows: many at once cost less than each by itself.
	room []netRow
}

// roomForRows is of how many rows the memory is made at once.
const roomForRows = 64

func newNet(plan func(*schema.Table) (*plan, error)) *net {
	return &net{by: map[*schema.Table]*netTable{}, plan: plan}
}

// add takes in the next change.
func (n *net) add(c *transaction.Change) error {
	t := n.by[c.Table]
	if t == nil {
		var err error
		if t, err = n.table(c.Table); err != nil {
			return err
		}
	}
	var before *netRow
	if c.Before != nil {
		r, err := n.row(t, c.Before, false)
		if err != nil {
			return err
		}
		before = r
	}
	if c.After == nil {
		before.image, before.bytes = nil, 0
		return nil
	}
	r, err := n.row(t, c.After, true)
	if err != nil {
		return err
	}
	if before != nil && before != r {
		before.image, before.bytes = nil, 0
	}
	r.id, r.image, r.bytes = c.After, c.After, 0
	for _, v := range c.After {
		r.bytes += len(v) + 1
	}
	t.count(r)
	return nil
}

// table is the entry of a table. A change that was prepared before the reader's connection broke, and
// committed behind that, has the table as it was read then: another Table, and the same table. Taken
// for two, its changes would be written behind what came later.
func (n *net) table(of *schema.Table) (*netTable, error) {
	for _, t := range n.tables {
		if t.plan.table.Name != of.Name {
			continue
		}
		if !sameRows(t.plan.table, of) {
			return nil, fmt.Errorf("table %s: it was changed on the target while the stream ran: seed the landing again", of.Name)
		}
		n.by[of] = t
		return t, nil
	}
	p, err := n.plan(of)
	if err != nil {
		return nil, err
	}
	t := &netTable{plan: p, by: map[string]*netRow{}}
	n.by[of] = t
	n.tables = append(n.tables, t)
	return t, nil
}

// sameRows says that rows of one are written as rows of the other. Estimates and counters differ from one
// reading to the next.
func sameRows(a, b *schema.Table) bool {
	_, keyA := a.RowKey()
	_, keyB := b.RowKey()
	return reflect.DeepEqual(a.Columns, b.Columns) && reflect.DeepEqual(keyA, keyB)
}

// row is the entry of the key that an image has.
func (n *net) row(t *netTable, image transaction.Image, born bool) (*netRow, error) {
	if len(image) != len(t.plan.table.Columns) {
		return nil, fmt.Errorf("table %s: a row of %d columns, expected %d", t.plan.table.Name, len(image), len(t.plan.table.Columns))
	}
	n.key = n.key[:0]
	for _, i := range t.plan.key {
		if image[i] == nil {
			return nil, fmt.Errorf("table %s: a row without a value of its key's column %d", t.plan.table.Name, i+1)
		}
		n.key = binary.AppendUvarint(n.key, uint64(len(image[i])))
		n.key = append(n.key, image[i]...)
	}
	if r := t.by[string(n.key)]; r != nil {
		return r, nil
	}
	if len(n.room) == 0 {
		n.room = make([]netRow, roomForRows)
	}
	r := &n.room[0]
	n.room = n.room[1:]
	*r = netRow{id: image, born: born}
	t.by[string(n.key)] = r
	t.rows = append(t.rows, r)
	n.rows++
	return r, nil
}

// sort puts the rows in the order of their keys, which are numbers. Several writers of the
// source mix theirs: in the order in which they came, connections would want the same pages
// at a time, and split them in the middle.
func (t *netTable) sort() {
	slices.SortFunc(t.rows, func(a, b *netRow) int {
		for _, i := range t.plan.key {
			if c := compareIntegers(a.id[i], b.id[i]); c != 0 {
				return c
			}
		}
		return 0
	})
}

// compareIntegers compares literals as the numbers that they are.
func compareIntegers(a, b []byte) int {
	negative := a[0] == '-'
	if negative != (b[0] == '-') {
		if negative {
			return -1
		}
		return 1
	}
	c := cmp.Compare(len(a), len(b))
	if c == 0 {
		c = bytes.Compare(a, b)
	}
	if negative {
		return -c
	}
	return c
}

// count notes the greatest value of the AUTO_INCREMENT column, and whose it is.
func (t *netTable) count(r *netRow) {
	if t.plan.auto < 0 {
		return
	}
	v, err := strconv.ParseUint(string(r.image[t.plan.auto]), 10, 64)
	if err == nil && v > t.auto { // a negative one does not count
		t.auto, t.oldest, t.image = v, r, r.image
	}
}

// swallowed is the row that must be written and taken away again for the counter's sake;
// nil for none.
//
// A row that a batch both inserts and deletes comes to nothing, but the source's counter
// has moved. Writing and deleting it in the same transaction moves the target's, and those
// of the target's replicas, which only see the binlog: an insert that is rolled back would
// not reach them. ALTER TABLE … AUTO_INCREMENT would commit the transaction in its midst,
// and wait for, and then block, everybody who uses the table.
func (t *netTable) swallowed() (*netRow, transaction.Image) {
	if t.oldest == nil || t.oldest.image != nil && string(t.oldest.image[t.plan.auto]) == strconv.FormatUint(t.auto, 10) {
		return nil, nil
	}
	return t.oldest, t.image
}
