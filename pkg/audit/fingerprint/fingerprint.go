// Package fingerprint reduces the text of a statement to its shape, without parsing it: every
// literal becomes a mark, blanks become one, comments go (but those that a server or vtgate
// acts on). Statements of one fingerprint have one normalised form and one plan, so that a log
// is parsed once a shape instead of once a line.
//
// It is only a key of a cache and a way to hide values. What a statement means is Vitess'
// parser's to say: a shape that is new is parsed, through Representative, and the parser's own
// normalised form decides which shapes are one query.
//
// Three things of Vitess' normalisation depend on values and are therefore in the fingerprint:
// which literals of a statement are equal (they become one bind variable, and two tables
// restricted to one value merge into one route), whether an IN list has one element or several,
// and whether an INSERT has one row or several.
package fingerprint

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// Kind is a literal's kind.
type Kind byte

// The kinds of literals.
const (
	Integer  Kind = 'i'
	Text     Kind = 's'
	Verbatim Kind = 'v' // decimals, hex, bits, dates: their text has a form that a parser checks
)

// Literal is a literal of the scanned text.
type Literal struct {
	Kind Kind
	// Slot is equal for literals of equal text.
	Slot int
	// Start and End are its place in the text.
	Start, End int
}

// List is an IN list of two or more literals of one kind.
type List struct {
	Slot  int
	Kind  Kind
	Count int
}

const (
	markLiteral byte = 1
	markList    byte = 2
	markRows    byte = 3
)

// maxLiterals bounds the comparison of each literal with all others; a statement with more
// has no fingerprint.
const maxLiterals = 128

// Base is the number of slot 0 in representatives: slot n is the integer Base+n or the text
// Marker followed by n.
const (
	Base   = 1_000_000_000_000
	Marker = "vifl_literal_"
)

// secondRow is added to the slots of an INSERT's first row to make those of its second.
const secondRow = 1000

// Scanner scans one statement after the other and reuses its memory. It is not for concurrent use.
type Scanner struct {
	text     string
	key      []byte
	Literals []Literal
	Lists    []List
	// Rows is the number of rows of an INSERT … VALUES, 0 for other statements.
	Rows             int
	slots            int
	rowFrom, rowTo   int // of the first row in key
	firstRowIsSimple bool
	many             bool
}

type word int8

const (
	wordOther word = iota
	wordIn
	wordValues
	wordDate
	wordOn
	wordAs
)

// Scan reads a statement. It returns false for a text that has no fingerprint: an open quote
// or comment, control characters, very many literals. Such a text must be parsed by itself.
func (s *Scanner) Scan(text string) bool {
	s.text, s.key = text, s.key[:0]
	s.Literals, s.Lists, s.Rows, s.slots, s.many, s.firstRowIsSimple = s.Literals[:0], s.Lists[:0], 0, 0, false, false
	s.rowFrom, s.rowTo = -1, -1
	insert, values, valuesOver := false, false, false
	depth, words := 0, 0
	blank := false
	last := wordOther // of the token before, wordOther when it was none
	var before byte   // the last byte emitted by a token, 0 at the start
	inFirst := false  // inside the first row of VALUES
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			blank = true
			i++
			continue
		case c < ' ':
			return false
		case c == '#':
			i = lineEnd(text, i)
			blank = true
			continue
		case c == '-' && i+1 < len(text) && text[i+1] == '-' && (i+2 == len(text) || text[i+2] <= ' '):
			i = lineEnd(text, i)
			blank = true
			continue
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return false
			}
			end += i + 4
			if body := text[i+2 : end-2]; strings.HasPrefix(body, "!") || strings.HasPrefix(body, "+") || strings.HasPrefix(body, "vt+") {
				if hasMark(body) {
					return false
				}
				s.emitBlank(&blank)
				s.key = append(s.key, text[i:end]...)
				before = '/'
			} else {
				blank = true
			}
			i = end
			continue
		}
		s.emitBlank(&blank)
		switch {
		case c == '\'' || c == '"':
			end := quoteEnd(text, i)
			if end < 0 {
				return false
			}
			kind := Text
			if last == wordDate {
				kind = Verbatim
			}
			if !s.literal(kind, i, end, !insert) {
				return false
			}
			i, last, before = end, wordOther, '\''
		case c == '`':
			end := quoteEnd(text, i)
			if end < 0 || hasMark(text[i:end]) {
				return false
			}
			s.key = append(s.key, text[i:end]...)
			i, last, before = end, wordOther, '`'
		case isDigit(c) || (c == '.' && i+1 < len(text) && isDigit(text[i+1]) && !isName(before) && before != '`'):
			end, kind := numberEnd(text, i)
			if kind == 0 { // a name such as 1st
				end = nameEnd(text, i)
				s.key = append(s.key, text[i:end]...)
			} else if !s.literal(kind, i, end, !insert) {
				return false
			}
			i, last, before = end, wordOther, '0'
		case isName(c):
			end := nameEnd(text, i)
			w := text[i:end]
			if len(w) == 1 && end < len(text) && text[end] == '\'' && (c|0x20 == 'x' || c|0x20 == 'b' || c|0x20 == 'n') {
				end = quoteEnd(text, end)
				if end < 0 {
					return false
				}
				if !s.literal(Verbatim, i, end, !insert) {
					return false
				}
				i, last, before = end, wordOther, '\''
				continue
			}
			if e := precision(text, end); e > 0 && takesPrecision(w) {
				s.key = append(s.key, text[i:e]...)
				i, last, before = e, wordOther, ')'
				continue
			}
			words++
			if words == 1 {
				insert = equalFold(w, "insert") || equalFold(w, "replace")
			}
			last = classify(w)
			if last == wordValues && insert && depth == 0 && before != '.' && !valuesOver {
				values = true
			} else if values && depth == 0 {
				values, valuesOver = false, true // ON DUPLICATE KEY UPDATE, or a row's alias
			}
			if insert && equalFold(w, "select") {
				insert = false // its literals decide routes
			}
			s.key = append(s.key, w...)
			i, before = end, w[len(w)-1]
		case c == '?':
			// A prepared statement's parameter, or a digest's: a value that nobody knows.
			if !s.literal(Integer, i, i+1, false) {
				return false
			}
			i++
			last, before = wordOther, c
		case c == '(':
			if values && depth == 0 {
				s.Rows++
				end, simple := simpleRow(text, i)
				if s.Rows == 1 {
					s.firstRowIsSimple, s.rowFrom, inFirst = simple, len(s.key), true
				} else if simple && s.firstRowIsSimple && s.rowTo >= 0 {
					s.key = append(s.key[:s.rowTo], markRows)
					s.many = true
					i, last, before = end, wordOther, ')'
					continue
				}
			}
			if last == wordIn {
				if end, ok := s.list(i); ok {
					i, last, before = end, wordOther, ')'
					continue
				}
			}
			depth++
			s.key = append(s.key, c)
			i++
			last, before = wordOther, c
		case c == ')':
			depth--
			s.key = append(s.key, c)
			i++
			last, before = wordOther, c
			if inFirst && depth == 0 {
				s.rowTo, inFirst = len(s.key), false
			}
		default:
			s.key = append(s.key, c)
			i++
			last, before = wordOther, c
		}
	}
	s.key = bytes.TrimRight(s.key, " ;")
	return true
}

func (s *Scanner) emitBlank(blank *bool) {
	if *blank && len(s.key) > 0 {
		s.key = append(s.key, ' ')
	}
	*blank = false
}

// Key is the fingerprint. It is valid until the next Scan.
func (s *Scanner) Key() []byte { return s.key }

// literal marks a literal. With compare it gets the slot of an equal one before it.
func (s *Scanner) literal(kind Kind, start, end int, compare bool) bool {
	if len(s.Literals) == maxLiterals {
		return false
	}
	slot := s.slots
	if compare {
		for _, l := range s.Literals {
			if l.Kind == kind && s.text[l.Start:l.End] == s.text[start:end] {
				slot = l.Slot
				break
			}
		}
	}
	if slot == s.slots {
		s.slots++
	}
	s.Literals = append(s.Literals, Literal{Kind: kind, Slot: slot, Start: start, End: end})
	s.key = append(s.key, markLiteral, byte(kind))
	s.key = binary.AppendUvarint(s.key, uint64(slot))
	return true
}

// list reads a list of two or more literals of one kind at i, where ( is.
func (s *Scanner) list(i int) (end int, ok bool) {
	text := s.text
	var kind Kind
	count := 0
	for i++; ; i++ {
		i = skipBlanks(text, i)
		if i >= len(text) {
			return 0, false
		}
		var k Kind
		var e int
		switch c := text[i]; {
		case c == '\'' || c == '"':
			e, k = quoteEnd(text, i), Text
		case isDigit(c):
			e, k = numberEnd(text, i)
		default:
			return 0, false
		}
		if e < 0 || (k != Integer && k != Text) || (count > 0 && k != kind) {
			return 0, false
		}
		kind = k
		count++
		i = skipBlanks(text, e)
		if i >= len(text) {
			return 0, false
		}
		if text[i] == ')' {
			break
		}
		if text[i] != ',' {
			return 0, false
		}
	}
	if count < 2 {
		return 0, false
	}
	slot := s.slots
	s.slots += 2
	s.Lists = append(s.Lists, List{Slot: slot, Kind: kind, Count: count})
	s.key = append(s.key, '(', markList, byte(kind))
	s.key = binary.AppendUvarint(s.key, uint64(slot))
	s.key = append(s.key, ')')
	return i + 1, true
}

// Representative is a statement of the fingerprint's shape in which every slot has a value of
// its own (Base, Marker), so that behind a parser's normalisation it can be told which bind
// variable came of which slot. Literals of kind Verbatim keep their text.
func (s *Scanner) Representative() string {
	var b strings.Builder
	s.expand(&b, s.key, 0)
	return b.String()
}

func (s *Scanner) expand(b *strings.Builder, key []byte, offset int) {
	for i := 0; i < len(key); i++ {
		switch c := key[i]; c {
		case markLiteral, markList:
			kind := Kind(key[i+1])
			slot, n := binary.Uvarint(key[i+2:])
			i += 1 + n
			if c == markList {
				s.value(b, kind, int(slot)+offset)
				b.WriteString(", ")
				s.value(b, kind, int(slot)+1+offset)
			} else if kind == Verbatim {
				for _, l := range s.Literals {
					if l.Slot == int(slot) {
						b.WriteString(s.text[l.Start:l.End])
						break
					}
				}
			} else {
				s.value(b, kind, int(slot)+offset)
			}
		case markRows:
			b.WriteString(", ")
			s.expand(b, s.key[s.rowFrom:s.rowTo], secondRow)
		default:
			b.WriteByte(c)
		}
	}
}

func (s *Scanner) value(b *strings.Builder, kind Kind, slot int) {
	if kind == Text {
		b.WriteString("'" + Marker + strconv.Itoa(slot) + "'")
		return
	}
	b.WriteString(strconv.Itoa(Base + slot))
}

// Slot is the slot whose value in a representative is the text v, false when v is no such value.
func Slot(v string) (int, bool) {
	digits, text := strings.CutPrefix(v, Marker)
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, false
	}
	if text {
		return n, true
	}
	return n - Base, n >= Base && n < Base+2*secondRow
}

// Value is the text of the literal in a slot, without quotes, false when there is none, when it
// has escapes, and for a parameter.
func (s *Scanner) Value(slot int) (text string, kind Kind, ok bool) {
	for _, l := range s.Literals {
		if l.Slot != slot {
			continue
		}
		v := s.text[l.Start:l.End]
		if v == "?" {
			return "", 0, false
		}
		if l.Kind == Text {
			v = v[1 : len(v)-1]
			if strings.ContainsAny(v, `\'"`) {
				return "", 0, false
			}
		}
		return v, l.Kind, true
	}
	return "", 0, false
}

// Hide is the text with a question mark for every literal, and without comments but those that
// are acted on. A text that cannot be scanned is shown up to where that is certain.
func Hide(text string) string {
	var s Scanner
	if s.Scan(text) {
		var b strings.Builder
		for i := 0; i < len(s.key); i++ {
			switch c := s.key[i]; c {
			case markLiteral, markList:
				_, n := binary.Uvarint(s.key[i+2:])
				i += 1 + n
				b.WriteByte('?')
				if c == markList {
					b.WriteString(", …")
				}
			case markRows:
				b.WriteString(", …")
			case '/':
				end := bytes.Index(s.key[i:], []byte("*/"))
				if end < 0 || s.key[i+1] != '*' || bytes.HasPrefix(s.key[i:], []byte("/*vt+")) {
					b.WriteByte(c)
					continue
				}
				b.WriteString("/* … */") // what a server acts on may have values
				i += end + 1
			default:
				b.WriteByte(c)
			}
		}
		return b.String()
	}
	// Before the first quote, digit or comment there is no value.
	if i := strings.IndexAny(text, "'\"`0123456789/#-"); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)) + " …"
}

// simpleRow says whether the row at i, where ( is, has only literals, NULL, DEFAULT, TRUE and
// FALSE, and where it ends.
func simpleRow(text string, i int) (end int, simple bool) {
	for i++; i < len(text); {
		switch c := text[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == '-':
			i++
		case c == ')':
			return i + 1, true
		case c == '\'' || c == '"':
			if i = quoteEnd(text, i); i < 0 {
				return 0, false
			}
		case isDigit(c):
			e, kind := numberEnd(text, i)
			if kind == 0 {
				return 0, false
			}
			i = e
		case isName(c):
			e := nameEnd(text, i)
			w := text[i:e]
			if !equalFold(w, "null") && !equalFold(w, "default") && !equalFold(w, "true") && !equalFold(w, "false") {
				return 0, false
			}
			i = e
		default:
			return 0, false
		}
	}
	return 0, false
}

// precision is behind (0) to (6) at i, the digits of a second's fraction, 0 when there is none.
func precision(text string, i int) int {
	if i+2 < len(text) && text[i] == '(' && text[i+1] >= '0' && text[i+1] <= '6' && text[i+2] == ')' {
		return i + 3
	}
	return 0
}

// takesPrecision says whether a word is a function whose argument is no value, but a precision.
func takesPrecision(w string) bool {
	for _, name := range []string{"now", "sysdate", "current_timestamp", "localtime", "localtimestamp", "utc_timestamp", "curtime", "current_time", "utc_time"} {
		if equalFold(w, name) {
			return true
		}
	}
	return false
}

func classify(w string) word {
	switch len(w) {
	case 2:
		if equalFold(w, "in") {
			return wordIn
		}
	case 4:
		if equalFold(w, "date") || equalFold(w, "time") {
			return wordDate
		}
	case 5:
		if equalFold(w, "value") {
			return wordValues
		}
	case 6:
		if equalFold(w, "values") {
			return wordValues
		}
	case 9:
		if equalFold(w, "timestamp") {
			return wordDate
		}
	}
	return wordOther
}

// equalFold compares ASCII letters without regard to case; lower must be lower case.
func equalFold(w, lower string) bool {
	if len(w) != len(lower) {
		return false
	}
	for i := range len(w) {
		c := w[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func lineEnd(text string, i int) int {
	if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
		return i + end
	}
	return len(text)
}

func skipBlanks(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// quoteEnd is behind the quote that closes the one at i, -1 when none does. A doubled quote and,
// but for backquotes, one behind a backslash belong to the text.
func quoteEnd(text string, i int) int {
	q := text[i]
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if q != '`' {
				i++
			}
		case q:
			if i+1 < len(text) && text[i+1] == q {
				i++
				continue
			}
			return i + 1
		}
	}
	return -1
}

// numberEnd is behind the number at i, and its kind; kind 0: it is the beginning of a name.
func numberEnd(text string, i int) (int, Kind) {
	kind := Integer
	start := i
	if text[i] == '0' && i+2 < len(text) && (text[i+1] == 'x' || text[i+1] == 'b') && isHex(text[i+2]) {
		for i += 2; i < len(text) && isHex(text[i]); i++ {
		}
		kind = Verbatim
	} else {
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i < len(text) && text[i] == '.' {
			kind = Verbatim
			for i++; i < len(text) && isDigit(text[i]); i++ {
			}
		}
		if i < len(text) && text[i]|0x20 == 'e' {
			j := i + 1
			if j < len(text) && (text[j] == '+' || text[j] == '-') {
				j++
			}
			if j < len(text) && isDigit(text[j]) {
				kind = Verbatim
				for i = j; i < len(text) && isDigit(text[i]); i++ {
				}
			}
		}
	}
	if i < len(text) && isName(text[i]) {
		return i, 0
	}
	if kind == Integer && i-start > 18 {
		kind = Verbatim // beyond a signed 64-bit integer: of another type
	}
	return i, kind
}

func nameEnd(text string, i int) int {
	for i < len(text) && (isName(text[i])) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isHex(c byte) bool {
	return isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f')
}

// isName says whether a byte can be in a name or keyword: letters, digits, _, $ and all bytes of
// characters beyond ASCII.
func isName(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

func hasMark(s string) bool {
	for i := range len(s) {
		if s[i] <= markRows {
			return true
		}
	}
	return false
}
