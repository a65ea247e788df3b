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
	between     string
	values      int
	most, limit int
	// images are the rows that an INSERT or REPLACE has.
	images []transaction.Image
	// missed judges that so many of a DELETE's rows were not there; nil where they may not be.
	missed func(missing int64) error
	exec   execute
}

// execute runs a statement and returns how many rows it changed; images are the rows of an
// INSERT or REPLACE.
type execute func(query string, images []transaction.Image) (rows int64, err error)

func (s *statement) add(size int, value func(*bytes.Buffer)) error {
	if s.values > 0 && (s.values >= s.most || s.buf.Len()+size+len(s.tail) > s.limit) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.values == 0 {
		s.buf.WriteString(s.head)
	} else {
		s.buf.WriteString(s.between)
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
	rows, err := s.exec(s.buf.String(), s.images)
	if missing := int64(s.values) - rows; err == nil && missing != 0 && s.missed != nil {
		err = s.missed(missing)
	}
	s.buf.Reset()
	s.images = s.images[:0]
	s.values = 0
	return err
}

// write brings a unit's rows to what they come to. Deletes come before inserts, so that
// among the rows of the batch nothing is in the way of a unique key: neither a row whose
// value goes to another one (two rows that swap theirs), nor an old spelling of a key.
//
// Where only the primary key is unique, a row that stays is replaced. Otherwise it is
// deleted and inserted: REPLACE would also take away another row, one that has the same
// value of another unique key. Unless the batch is applied a second time, a row that was born
// in it must not be there, and every other one that is deleted must be.
func (u *unit) write(again bool, limit, rows int, exec execute) error {
	p := u.plan
	remove := p.deletion(limit, exec)
	if !again {
		remove.missed = p.missed
	}
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
	insert := &statement{head: p.insert, between: ",", most: rows, limit: limit, exec: exec}
	replace := &statement{head: p.replace, between: ",", most: rows, limit: limit, exec: exec}
	if u.counter != nil {
		// Here nothing of the batch is in its way, and what the batch does not touch was
		// there beside it on the source.
		s := replace
		if p.unique {
			s = insert
		}
		if err := p.addRow(s, u.counterRow); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
		gone := p.deletion(limit, exec)
		if err := p.addKey(gone, u.counterRow); err != nil {
			return err
		}
		if err := gone.flush(); err != nil {
			return err
		}
	}
	for _, r := range u.rows {
		if r.image == nil {
			continue
		}
		s := replace
		if p.unique || r.born && !again {
			s = insert
		}
		if err := p.addRow(s, r.image); err != nil {
			return err
		}
	}
	if err := insert.flush(); err != nil {
		return err
	}
	return replace.flush()
}

func (p *plan) deletion(limit int, exec execute) *statement {
	return &statement{head: p.remove, between: p.between, tail: p.behind, most: keysAtMost, limit: limit, exec: exec}
}

// missed is the error for rows that the source changed and the target does not have.
func (p *plan) missed(missing int64) error {
	if missing < 0 {
		return final("table %s: %d rows more were deleted than were meant: its keys are not those of the source; seed the landing again", p.table.Name, -missing)
	}
	return final("table %s: the target lacks %d rows that the source deleted or changed: it was not equal to the source before, or somebody writes to it; seed the landing again", p.table.Name, missing)
}

func (p *plan) addKey(s *statement, image transaction.Image) error {
	size := 2 + len(p.between)
	for n, i := range p.key {
		size += len(image[i]) + len(p.wrap[n][0]) + len(p.wrap[n][1]) + 1
	}
	for _, name := range p.names {
		size += len(name) + len(" AND ")
	}
	return s.add(size, func(b *bytes.Buffer) {
		if len(p.key) > 1 {
			b.WriteByte('(')
		}
		for n, i := range p.key {
			switch {
			case n > 0 && p.names != nil:
				b.WriteString(" AND ")
			case n > 0:
				b.WriteByte(',')
			}
			if p.names != nil {
				b.WriteString(p.names[n])
				b.WriteByte('=')
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
