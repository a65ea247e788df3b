package copy

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// scalar is a number or string in a document: its path, its text, and the type that MySQL
// gives it when it reads the document from text.
type scalar struct {
	path, text, plain string
}

// scalars lists the numbers and strings of a document.
func scalars(doc []byte) ([]scalar, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var all []scalar
	var walk func(path string) error
	walk = func(path string) error {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		switch v := tok.(type) {
		case json.Delim:
			for i := 0; d.More(); i++ {
				at := path + "[" + strconv.Itoa(i) + "]"
				if v == '{' {
					name, err := d.Token()
					if err != nil {
						return err
					}
					at = path + "." + quoteMember(name.(string))
				}
				if err := walk(at); err != nil {
					return err
				}
			}
			_, err = d.Token()
			return err
		case json.Number:
			all = append(all, scalar{path, v.String(), plainNumber(v.String())})
		case string:
			all = append(all, scalar{path, v, "STRING"})
		}
		return nil
	}
	if err := walk("$"); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	return all, nil
}

// quoteMember writes a member's name for a JSON path.
func quoteMember(name string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

func plainNumber(s string) string {
	if strings.ContainsAny(s, ".eE") {
		return "DOUBLE"
	}
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return "INTEGER"
	}
	if _, err := strconv.ParseUint(s, 10, 64); err == nil {
		return "UNSIGNED INTEGER"
	}
	return "DOUBLE"
}

// pathsPerQuery bounds a statement's length and the server's work for one.
const pathsPerQuery = 100

// mendRow looks at every value of a row's documents on the source and makes those that are
// more than their text so on the target.
func (f *fill) mendRow(ctx context.Context, conn *sql.Conn, t *table, s suspect) error {
	src := f.src.Snapshots[0]
	source := schema.Quote(f.src.Database) + "." + schema.Quote(t.Name)
	for _, c := range t.jsons {
		name := schema.Quote(c.name)
		var doc sql.RawBytes
		var text []byte
		rows, err := src.QueryContext(ctx, "SELECT "+name+" FROM "+source+" WHERE "+s.where)
		if err != nil {
			return err
		}
		n := 0
		for ; rows.Next(); n++ {
			if err := rows.Scan(&doc); err != nil {
				_ = rows.Close()
				return err
			}
			text = bytes.Clone(doc)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("found %d such rows on %s, expected 1", n, f.src.Name)
		}
		if text == nil {
			continue
		}
		values, err := scalars(text)
		if err != nil {
			return err
		}
		types, err := typesOf(ctx, src, source, name, s.where, values)
		if err != nil {
			return err
		}
		if err := f.setTypes(ctx, conn, t, c, s, values, types); err != nil {
			return err
		}
	}
	return nil
}

// typesOf asks a server for the type of each value of a document.
func typesOf(ctx context.Context, conn *sql.Conn, table, column, where string, values []scalar) ([]string, error) {
	types := make([]string, 0, len(values))
	for start := 0; start < len(values); start += pathsPerQuery {
		part := values[start:min(start+pathsPerQuery, len(values))]
		exprs, args := make([]string, len(part)), make([]any, len(part))
		for i, v := range part {
			exprs[i] = "JSON_TYPE(JSON_EXTRACT(" + column + ", ?))"
			args[i] = v.path
		}
		var joined string
		q := "SELECT CONCAT_WS(','," + strings.Join(exprs, ",") + ") FROM " + table + " WHERE " + where
		if err := conn.QueryRowContext(ctx, q, args...).Scan(&joined); err != nil {
			return nil, err
		}
		got := strings.Split(joined, ",")
		if len(got) != len(part) {
			return nil, fmt.Errorf("found the types of %d values, expected %d", len(got), len(part))
		}
		types = append(types, got...)
	}
	return types, nil
}

func (f *fill) setTypes(ctx context.Context, conn *sql.Conn, t *table, c jsonColumn, s suspect, values []scalar, types []string) error {
	name := schema.Quote(c.name)
	var pairs []string
	var args []any
	var touched []scalar
	var wanted []string
	update := func(pairs string, args []any) error {
		q := "UPDATE " + schema.Quote(t.Name) + " SET " + name + " = JSON_SET(" + name + "," + pairs + ")"
		for _, col := range t.Columns {
			if col.OnUpdateNow {
				q += ", " + schema.Quote(col.Name) + " = " + schema.Quote(col.Name)
			}
		}
		if _, err := conn.ExecContext(ctx, q+" WHERE "+s.where, args...); err != nil {
			return f.failed("update", err)
		}
		return nil
	}
	flush := func() error {
		if len(touched) == 0 {
			return nil
		}
		// In two steps: a DECIMAL put where an equal DOUBLE is counts as no change.
		marks, paths := make([]string, len(touched)), make([]any, len(touched))
		for i, v := range touched {
			marks[i], paths[i] = "?,TRUE", v.path
		}
		if err := update(strings.Join(marks, ","), paths); err != nil {
			return err
		}
		if err := update(strings.Join(pairs, ","), args); err != nil {
			return err
		}
		got, err := typesOf(ctx, conn, schema.Quote(t.Name), name, s.where, touched)
		if err != nil {
			return f.failed("read back", err)
		}
		for i := range got {
			if got[i] != wanted[i] {
				return fmt.Errorf("the value at %s is %s, and cannot be made %s on %s: seed by clone", touched[i].path, got[i], wanted[i], f.target.Name)
			}
		}
		pairs, args, touched, wanted = nil, nil, nil, nil
		return nil
	}
	for i, v := range values {
		if types[i] == v.plain {
			continue
		}
		expr, arg, err := typed(types[i], v.text)
		if err != nil {
			return fmt.Errorf("the value at %s: %w", v.path, err)
		}
		pairs = append(pairs, "?,"+expr)
		args = append(args, v.path, arg)
		touched, wanted = append(touched, v), append(wanted, types[i])
		if len(touched) == pathsPerQuery {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// typed is the SQL expression, with one parameter, that makes a value of a type.
func typed(kind, text string) (expr string, arg any, err error) {
	switch kind {
	case "DECIMAL":
		digits := strings.TrimLeft(text, "-")
		whole, fraction, _ := strings.Cut(digits, ".")
		return fmt.Sprintf("CAST(? AS DECIMAL(%d,%d))", max(len(whole)+len(fraction), 1), len(fraction)), text, nil
	case "UNSIGNED INTEGER":
		return "CAST(? AS UNSIGNED)", text, nil
	case "DATE":
		return "CAST(? AS DATE)", text, nil
	case "TIME":
		return "CAST(? AS TIME(6))", text, nil
	case "DATETIME":
		return "CAST(? AS DATETIME(6))", text, nil
	}
	// base64:type15:AP+AQQ==, as the server prints a value of one of its own types.
	if rest, ok := strings.CutPrefix(text, "base64:type"); ok {
		if _, data, ok := strings.Cut(rest, ":"); ok {
			if raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(data, "\n", "")); err == nil {
				return "CAST(? AS BINARY)", raw, nil
			}
		}
	}
	return "", nil, fmt.Errorf("a JSON %s cannot be made from text: seed by clone", kind)
}
