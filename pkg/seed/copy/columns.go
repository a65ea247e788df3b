package copy

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/schema"
)

// transfer is how one table's rows are read and written.
type transfer struct {
	selectList string
	// load is the LOAD DATA statement without the reader's name, which goes where %s is.
	load string
	// years marks the columns of type YEAR: the driver hands their value over as a number,
	// and 0 written as "0" would be stored as 2000.
	years []bool
	// enums are the places of ENUM columns, whose error value makes a warning that is meant.
	enums []int
	jsons []jsonColumn
	keys  []keyColumn
	// width is how many columns are loaded; behind them a row has what is needed to mend
	// JSON documents.
	width   int
	columns int
}

// keyColumn is a column of the key that tells rows apart and its place in a row.
type keyColumn struct {
	column *schema.Column
	place  int
}

// fieldFormat is LOAD DATA's own default, spelled out; encode writes it.
const fieldFormat = ` CHARACTER SET binary FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' `

func newTransfer(t *schema.Table) *transfer {
	x := &transfer{}
	var read, into, set []string
	for _, c := range t.Columns {
		if c.Generated != "" {
			continue
		}
		name := schema.Quote(c.Name)
		variable := fmt.Sprintf("@v%d", len(read))
		x.years = append(x.years, c.Type == "year")
		switch c.Type {
		case "enum", "set":
			// By number: the text '' may be a member or the error value, and two members may
			// be one under the column's collation.
			if c.Type == "enum" {
				x.enums = append(x.enums, len(read))
			}
			read = append(read, readExpression(&c))
			into = append(into, variable)
			set = append(set, name+"=CAST("+variable+" AS UNSIGNED)")
		case "json":
			// The server takes no JSON from binary text.
			x.jsons = append(x.jsons, jsonColumn{name: c.Name, place: len(read)})
			read = append(read, name)
			into = append(into, variable)
			set = append(set, name+"=CONVERT("+variable+" USING utf8mb4)")
		case "float":
			read = append(read, readExpression(&c))
			into = append(into, name)
		default:
			read = append(read, name)
			into = append(into, name)
		}
	}
	x.width = len(read)
	if len(x.jsons) > 0 {
		for i, c := range x.jsons {
			x.jsons[i].size = len(read)
			read = append(read, storageSize(schema.Quote(c.name)))
		}
		_, key := t.RowKey()
		for _, k := range key {
			c := t.Column(k.Column)
			x.keys = append(x.keys, keyColumn{c, len(read)})
			read = append(read, readExpression(c))
		}
	}
	x.columns = len(read)
	x.selectList = strings.Join(read, ",")
	x.load = "LOAD DATA LOCAL INFILE 'Reader::%s' INTO TABLE " + percent(schema.Quote(t.Name)) + fieldFormat + "(" + percent(strings.Join(into, ",")) + ")"
	if len(set) > 0 {
		x.load += " SET " + percent(strings.Join(set, ","))
	}
	return x
}

// readExpression is how a column's value is read.
func readExpression(c *schema.Column) string {
	name := schema.Quote(c.Name)
	switch c.Type {
	case "enum", "set":
		return name + "+0"
	case "float":
		// Printed as FLOAT a value has six digits, stored it has up to nine.
		return "CAST(" + name + " AS DOUBLE)"
	}
	return name
}

// percent protects a name that holds a percent sign from Sprintf.
func percent(s string) string { return strings.ReplaceAll(s, "%", "%%") }
