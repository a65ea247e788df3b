package binlog

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

const (
	// statementBytes is about how long a statement gets; longer ones are no faster.
	statementBytes = 1 << 20
	statementRows  = 1000
	// keysAtOnce bounds the keys of one DELETE: past the optimizer's memory for ranges
	// (8 MB) the server would read the whole table, and lock it.
	keysAtOnce     = 1000
	longKeysAtOnce = 200 // of several columns
)

const (
	// strictMode takes every value that can be stored: zero dates, and dates that are none.
	strictMode = "STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
	laxMode    = "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"
	laxHint    = "/*+ SET_VAR(sql_mode='" + laxMode + "') */ "
)

// writer makes statements of a table's entries and runs them.
type writer struct {
	exec func(sql []byte) error
	// packet is the target's max_allowed_packet.
	packet int
	// again: what is written may have been written before, and more than it.
	again bool
	buf   []byte
}

// write brings the table's keys to their last image. Rows go before rows come: values of
// unique keys wander between rows, and a key may come back in another spelling.
//
// counted says that the table's AUTO_INCREMENT values are this call's concern: entries may
// be some of the table's.
func (w *writer) write(r *rows, entries []entry, counted bool) error {
	if err := w.deletes(r.t, entries); err != nil {
		return err
	}
	if high, ok := r.swallowed(); ok && counted {
		if err := w.useUp(r.t, high); err != nil {
			return err
		}
	}
	return w.inserts(r.t, entries)
}

// gone reports whether the entry's key must be deleted first.
func (w *writer) gone(t *table, e *entry) bool {
	if e.fresh && !w.again {
		return false
	}
	return e.tuple == nil || t.anew
}

func (w *writer) deletes(t *table, entries []entry) error {
	n, most := 0, keysAtOnce
	if len(t.key) > 1 {
		most = longKeysAtOnce
	}
	flush := func() error {
		if n == 0 {
			return nil
		}
		n = 0
		if len(t.key) == 1 {
			w.buf = append(w.buf, ')')
		}
		return w.run(t, "delete")
	}
	for i := range entries {
		e := &entries[i]
		if !w.gone(t, e) {
			continue
		}
		if n == most || len(w.buf) > w.limit() {
			if err := flush(); err != nil {
				return err
			}
		}
		var err error
		switch {
		case len(t.key) > 1:
			if n == 0 {
				w.buf = append(w.buf[:0], "DELETE FROM "+t.qualified+" WHERE ("...)
			} else {
				w.buf = append(w.buf, " OR ("...)
			}
			w.buf, err = t.appendKey(w.buf, e.key)
			w.buf = append(w.buf, ')')
		default:
			if n == 0 {
				w.buf = append(w.buf[:0], "DELETE FROM "+t.qualified+" WHERE "...)
				w.buf = append(appendName(w.buf, t.Columns[t.key[0]].Name), " IN ("...)
			} else {
				w.buf = append(w.buf, ',')
			}
			w.buf, err = t.appendKeyValue(w.buf, e.key)
		}
		if err != nil {
			return err
		}
		n++
	}
	return flush()
}

func (w *writer) limit() int { return min(statementBytes, w.packet/2) }

func (w *writer) begin(t *table, lax bool) {
	verb := "INSERT "
	if t.unique && w.again {
		verb = "REPLACE "
	}
	w.buf = append(w.buf[:0], verb...)
	if lax {
		w.buf = append(w.buf, laxHint...)
	}
	w.buf = append(w.buf, "INTO "+t.qualified+" ("+t.columns+") VALUES "...)
}

// end closes an INSERT. With another unique key a row that is in the way is an error, as it
// was deleted if it was known; without one the key's row is replaced, in its spelling too.
func (w *writer) end(t *table) {
	if !t.unique {
		w.buf = append(w.buf, " AS n ON DUPLICATE KEY UPDATE "+t.assign...)
	}
}

func (w *writer) inserts(t *table, entries []entry) error {
	for i := 0; i < len(entries); {
		n, lax, j := 0, false, i
		for size := 0; j < len(entries) && n < statementRows && (n == 0 || size < w.limit()); j++ {
			if e := &entries[j]; e.tuple != nil {
				size += len(e.tuple) + 1
				if n > 0 && size > w.packet/2 {
					break
				}
				n++
				lax = lax || e.lax
			}
		}
		if n > 0 {
			w.begin(t, lax)
			comma := false
			for k := i; k < j; k++ {
				if entries[k].tuple == nil {
					continue
				}
				if comma {
					w.buf = append(w.buf, ',')
				}
				comma = true
				w.buf = append(w.buf, entries[k].tuple...)
			}
			w.end(t)
			if err := w.run(t, "write"); err != nil {
				return err
			}
		}
		i = j
	}
	return nil
}

// useUp makes a row and deletes it again, so that its AUTO_INCREMENT value is used up here
// too. Both are in the batch's transaction; ALTER TABLE … AUTO_INCREMENT would end that, and
// wait for everybody who reads the table. The row is in nobody's way: it was in the table
// together with every row that the batch has not touched, and the touched ones are deleted.
func (w *writer) useUp(t *table, row image) error {
	w.begin(t, row.lax)
	w.buf = append(w.buf, row.tuple...)
	w.end(t)
	if err := w.run(t, "write"); err != nil {
		return err
	}
	w.buf = append(w.buf[:0], "DELETE FROM "+t.qualified+" WHERE "...)
	var err error
	if w.buf, err = t.appendKey(w.buf, row.key); err != nil {
		return err
	}
	return w.run(t, "delete")
}

func (w *writer) run(t *table, what string) error {
	// The packet has a head, and the server wants some room.
	if len(w.buf)+64 > w.packet {
		return finalError{fmt.Errorf("table %q: a row takes a statement of %d bytes, and max_allowed_packet of the target is %d: raise it there (SET PERSIST max_allowed_packet), then resume", t.Name, len(w.buf), w.packet)}
	}
	if err := w.exec(w.buf); err != nil {
		err = fmt.Errorf("table %q: %s rows: %w", t.Name, what, scrub(err))
		if isValueError(err) {
			return finalError{err}
		}
		return err
	}
	if cap(w.buf) > 4*statementBytes {
		w.buf = nil
	}
	return nil
}

// isValueError reports an error of the server that the same rows would meet again.
func isValueError(err error) bool {
	switch n := mysqlconn.Number(err); {
	case n == 0, n == 1290, n == 1836, n == 3032, n == 1205, n == 1213, n == 1317, n == 3024, n == 3100, n == 1053, n == 1927:
		return false
	case n == 1040 || n == 1129 || n == 1021 || n == 1114 || n == 3675 || n == 1206 || n == 1180 || n == 1026 || n == 1028 || n == 1037 || n == 1038 || n == 1041:
		return false // too many connections, disk or memory full
	case n == 4031: // closed because it was idle
		return false
	}
	return true
}

// scrubbed is an error of the server without the values it quotes.
type scrubbed struct {
	text string
	err  error
}

func (s scrubbed) Error() string { return s.text }
func (s scrubbed) Unwrap() error { return s.err }

// scrub cuts from the server's message what may be a row's data or a statement.
func scrub(err error) error {
	text := err.Error()
	for _, mark := range []string{"Duplicate entry '", "Incorrect ", " near '", "value: '", "Data too long", "Invalid JSON text", "Cannot "} {
		i := strings.Index(text, mark)
		if i < 0 {
			continue
		}
		rest := ""
		// What the server says about names comes last.
		for _, name := range []string{" for key ", " for column "} {
			if k := strings.LastIndex(text, name); k > i {
				rest = text[k:]
			}
		}
		text = text[:i] + strings.TrimRight(mark, " '") + " …" + rest
	}
	if len(text) > 400 {
		text = strings.ToValidUTF8(text[:400], "") + " …"
	}
	return scrubbed{text, err}
}
