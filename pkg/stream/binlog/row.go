package binlog

import "fmt"

// image is one row as it goes to the target: its key as it is in the binlog, and its values
// as literals between brackets, ready for VALUES.
type image struct {
	key   string
	tuple []byte
	// counter is the value of the AUTO_INCREMENT column.
	counter uint64
	// lax: it has a value that strict mode does not take.
	lax bool
}

// read cuts the first row off images and makes an image of it. Without values only the key
// is read.
func (t *table) read(images []byte, values bool, scratch *[]byte) (image, []byte, error) {
	var out image
	nulls := (len(t.cells) + 7) / 8
	if len(images) < nulls {
		return out, nil, fmt.Errorf("table %q: %w", t.Name, errCut)
	}
	null, b := images[:nulls], images[nulls:]
	if values {
		out.tuple = make([]byte, 0, tupleEstimate(len(images)))
		out.tuple = append(out.tuple, '(')
	}
	places := (*scratch)[:0]
	var at [maxKeyColumns][2]int
	start := len(images) - len(b)
	for i := range t.cells {
		c := &t.cells[i]
		isNull := null[i/8]&(1<<(i%8)) != 0
		size := 0
		if !isNull {
			var err error
			if _, size, err = c.size(b); err != nil {
				return out, nil, fmt.Errorf("table %q: column %q: %w", t.Name, t.Columns[i].Name, err)
			}
		}
		for k, col := range t.key {
			if col == i {
				at[k] = [2]int{start, start + size}
			}
		}
		if values && t.written[i] {
			if len(out.tuple) > 1 {
				out.tuple = append(out.tuple, ',')
			}
			if isNull {
				out.tuple = append(out.tuple, "NULL"...)
			} else {
				var err error
				if out.tuple, err = c.literal(out.tuple, b); err != nil {
					return out, nil, fmt.Errorf("table %q: column %q: %w", t.Name, t.Columns[i].Name, err)
				}
				out.lax = out.lax || c.isErrorValue(b)
			}
		}
		if i == t.counter && !isNull && values {
			out.counter = c.integerOf(b)
		}
		b = b[size:]
		start += size
	}
	for k := range t.key {
		places = append(places, images[at[k][0]:at[k][1]]...)
	}
	*scratch = places
	out.key = string(places)
	if values {
		out.tuple = append(out.tuple, ')')
	}
	return out, b, nil
}

// maxKeyColumns is MySQL's limit.
const maxKeyColumns = 16

// tupleEstimate guesses how long a row's literals are. images may hold more rows.
func tupleEstimate(rest int) int { return min(rest*2+32, 256) }

// appendKey appends the condition that finds a row by its key.
func (t *table) appendKey(dst []byte, key string) ([]byte, error) {
	b := []byte(key)
	for n, i := range t.key {
		if n > 0 {
			dst = append(dst, " AND "...)
		}
		c := &t.cells[i]
		dst = appendName(dst, t.Columns[i].Name)
		dst = append(dst, '=')
		_, size, err := c.size(b)
		if err != nil {
			return dst, fmt.Errorf("table %q: its key: %w", t.Name, err)
		}
		if dst, err = c.literal(dst, b); err != nil {
			return dst, fmt.Errorf("table %q: its key: %w", t.Name, err)
		}
		b = b[size:]
	}
	return dst, nil
}

// appendKeyValue appends the literal of a key of one column.
func (t *table) appendKeyValue(dst []byte, key string) ([]byte, error) {
	dst, err := t.cells[t.key[0]].literal(dst, []byte(key))
	if err != nil {
		return dst, fmt.Errorf("table %q: its key: %w", t.Name, err)
	}
	return dst, nil
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, '`')
	for i := range len(name) {
		if name[i] == '`' {
			dst = append(dst, '`')
		}
		dst = append(dst, name[i])
	}
	return append(dst, '`')
}
