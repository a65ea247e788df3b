package binlog

import (
	"github.com/vifl/vifl/pkg/stream/transaction"
)

const (
	// keysAtMost and rowsAtMost bound a statement beside its bytes. The server makes an
	// object of each value before it stores the first: those of more rows are not in its
	// processor's cache any more when it comes to them.
	keysAtMost = 1000
	rowsAtMost = 500
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
	buf         []byte
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

// begin makes the statement ready for a value of that size, to be appended to buf.
func (s *statement) begin(size int) error {
	if s.values > 0 && (s.values >= s.most || len(s.buf)+size+len(s.tail) > s.limit) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.values == 0 {
		s.buf = append(s.buf, s.head...)
	} else {
		s.buf = append(s.buf, s.between...)
	}
	s.values++
	return nil
}

func (s *statement) flush() error {
	if s.values == 0 {
		return nil
	}
	s.buf = append(s.buf, s.tail...)
	rows, err := s.exec(string(s.buf), s.images)
	if missing := int64(s.values) - rows; err == nil && missing != 0 && s.missed != nil {
		err = s.missed(missing)
	}
	s.buf = s.buf[:0]
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
	if err := s.begin(size); err != nil {
		return err
	}
	b := s.buf
	if len(p.key) > 1 {
		b = append(b, '(')
	}
	for n, i := range p.key {
		switch {
		case n > 0 && p.names != nil:
			b = append(b, " AND "...)
		case n > 0:
			b = append(b, ',')
		}
		if p.names != nil {
			b = append(b, p.names[n]...)
			b = append(b, '=')
		}
		b = append(b, p.wrap[n][0]...)
		b = append(b, image[i]...)
		b = append(b, p.wrap[n][1]...)
	}
	if len(p.key) > 1 {
		b = append(b, ')')
	}
	s.buf = b
	return nil
}

func (p *plan) addRow(s *statement, image transaction.Image) error {
	size := 2
	for _, i := range p.written {
		size += len(image[i]) + 1
	}
	if err := s.begin(size); err != nil {
		return err
	}
	s.images = append(s.images, image)
	b := append(s.buf, '(')
	for n, i := range p.written {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, image[i]...)
	}
	s.buf = append(b, ')')
	return nil
}
