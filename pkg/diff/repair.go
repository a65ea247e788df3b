package diff

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// repairSession is what the values of repair statements depend on. Zero and impossible dates
// and ENUM's 0 are values that a strict session refuses to store; foreign keys would cascade
// from a row that is deleted and comes back at once.
const repairSession = "SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone='+00:00', foreign_key_checks=0"

// Repair writes SQL statements, without their semicolons, that would make the listed rows of
// a target equal to the source's: one transaction that first deletes every row that is extra
// or changed and then inserts every row that is missing or changed, so that values of unique
// keys may have moved between rows. They name no database. The source must be the side that
// was compared, with its snapshots still open: values are those of the cut.
//
// Values are exact: text by its bytes and character set, binary values as hex literals, all
// digits of FLOAT and DOUBLE, ENUM, SET and BIT by number, JSON with the types inside. What
// cannot be written exactly is an error that names table and key.
//
// Rows beyond the list have no statements; see TargetReport.Truncated.
func Repair(ctx context.Context, source Side, s *schema.Schema, target *TargetReport) ([]string, error) {
	if len(target.Differences) == 0 {
		return nil, nil
	}
	sides, err := source.readers(ctx, 1)
	if err != nil {
		return nil, err
	}
	var deletes, inserts []string
	tables := map[string]*table{}
	for _, d := range target.Differences {
		if d.Copies > 0 {
			return nil, fmt.Errorf("repair table %q: %w", d.Table, errNoKey)
		}
		t := tables[d.Table]
		if t == nil {
			st := s.Table(d.Table)
			if st == nil || d.key == nil {
				return nil, fmt.Errorf("repair: table %q is not in the schema, or the difference is not of a comparison of this process", d.Table)
			}
			if t, err = newTable(st); err != nil {
				return nil, err
			}
			tables[d.Table] = t
		}
		if d.Kind != Missing {
			deletes = append(deletes, "DELETE FROM "+schema.Quote(t.Name)+" WHERE "+is(t.key, d.key))
		}
		if d.Kind != Extra {
			insert, err := sides[0].insertSQL(ctx, t, d.key)
			if err != nil {
				return nil, fmt.Errorf("repair %s: %w", d, err)
			}
			inserts = append(inserts, insert)
		}
	}
	return slices.Concat([]string{"SET NAMES utf8mb4", repairSession, "START TRANSACTION"}, deletes, inserts, []string{"COMMIT"}), nil
}

// insertSQL writes the INSERT of one row with all its columns but generated ones, whose
// values follow from the others.
func (r *reader) insertSQL(ctx context.Context, t *table, key keyValue) (string, error) {
	var columns, selected []string
	var of []*schema.Column
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Generated != "" {
			continue
		}
		k, _ := classOf(c) // known since newTable
		expr := schema.Quote(c.Name)
		switch k {
		case text, bytes:
			expr = "CAST(" + expr + " AS BINARY)"
		case document:
		default:
			expr = "CONCAT(" + exactText(c, k) + ")"
		}
		columns, selected, of = append(columns, schema.Quote(c.Name)), append(selected, expr), append(of, c)
	}
	var values []sql.NullString
	if err := r.each(ctx, "SELECT "+strings.Join(selected, ",")+t.from(r.database)+is(t.key, key), func(v []sql.RawBytes) error {
		values = make([]sql.NullString, len(v))
		for i := range v {
			values[i] = sql.NullString{String: string(v[i]), Valid: v[i] != nil}
		}
		return nil
	}); err != nil {
		return "", r.fail(t, "read a row", err)
	}
	if values == nil {
		return "", r.fail(t, "read a row", errors.New("it is not there any more: is the snapshot still open?"))
	}
	literals := make([]string, len(values))
	for i, v := range values {
		k, _ := classOf(of[i])
		switch {
		case !v.Valid:
			literals[i] = "NULL"
		case k == document:
			doc, err := r.documentSQL(ctx, t, of[i], key, v.String)
			if err != nil {
				return "", err
			}
			literals[i] = doc
		default:
			// A key's literal is exact in type, too.
			literals[i] = (&keyColumn{column: of[i], class: k}).literal(v.String)
		}
	}
	return "INSERT INTO " + schema.Quote(t.Name) + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(literals, ", ") + ")", nil
}

// documentSQL writes an expression for a JSON document with the types of its scalars: those
// that a document's text does not tell are asked for, path by path.
func (r *reader) documentSQL(ctx context.Context, t *table, c *schema.Column, key keyValue, doc string) (string, error) {
	if doc == "" {
		return "", r.fail(t, "read a row", fmt.Errorf("column %q: %w", c.Name, errTooLarge))
	}
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", r.fail(t, "read a JSON document", err)
	}
	w := &documentWriter{r: r, column: schema.Quote(c.Name), from: t.from(r.database) + is(t.key, key)}
	expr, err := w.node(ctx, v, "$")
	if err != nil {
		return "", r.fail(t, fmt.Sprintf("write the JSON of column %q", c.Name), err)
	}
	return expr, nil
}

// documentWriter writes the expression of one stored document.
type documentWriter struct {
	r            *reader
	column, from string
}

// ask runs a query of one text.
func (w *documentWriter) ask(ctx context.Context, query string) (answer string, err error) {
	err = w.r.each(ctx, query, func(v []sql.RawBytes) error { answer = string(v[0]); return nil })
	return answer, err
}

func (w *documentWriter) at(path string) string {
	return "JSON_EXTRACT(" + w.column + "," + utf8SQL(path) + ")"
}

func utf8SQL(s string) string { return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'" }

// decimal writes a DECIMAL. Of the same number some are stored with room for more digits, by
// the expression they once came from; the form that makes the same size is taken.
func (w *documentWriter) decimal(ctx context.Context, text, path string) (string, error) {
	want, err := w.ask(ctx, "SELECT JSON_STORAGE_SIZE(JSON_ARRAY("+w.at(path)+"))"+w.from)
	if err != nil {
		return "", err
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	for _, form := range []string{
		text, fmt.Sprintf("CAST(%s AS DECIMAL(%d,%d))", text, len(whole)+len(fraction), len(fraction)), fmt.Sprintf("CAST(%s AS DECIMAL(65,%d))", text, len(fraction)),
		fmt.Sprintf("CAST('%s' AS DECIMAL(65,%d))", text, len(fraction)), fmt.Sprintf("ROUND(%s,%d)", text+map[bool]string{true: "0", false: ".0"}[fraction != ""], len(fraction)),
	} {
		expr := "CAST(" + form + " AS JSON)"
		got, err := w.ask(ctx, "SELECT CONCAT(JSON_TYPE("+expr+"),JSON_STORAGE_SIZE(JSON_ARRAY("+expr+")))")
		if err != nil {
			return "", err
		}
		if got == "DECIMAL"+want {
			return expr, nil
		}
	}
	return "", fmt.Errorf("%s is the DECIMAL %s in a size that no expression makes", path, text)
}

// node writes a value inside the document.
func (w *documentWriter) node(ctx context.Context, v any, path string) (string, error) {
	switch v := v.(type) {
	case nil:
		return "CAST('null' AS JSON)", nil
	case bool:
		return fmt.Sprintf("CAST('%t' AS JSON)", v), nil
	case []any:
		items := make([]string, len(v))
		for i := range v {
			var err error
			if items[i], err = w.node(ctx, v[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return "", err
			}
		}
		return "JSON_ARRAY(" + strings.Join(items, ", ") + ")", nil
	case map[string]any:
		var items []string
		for name, member := range v {
			quoted, err := json.Marshal(name)
			if err != nil {
				return "", err
			}
			item, err := w.node(ctx, member, path+"."+string(quoted))
			if err != nil {
				return "", err
			}
			items = append(items, utf8SQL(name)+", "+item)
		}
		slices.Sort(items) // the same statement every time
		return "JSON_OBJECT(" + strings.Join(items, ", ") + ")", nil
	case json.Number:
		kind, err := w.ask(ctx, "SELECT JSON_TYPE("+w.at(path)+")"+w.from)
		if err != nil {
			return "", err
		}
		switch kind {
		case "INTEGER", "DOUBLE":
			return "CAST('" + v.String() + "' AS JSON)", nil
		case "UNSIGNED INTEGER":
			return "CAST(CAST(" + v.String() + " AS UNSIGNED) AS JSON)", nil
		case "DECIMAL":
			return w.decimal(ctx, v.String(), path)
		}
		return "", fmt.Errorf("%s has the type %s, which no statement writes exactly", path, kind)
	case string:
		kind, err := w.ask(ctx, "SELECT JSON_TYPE("+w.at(path)+")"+w.from)
		if err != nil {
			return "", err
		}
		switch kind {
		case "STRING":
			text, err := json.Marshal(v)
			if err != nil {
				return "", err
			}
			return "CAST(" + utf8SQL(string(text)) + " AS JSON)", nil
		case "DATE":
			return "CAST(CAST(" + utf8SQL(v) + " AS DATE) AS JSON)", nil
		case "TIME", "DATETIME":
			return "CAST(CAST(" + utf8SQL(v) + " AS " + kind + "(6)) AS JSON)", nil
		case "BLOB":
			rest, ok := strings.CutPrefix(v, "base64:type15:")
			if ok {
				if raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rest, "\n", "")); err == nil {
					return "JSON_EXTRACT(JSON_ARRAY(X'" + hex.EncodeToString(raw) + "'), '$[0]')", nil
				}
			}
		}
		return "", fmt.Errorf("%s has the type %s (%.30q), which no statement writes exactly", path, kind, v)
	}
	return "", fmt.Errorf("%s: found %T", path, v)
}
