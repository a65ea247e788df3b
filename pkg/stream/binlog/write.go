package binlog

import (
	"bytes"

	"github.com/vifl/vifl/pkg/stream/transaction"
)

const (
	// keysAtMost and rowsAtMost bound a statement beside its bytes.
	keysAtMost = 1000
	rowsAtMost = 2000
)

// unit is some rows of one table that one connection writes.
type unit struct {
	plan  *plan
	rows  []*netRow
	bytes int
	// counter is written and taken away again; nil for none.
	counter    *netRow
	counterRow transaction.Image
}

// statement collects values up to a statement's bounds.
type statement struct {
	buf         bytes.Buffer
	head, tail  string
	values      int
	most, limit int
	// images are the rows that an INSERT has.
	images []transaction.Image
	exec   execute
}

// execute runs a statement; images are the rows of an INSERT.
type execute func(query string, images []transaction.Image) error

func (s *statement) add(size int, value func(*bytes.Buffer)) error {
	if s.values > 0 && (s.values >= s.most || s.buf.Len()+size+len(s.tail) > s.limit) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.values == 0 {
		s.buf.WriteString(s.head)
	} else {
		s.buf.WriteByte(',')
	}
	s.values++
	value(&s.buf)
	return nil
}

func (s *statement) flush() error {
	if s.values == 0 {
		return nil
	}
	s.buf.WriteString(s.tail)
	err := s.exec(s.buf.String(), s.images)
	s.buf.Reset()
	s.images = s.images[:0]
	s.values = 0
	return err
}

// write brings a unit's rows to what they come to. Deletes come before inserts, so that
// among the rows of the batch nothing is in the way of a unique key: neither a row whose
// value goes to another one (two rows that swap theirs), nor an old spelling of a key.
//
// Where only the primary key is unique, a row that stays is written over. Otherwise it is
// deleted and inserted: INSERT … ON DUPLICATE KEY UPDATE would write over another row, one
// that has the same value of another unique key. A row that was born in the batch is not
// there and need not be deleted, unless the batch is applied a second time.
func (u *unit) write(again bool, limit int, exec execute) error {
	p := u.plan
	remove := &statement{head: p.remove, tail: ")", most: keysAtMost, limit: limit, exec: exec}
	for _, r := range u.rows {
		if r.born && !again || !p.unique && r.image != nil {
			continue
		}
		if err := p.addKey(remove, r.id); err != nil {
			return err
		}
	}
	if err := remove.flush(); err != nil {
		return err
	}
	insert := &statement{head: p.insert, most: rowsAtMost, limit: limit, exec: exec}
	if !p.unique {
		insert.tail = p.onDuplicate
	}
	if u.counter != nil {
		// Here nothing of the batch is in its way, and what the batch does not touch was
		// there beside it on the source.
		if err := p.addRow(insert, u.counterRow); err != nil {
			return err
		}
		if err := insert.flush(); err != nil {
			return err
		}
		if err := p.addKey(remove, u.counterRow); err != nil {
			return err
		}
		if err := remove.flush(); err != nil {
			return err
		}
	}
	for _, r := range u.rows {
		if r.image == nil {
			continue
		}
		if err := p.addRow(insert, r.image); err != nil {
			return err
		}
	}
	return insert.flush()
}

func (p *plan) addKey(s *statement, image transaction.Image) error {
	size := 2
	for n, i := range p.key {
		size += len(image[i]) + len(p.wrap[n][0]) + len(p.wrap[n][1]) + 1
	}
	return s.add(size, func(b *bytes.Buffer) {
		if len(p.key) > 1 {
			b.WriteByte('(')
		}
		for n, i := range p.key {
			if n > 0 {
				b.WriteByte(',')
			}
			b.WriteString(p.wrap[n][0])
			b.Write(image[i])
			b.WriteString(p.wrap[n][1])
		}
		if len(p.key) > 1 {
			b.WriteByte(')')
		}
	})
}

func (p *plan) addRow(s *statement, image transaction.Image) error {
	size := 2
	for _, i := range p.written {
		size += len(image[i]) + 1
	}
	return s.add(size, func(b *bytes.Buffer) {
		s.images = append(s.images, image)
		b.WriteByte('(')
		for n, i := range p.written {
			if n > 0 {
				b.WriteByte(',')
			}
			b.Write(image[i])
		}
		b.WriteByte(')')
	})
}
