package transaction

import (
	"fmt"
	"time"
)

// fractionBytes is how many bytes fractional digits take: two digits a byte.
func fractionBytes(digits uint16) int { return (int(digits) + 1) / 2 }

func appendPadded(dst []byte, n, width int) []byte {
	var b [12]byte
	i := len(b)
	for ; n > 0 || width > 0; width-- {
		i--
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, b[i:]...)
}

func appendDate(dst []byte, year, month, day int) []byte {
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, month, 2), '-')
	return appendPadded(dst, day, 2)
}

func appendClock(dst []byte, hour, minute, second int) []byte {
	dst = append(appendPadded(dst, hour, 2), ':')
	dst = append(appendPadded(dst, minute, 2), ':')
	return appendPadded(dst, second, 2)
}

// appendFraction appends the first digits of microseconds.
func appendFraction(dst []byte, micros, digits int) []byte {
	if digits == 0 {
		return dst
	}
	for range 6 - digits {
		micros /= 10
	}
	return appendPadded(append(dst, '.'), micros, digits)
}

// packed reads a temporal value: n bytes with the sign turned over, big end first, then the
// fraction, which counts down when the value is negative. The result has 24 bits of
// microseconds at its end.
func packed(v []byte, n int, digits int) (int64, error) {
	if digits < 0 || digits > 6 || len(v) != n+fractionBytes(uint16(digits)) {
		return 0, fmt.Errorf("a time with %d digits in %d bytes", digits, len(v))
	}
	var whole, fraction int64
	for _, b := range v[:n] {
		whole = whole<<8 | int64(b)
	}
	whole -= 1 << (8*n - 1)
	for _, b := range v[n:] {
		fraction = fraction<<8 | int64(b)
	}
	if f := len(v) - n; whole < 0 && fraction != 0 {
		whole++
		fraction -= 1 << (8 * f)
	}
	for i := len(v) - n; i > 0 && i < 3; i++ {
		fraction *= 100
	}
	return whole<<24 + fraction, nil
}

func appendDatetime(dst, v []byte, digits int) ([]byte, error) {
	p, err := packed(v, 5, digits)
	if err != nil {
		return dst, err
	}
	return appendPackedDatetime(dst, p, digits), nil
}

func appendPackedDatetime(dst []byte, p int64, digits int) []byte {
	micros, hms, ymd := int(p&(1<<24-1)), int(p>>24&(1<<17-1)), int(p>>41)
	month := ymd >> 5
	dst = append(appendDate(dst, month/13, month%13, ymd&31), ' ')
	dst = appendClock(dst, hms>>12, hms>>6&63, hms&63)
	return appendFraction(dst, micros, digits)
}

func appendTime(dst, v []byte, digits int) ([]byte, error) {
	p, err := packed(v, 3, digits)
	if err != nil {
		return dst, err
	}
	return appendPackedTime(dst, p, digits), nil
}

func appendPackedTime(dst []byte, p int64, digits int) []byte {
	if p < 0 {
		dst, p = append(dst, '-'), -p
	}
	micros, hms := int(p&(1<<24-1)), int(p>>24)
	dst = appendClock(dst, hms>>12&1023, hms>>6&63, hms&63)
	return appendFraction(dst, micros, digits)
}

func appendTimestamp(dst, v []byte, digits int) ([]byte, error) {
	if len(v) < 4 {
		return dst, errCut
	}
	seconds := int64(v[0])<<24 | int64(v[1])<<16 | int64(v[2])<<8 | int64(v[3])
	micros := 0
	for _, b := range v[4:] {
		micros = micros<<8 | int(b)
	}
	for i := len(v) - 4; i > 0 && i < 3; i++ {
		micros *= 100
	}
	if seconds == 0 && micros == 0 {
		dst = append(dst, "0000-00-00 00:00:00"...)
	} else {
		t := time.Unix(seconds, 0).UTC()
		year, month, day := t.Date()
		dst = append(appendDate(dst, year, int(month), day), ' ')
		hour, minute, second := t.Clock()
		dst = appendClock(dst, hour, minute, second)
	}
	return appendFraction(dst, micros, digits), nil
}
