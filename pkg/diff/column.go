package diff

import (
	"fmt"

	"github.com/vifl/vifl/pkg/schema"
)

// class says how a column's stored value becomes bytes.
type class int

const (
	plain    class = iota // a number or a date: its text is exact, holds no comma and is never "N"
	real                  // FLOAT and DOUBLE: exact only as a DOUBLE (FLOAT prints six digits) printed as JSON
	number                // ENUM, SET, BIT: the stored number (two ENUM members can print alike)
	text                  // bytes of any length in a character set
	bytes                 // bytes of any length
	document              // JSON
)

// classOf is an error for a type that nobody has thought about: guessing could compare a
// rounded or shortened value.
func classOf(c *schema.Column) (class, error) {
	switch c.Type {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "time", "datetime", "timestamp", "year":
		return plain, nil
	case "float", "double":
		return real, nil
	case "enum", "set", "bit":
		return number, nil
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return text, nil
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection":
		return bytes, nil
	case "json":
		return document, nil
	}
	return 0, fmt.Errorf("column %q has the type %q, which cannot be compared yet", c.Name, c.ColumnType)
}

// exactText is an expression whose text is the stored value of a column that is neither
// text, bytes nor a document.
func exactText(c *schema.Column, k class) string {
	name := schema.Quote(c.Name)
	switch k {
	case real:
		// +0 or *1 would turn -0 into 0; the cast keeps it. MySQL prints a DOUBLE in at most 22
		// characters, and then rounds -4.4772314892380536e-298 to fifteen digits; as JSON it
		// prints all of them.
		return "CAST(CAST(CAST(" + name + " AS DOUBLE) AS JSON) AS CHAR)"
	case number:
		// +0 is a DOUBLE for SET, which loses members beyond 53.
		return "CAST(" + name + " AS UNSIGNED)"
	}
	return name
}

// canonical lists the parts of a row's canonical form. Every part of head has no comma
// inside, and their number is fixed; tail are raw bytes whose lengths stand in head. So
// joining head by commas and appending tail is read back in one way only: values cannot
// move over a column's border, and N for NULL is no number, date or length.
//
// wide is the form for rows that do not fit into max_allowed_packet: values of variable
// length are hashed one by one. A NULL that is not a stored NULL (an expression that was
// too large for the server) must make the whole row NULL, hence IF(c IS NULL, …) and never
// IFNULL(f(c), …) around such an expression.
func canonical(c *schema.Column, k class, wide bool) (head []string, tail string) {
	name := schema.Quote(c.Name)
	null := func(marker, expr string) string {
		if !c.Nullable {
			return expr
		}
		return "IF(" + name + " IS NULL," + marker + "," + expr + ")"
	}
	length := "LENGTH(" + name + ")"
	switch k {
	case plain, real, number:
		expr := exactText(c, k)
		if c.Nullable {
			expr = "IFNULL(" + expr + ",_binary'N')"
		}
		return []string{expr}, ""
	case document:
		kind := "JSON_TYPE(" + name + ")"
		if !wide {
			// A fresh array around the document makes the server write it anew: the size of the
			// stored document itself also tells how it was updated in place.
			kind = "CONCAT(" + kind + ",JSON_STORAGE_SIZE(JSON_ARRAY(" + name + ")),'|'," + realsSQL(name) + ")"
		}
		head = append(head, null("_binary'N'", kind))
		// The text of a document larger than max_allowed_packet is an empty string (MySQL 9.7),
		// equal to any other such text; no document's text is empty.
		length = "NULLIF(" + length + ",0)"
		if wide {
			head = append(head, null("_binary'N'", length))
		}
	}
	if wide {
		return append(head, null("_binary'N'", "SHA2("+name+",256)")), ""
	}
	return append(head, null("_binary'N'", length)), null("_binary''", "CAST("+name+" AS BINARY)")
}

// realsSQL is a hash of which numbers inside a document are DOUBLE and which DECIMAL:
// [12345.5] of either type has the same text and the same size. It costs several times the rest of the
// hash, so it is computed only of documents whose text has digits around a point; all others
// hold no DOUBLE that prints like a DECIMAL. The names are such that no column of the table
// has them.
func realsSQL(name string) string {
	return "IF(REGEXP_LIKE(" + name + ",'[0-9][.][0-9]'),(SELECT HEX(BIT_XOR(UNHEX(SHA2(CONCAT(`vifl:at`,JSON_TYPE(`vifl:value`)),256))))" +
		" FROM JSON_TABLE(JSON_EXTRACT(JSON_ARRAY(" + name + "),'$**[*]','$**.*'),'$[*]' COLUMNS(`vifl:at` FOR ORDINALITY,`vifl:value` JSON PATH '$')) `vifl:reals`" +
		" WHERE JSON_TYPE(`vifl:value`) IN ('DOUBLE','DECIMAL')),'')"
}

// concat joins canonical parts to one binary string.
func concat(heads, tails []string) string {
	out := "CONCAT("
	for i, h := range heads {
		if i > 0 {
			out += ","
		}
		// The separator is binary, so that the whole is: no part is converted to another
		// character set, in which different bytes may become the same question mark.
		out += h + ",_binary','"
	}
	for _, t := range tails {
		out += "," + t
	}
	return out + ")"
}
