// Package schematest makes random tables for tests: every type a table of MySQL can have, with the
// values that other tools have been wrong about.
package schematest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is a column type with random values, and with expressions of its own to read them: they
// must not come from the code that is tested.
type Kind struct {
	Def    string
	Key    bool                                     // may be part of a primary key
	Value  func(r *rand.Rand) string                // a literal
	Little func(r *rand.Rand, column string) string // the least change, one bit where the type allows; nil is another value
	Exact  func(column string) string               // tells all stored values apart
	Same   func(column string) string               // equal exactly where two keys are one key; "" is exact
	Show   func(column string) string               // as reports show it; nil is the column
}

func hexOf(c string) string { return "HEX(" + c + ")" }
func asIs(c string) string  { return c }
func sprintf(format string) func(string) string {
	return func(c string) string { return fmt.Sprintf(format, c) }
}

func choose(values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return values[r.IntN(len(values))] }
}

func words(charset string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		letters := []string{"a", "A", "b", "é", "e", "E", " ", ",", "N", "1", "0", "ß", "x", "'", "|"}
		switch charset {
		case "ascii":
			letters = []string{"a", "A", "b", "e", " ", ",", "N", "1", "'"}
		case "utf8mb4", "utf16", "utf32", "gb18030":
			letters = append(letters, "😀", "😁", "€")
		}
		s := ""
		for range r.IntN(5) {
			s += letters[r.IntN(len(letters))]
		}
		return fmt.Sprintf("CONVERT(_utf8mb4 X'%x' USING %s)", s, charset)
	}
}

func octets(n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		s := ""
		for range r.IntN(n + 1) {
			s += fmt.Sprintf("%02X", []int{0, 1, 0x2c, 0x4e, 0x7f, 0x80, 0xc3, 0xff}[r.IntN(8)])
		}
		return "X'" + s + "'"
	}
}

func integers(lo, hi int64) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if r.IntN(4) == 0 {
			return fmt.Sprint([]int64{lo, hi, 0, 1}[r.IntN(4)])
		}
		return fmt.Sprint(max(lo, lo/2) + r.Int64N(min(200, hi-lo/2)))
	}
}

var (
	reals  = choose("0e0", "-0e0", "1e0", "-1e0", "16777213e0", "16777215e0", "1.5e0", "0.1e0", "0.30000000000000004e0", "0.3e0", "1e-38", "3.4e38", "123456.789e0", "-1.5e-30", "-4.477231489238053e-38", "-1.9685523071127114e-35")
	padded = sprintf("HEX(WEIGHT_STRING(%s AS CHAR(40)))")
	Kinds  = []Kind{
		{"TINYINT", true, integers(-128, 127), flipSigned(7), asIs, nil, nil},
		{"SMALLINT UNSIGNED", true, integers(0, 65535), flip(16), asIs, nil, nil},
		{"MEDIUMINT", true, integers(-8388608, 8388607), flipSigned(23), asIs, nil, nil},
		{"INT", true, integers(-2147483648, 2147483647), flipSigned(31), asIs, nil, nil},
		{"INT UNSIGNED ZEROFILL", false, integers(0, 4294967295), flip(32), asIs, nil, nil},
		{"BIGINT", true, choose("0", "-1", "-9223372036854775808", "9223372036854775807", "9007199254740993", "12", "13"), flipSigned(63), asIs, nil, nil},
		{"BIGINT UNSIGNED", true, choose("0", "1", "9007199254740992", "9007199254740993", "18446744073709551614", "18446744073709551615", "77", "78", "79"), flip(64), asIs, nil, nil},
		{"DECIMAL(20,5)", true, choose("0", "-0.00001", "0.00001", "123456789012345.12345", "-1", "1", "1.1"), either("%s + 0.00001", "%s - 0.00001", "-%s"), asIs, nil, nil},
		{"FLOAT", true, reals, either("IF(%[1]s = 0, -%[1]s, CAST(%[1]s AS DOUBLE) * (1 + 1.2e-7))", "-%s"), sprintf("HEX(POINT(%s,0))"), sprintf("IF(%[1]s = 0, '', HEX(POINT(%[1]s,0)))"), sprintf("TRIM(TRAILING '.0' FROM CAST(CAST(CAST(%s AS DOUBLE) AS JSON) AS CHAR))")},
		{"DOUBLE", true, reals, either("IF(%[1]s = 0, -%[1]s, %[1]s * (1 + 2.3e-16))", "-%s"), sprintf("HEX(POINT(%s,0))"), sprintf("IF(%[1]s = 0, '', HEX(POINT(%[1]s,0)))"), sprintf("TRIM(TRAILING '.0' FROM CAST(CAST(CAST(%s AS DOUBLE) AS JSON) AS CHAR))")},
		{"DATE", true, choose("'0000-00-00'", "'2024-02-29'", "'2024-00-10'", "'9999-12-31'", "'1000-01-01'"), either("%s + INTERVAL 1 DAY", "%s - INTERVAL 1 DAY"), asIs, nil, nil},
		{"DATETIME(6)", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.000001'", "'2024-02-29 00:00:00.000002'", "'2024-02-29'", "'9999-12-31 23:59:59.999999'"), either("%s + INTERVAL 1 MICROSECOND"), asIs, nil, nil},
		{"TIMESTAMP(3) NULL", true, choose("'0000-00-00'", "'2024-02-29 00:00:00.001'", "'2024-02-29 00:00:00.002'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999'"), either("%s + INTERVAL 1000 MICROSECOND"), asIs, nil, nil},
		{"TIME(6)", true, choose("'00:00:00'", "'-00:00:00.000001'", "'00:00:00.000001'", "'838:59:59'", "'-838:59:59'", "'12:00:00'"), either("%s + INTERVAL 1 MICROSECOND"), asIs, nil, nil},
		{"YEAR", true, choose("'0000'", "2000", "1901", "2155", "1970"), either("%s + 1", "IF(%[1]s > 1901, %[1]s - 1, 1970)"), asIs, nil, nil},
		{"CHAR(8) COLLATE utf8mb4_general_ci", true, words("utf8mb4"), letter("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", true, words("utf8mb4"), letter("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"CHAR(8) COLLATE utf8mb4_0900_as_cs", true, words("utf8mb4"), letter("utf8mb4"), hexOf, sprintf("HEX(WEIGHT_STRING(%s))"), nil},
		{"VARCHAR(20) COLLATE utf8mb4_bin", true, words("utf8mb4"), letter("utf8mb4"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET latin1", true, words("latin1"), letter("latin1"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET utf16", true, words("utf16"), letter("utf16"), hexOf, padded, nil},
		{"VARCHAR(20) CHARACTER SET gb18030", false, words("gb18030"), letter("gb18030"), hexOf, nil, nil},
		{"CHAR(5) CHARACTER SET ascii COLLATE ascii_bin", false, words("ascii"), letter("ascii"), hexOf, nil, nil},
		{"VARBINARY(8)", true, octets(8), octet, hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"BINARY(4)", true, octets(4), octet, hexOf, nil, sprintf("CONCAT('0x',HEX(%s))")},
		{"ENUM('b','','a','N','10')", true, choose("1", "2", "3", "4", "5", "'no such'"), either("%s MOD 5 + 1"), sprintf("%s+0"), nil, sprintf("IF(CONCAT(%[1]s) = '', CONCAT('#', %[1]s+0), CONCAT(%[1]s))")},
		{"SET('b','x','a','N')", true, choose("0", "1", "3", "8", "15", "5"), flip(4), sprintf("%s+0"), nil, sprintf("IF(CONCAT(%[1]s) = '', CONCAT('#', %[1]s+0), CONCAT(%[1]s))")},
		{"SET(" + members(64) + ")", false, choose("0", "1", "9007199254740992", "18446744073709551615"), flip(64), hexOfNumber, nil, nil},
		{"BIT(64)", true, choose("0", "1", "48", "18446744073709551615", "9223372036854775808"), flip(64), hexOf, nil, sprintf("%s+0")},
		{"BIT(1)", false, choose("0", "1"), flip(1), hexOf, nil, nil},
		{"TINYBLOB", false, octets(12), octet, hexOf, nil, nil},
		{"BLOB", false, octets(12), octet, hexOf, nil, nil},
		{"MEDIUMBLOB", false, octets(40), octet, hexOf, nil, nil},
		{"LONGBLOB", false, octets(400), octet, hexOf, nil, nil},
		{"TINYTEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"TEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"TEXT CHARACTER SET latin1", false, words("latin1"), letter("latin1"), hexOf, nil, nil},
		{"MEDIUMTEXT CHARACTER SET utf32", false, words("utf32"), letter("utf32"), hexOf, nil, nil},
		{"LONGTEXT", false, words("utf8mb4"), letter("utf8mb4"), hexOf, nil, nil},
		{"JSON", false, choose("'1'", "'1.0'", "'null'", "'\"1\"'", `'{"a": [1, 2.5]}'`, "JSON_ARRAY(CAST(2.5 AS DECIMAL(3,1)))", "'[2.5]'", "'[]'", "'{}'", "'\"N\"'",
			"JSON_ARRAY(12345.5)", "'[12345.5]'", "'[-0.0]'", "'[0.0]'", "'[0]'", `'["2001-01-01"]'`, "JSON_ARRAY(DATE'2001-01-01')", "'[true]'", `'["true"]'`,
			`'["base64:type15:YWI="]'`, "JSON_ARRAY(X'6162')", "'[0.1]'", "'[0.10000000000000002]'", `'{"a": 1, "b": 2}'`, `'{"a": 2, "b": 1}'`), nil,
			sprintf("CONCAT(JSON_TYPE(%[1]s),IFNULL(JSON_TYPE(JSON_EXTRACT(%[1]s,'$[0]')),''),HEX(CAST(%[1]s AS CHAR)))"), nil, nil},
		{"VECTOR(3)", false, choose("X'0000803F0000004000004040'", "X'0100803F0000004000004040'", "X'000000000000008000000000'"), nil, hexOf, nil, nil},
		{"GEOMETRY", false, choose("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(1 2)',4326)", "ST_GeomFromText('POINT(2 1)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"), nil, hexOf, nil, nil},
		{"POINT", false, shapes("POINT(%s 2)"), nil, hexOf, nil, nil},
		{"LINESTRING", false, shapes("LINESTRING(0 0,1 %s)"), nil, hexOf, nil, nil},
		{"POLYGON", false, shapes("POLYGON((0 0,1 0,1 %s,0 0))"), nil, hexOf, nil, nil},
		{"MULTIPOINT", false, shapes("MULTIPOINT((0 0),(%s 1))"), nil, hexOf, nil, nil},
		{"MULTILINESTRING", false, shapes("MULTILINESTRING((0 0,1 %s))"), nil, hexOf, nil, nil},
		{"MULTIPOLYGON", false, shapes("MULTIPOLYGON(((0 0,1 0,1 %s,0 0)))"), nil, hexOf, nil, nil},
		{"GEOMETRYCOLLECTION", false, shapes("GEOMETRYCOLLECTION(POINT(%s 1))"), nil, hexOf, nil, nil},
	}
)

// flip changes one bit of a number without a sign, flipSigned one below the sign.
func flip(bits int) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string {
		return fmt.Sprintf("CAST(%s AS UNSIGNED) ^ %d", column, uint64(1)<<r.IntN(bits))
	}
}

func flipSigned(bits int) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string {
		return fmt.Sprintf("CAST(%s ^ %d AS SIGNED)", column, uint64(1)<<r.IntN(bits))
	}
}

// either is one of some expressions of the column.
func either(formats ...string) func(*rand.Rand, string) string {
	return func(r *rand.Rand, column string) string { return fmt.Sprintf(formats[r.IntN(len(formats))], column) }
}

// letter changes one bit of the first letter, or little else.
func letter(charset string) func(*rand.Rand, string) string {
	bit := "IF(ORD(%[1]s) BETWEEN 48 AND 126, INSERT(%[1]s, 1, 1, CONVERT(CHAR(ORD(%[1]s) ^ 1 USING ascii) USING " + charset + ")), CONCAT(%[1]s, 'x'))"
	return either(bit, bit, bit, "CONCAT(%s,' ')", "UPPER(%s)", "LOWER(%s)", "REVERSE(%s)", "TRIM(%s)")
}

// octet changes one bit of some byte, of none where there are fewer.
func octet(r *rand.Rand, column string) string {
	at := 1 + r.IntN(4)
	return fmt.Sprintf("INSERT(%[1]s, %[2]d, 1, CHAR(ASCII(SUBSTRING(%[1]s, %[2]d, 1)) ^ %[3]d))", column, at, 1<<r.IntN(8))
}

func hexOfNumber(c string) string { return "HEX(CAST(" + c + " AS UNSIGNED))" }

func shapes(format string) func(*rand.Rand) string {
	var values []string
	for _, x := range []string{"1", "0.1", "0.10000000000000002", "-3", "5"} {
		values = append(values, "ST_GeomFromText('"+fmt.Sprintf(format, x)+"')", "ST_GeomFromText('"+fmt.Sprintf(format, x)+"',3857)")
	}
	return choose(values...)
}

func members(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("'m%d'", i)
	}
	return strings.Join(out, ",")
}

// Deck deals the kinds in turns, so that each is used in every few tables.
type Deck struct{ left []Kind }

// Deal is the next kind.
func (d *Deck) Deal(r *rand.Rand) Kind {
	if len(d.left) == 0 {
		d.left = slices.Clone(Kinds)
		r.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	k := d.left[0]
	d.left = d.left[1:]
	return k
}
