package transaction

import "fmt"

// bytesOfDigits is how many bytes fewer than nine digits take; nine take four.
var bytesOfDigits = [...]int{0, 1, 1, 2, 2, 3, 3, 4, 4}

func decimalSize(precision, scale int) int {
	whole := precision - scale
	if whole < 0 {
		return 0
	}
	return whole/9*4 + bytesOfDigits[whole%9] + scale/9*4 + bytesOfDigits[scale%9]
}

// appendDecimal appends a DECIMAL with all of its fraction's digits. Both sides of the point
// are groups of nine digits in four bytes, big end first, with what is left over at the
// outer ends; the first bit is turned over, and of a negative number every bit.
func appendDecimal(dst, v []byte, precision, scale int) ([]byte, error) {
	if precision < scale || precision == 0 || len(v) != decimalSize(precision, scale) {
		return dst, fmt.Errorf("a DECIMAL(%d,%d) in %d bytes", precision, scale, len(v))
	}
	var flip byte
	if v[0]&0x80 == 0 {
		flip = 0xff
		dst = append(dst, '-')
	}
	at := 0
	group := func(digits int) int {
		size := 4
		if digits < 9 {
			size = bytesOfDigits[digits]
		}
		n := 0
		for range size {
			b := v[at] ^ flip
			if at == 0 {
				b ^= 0x80
			}
			n = n<<8 | int(b)
			at++
		}
		return n
	}
	whole, started := precision-scale, false
	digits := func(n, width int) {
		switch {
		case started:
			dst = appendPadded(dst, n, width)
		case n > 0:
			dst = appendPadded(dst, n, 1)
			started = true
		}
	}
	if whole%9 > 0 {
		digits(group(whole%9), whole%9)
	}
	for range whole / 9 {
		digits(group(9), 9)
	}
	if !started {
		dst = append(dst, '0')
	}
	if scale == 0 {
		return dst, nil
	}
	dst = append(dst, '.')
	for range scale / 9 {
		dst = appendPadded(dst, group(9), 9)
	}
	if scale%9 > 0 {
		dst = appendPadded(dst, group(scale%9), scale%9)
	}
	return dst, nil
}
