package querylog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// delimiterMax is the longest end of a comment or delimiter, in bytes.
const delimiterMax = 16

// readSQL reads statements with a semicolon behind each. Semicolons in quotes and comments end
// none. DELIMITER (a command of the mysql client, not of the server) is followed.
func readSQL(ctx context.Context, r *bufio.Reader, emit func(Event) error) error {
	var text []byte
	cut := false
	var quote byte   // ' " or `, 0 outside
	var comment byte // * for /* */, \n for one that ends with the line, 0 outside
	began := 0       // where in text the comment's content begins: /*/ is no whole comment
	delimiter := []byte{';'}
	flush := func() error {
		t := bytes.TrimSpace(text)
		e := Event{Text: string(t), Cut: cut, Calls: 1}
		text, cut = text[:0], false
		if len(t) == 0 || onlyComments(t) {
			return nil
		}
		return emit(e)
	}
	for n := 0; ; n++ {
		if n&0xffff == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		c, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		if len(text) >= MaxStatement {
			// Quotes and comments are followed to the statement's end all the same.
			// The last bytes are kept, for the ends of comments and delimiters.
			text, cut = append(text[:len(text)-delimiterMax], text[len(text)-delimiterMax+1:]...), true
		}
		text = append(text, c)
		switch {
		case comment == '*':
			if c == '/' && (cut || len(text) >= began+2) && bytes.HasSuffix(text, []byte("*/")) {
				comment = 0
			}
		case comment == '\n':
			if c == '\n' {
				comment = 0
			}
		case quote != 0:
			switch {
			case c == '\\' && quote != '`':
				next, err := r.ReadByte()
				if err == nil {
					text = append(text, next)
				}
			case c == quote:
				quote = 0 // a doubled quote opens it again at once
			}
		case c == '\'', c == '"', c == '`':
			quote = c
		case c == '*' && bytes.HasSuffix(text, []byte("/*")):
			comment, began = '*', len(text)
		case c == '#':
			comment = '\n'
		case (c == ' ' || c == '\t' || c == '\n') && dashes(text):
			if c != '\n' {
				comment = '\n'
			}
		case c == '\n' && delimiterLine(text) != nil:
			delimiter = append([]byte(nil), delimiterLine(text)...)
			text = text[:0]
		case bytes.HasSuffix(text, delimiter):
			text = text[:len(text)-len(delimiter)]
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// dashes says whether the text ends with -- and a blank, which begins a comment.
func dashes(text []byte) bool {
	n := len(text)
	return n >= 3 && text[n-2] == '-' && text[n-3] == '-'
}

// delimiterLine is what a line DELIMITER xx names, nil when the text is no such line.
func delimiterLine(text []byte) []byte {
	t := bytes.TrimSpace(text)
	const word = "delimiter "
	if len(t) <= len(word) || len(t) > len(word)+delimiterMax || !bytes.EqualFold(t[:len(word)], []byte(word)) {
		return nil
	}
	return bytes.TrimSpace(t[len(word):])
}

// onlyComments says whether a statement has nothing but comments that no server executes.
func onlyComments(t []byte) bool {
	for len(t) > 0 {
		switch {
		case bytes.HasPrefix(t, []byte("/*")) && !bytes.HasPrefix(t, []byte("/*!")):
			end := bytes.Index(t, []byte("*/"))
			if end < 0 {
				return true
			}
			t = bytes.TrimSpace(t[end+2:])
		case t[0] == '#', bytes.HasPrefix(t, []byte("-- ")), bytes.Equal(t, []byte("--")), bytes.HasPrefix(t, []byte("--\n")):
			end := bytes.IndexByte(t, '\n')
			if end < 0 {
				return true
			}
			t = bytes.TrimSpace(t[end+1:])
		default:
			return false
		}
	}
	return true
}
