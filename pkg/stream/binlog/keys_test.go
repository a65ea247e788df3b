package binlog

import (
	"fmt"
	"testing"
)

// keyTypes are the types that a primary key may have, with values of it, four different ones
// each.
var keyTypes = []struct {
	column string
	values [4]string
}{
	{"tinyint", [4]string{"0", "-1", "-128", "127"}},
	{"bigint", [4]string{"0", "-1", "-9223372036854775808", "9223372036854775807"}},
	{"bigint unsigned", [4]string{"0", "18446744073709551615", "9223372036854775808", "9223372036854775807"}},
	{"float", [4]string{"0.1", "-1.5", "3.402823466e38", "16777217"}},
	{"double", [4]string{"0.1", "-0.30000000000000004", "5e-324", "9007199254740993"}},
	{"decimal(40,20)", [4]string{"0.1", "-12345678901234567890.12345678901234567890", "0", "1"}},
	{"decimal(20,0)", [4]string{"9007199254740992", "9007199254740993", "-1", "99999999999999999999"}},
	{"bit(1)", [4]string{"0", "1", "", ""}},
	{"bit(64)", [4]string{"0", "18446744073709551615", "9223372036854775808", "1"}},
	{"year", [4]string{"'0000'", "1901", "2155", "2000"}},
	{"date", [4]string{"'0000-00-00'", "'2024-02-31'", "'2024-00-00'", "'9999-12-31'"}},
	{"datetime", [4]string{"'0000-00-00 00:00:00'", "'2024-02-29 12:34:56'", "'2024-00-00 00:00:00'", "'9999-12-31 23:59:59'"}},
	{"datetime(6)", [4]string{"'0000-00-00 00:00:00'", "'2024-02-29 12:34:56.000001'", "'2024-02-29 12:34:56'", "'9999-12-31 23:59:59.999999'"}},
	{"datetime(1)", [4]string{"'0000-00-00 00:00:00.1'", "'2024-02-29 12:34:56.1'", "'2024-02-29 12:34:56'", "'9999-12-31 23:59:59.9'"}},
	{"timestamp", [4]string{"'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2024-10-27 01:30:00'", "'2038-01-19 03:14:07'"}},
	{"timestamp(3)", [4]string{"'0000-00-00 00:00:00'", "'1970-01-01 00:00:01.001'", "'2024-10-27 01:30:00'", "'2038-01-19 03:14:07.999'"}},
	{"time", [4]string{"'00:00:00'", "'-00:00:01'", "'-838:59:59'", "'838:59:59'"}},
	{"time(3)", [4]string{"'00:00:00'", "'-00:00:00.001'", "'-838:59:58.999'", "'838:59:59'"}},
	{"char(5)", [4]string{"''", "'a'", "' b'", "'c''\\\\'"}},
	{"varchar(20)", [4]string{"''", "'a  '", "'😀'", "'1'"}},
	{"varchar(20) collate utf8mb4_bin", [4]string{"''", "'A'", "'a'", "'10'"}},
	{"varchar(20) character set latin1", [4]string{"''", "x'e9'", "'a'", "'\\\\'"}},
	{"varchar(20) character set latin1 collate latin1_bin", [4]string{"''", "x'e9'", "x'c9'", "'\\\\'"}},
	{"varchar(20) character set sjis", [4]string{"''", "_sjis 0x835c", "_sjis 0x835c8e5c", "'a'"}},
	{"varchar(20) character set utf16", [4]string{"''", "'😀'", "'a'", "'\\\\'"}},
	{"varchar(20) character set ascii", [4]string{"''", "'x'", "'a'", "'\\\\'"}},
	{"binary(4)", [4]string{"''", "x'01'", "x'00000001'", "x'ffff'"}},
	{"varbinary(9)", [4]string{"''", "x'00'", "x'0000'", "x'275cff'"}},
	{"enum('9','b','1')", [4]string{"1", "2", "3", ""}},
	{"enum('x','y','') character set latin1", [4]string{"'bad'", "1", "''", "2"}},
	{"set('a','b','3')", [4]string{"0", "1", "7", "4"}},
}

// Rows are found by keys of every type, alone and beside another column, when they are
// changed, moved and deleted, in one batch and one by one.
func TestKeysOfEveryType(t *testing.T) {
	setup := []string{"set sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'"}
	var definitions, inserts, changes, deletes []string
	var tables []string
	for i, k := range keyTypes {
		for _, shape := range []struct{ name, columns string }{
			{"alone", "primary key (k)"}, {"first", "primary key (k, m)"}, {"last", "primary key (m, k)"}, {"uniq", "primary key (k, m), unique (u)"},
		} {
			table := fmt.Sprintf("%s%d", shape.name, i)
			tables = append(tables, table)
			definitions = append(definitions, "create table "+table+" (k "+k.column+" not null, m int not null, u int, n int, "+shape.columns+")")
			for j, v := range k.values {
				if v == "" {
					continue
				}
				where := fmt.Sprintf(" where m = %d", j)
				inserts = append(inserts, fmt.Sprintf("insert ignore into %s values (%s, %d, %d, 1)", table, v, j, j))
				switch j {
				case 0:
					changes = append(changes, "update "+table+" set n = 2"+where)
				case 1:
					changes = append(changes, "update "+table+" set n = 3"+where, "update "+table+" set m = m + 100"+where)
				case 2:
					deletes = append(deletes, "delete from "+table+where)
				case 3:
					deletes = append(deletes, "update "+table+" set k = "+k.values[2]+where, "delete from "+table+where)
				}
			}
			deletes = append(deletes, "delete from "+table+" where m = 0")
		}
	}
	r := begun(t, options(), append(append([]string{}, setup...), definitions...)...)
	run := func(statements []string) {
		t.Helper()
		do(t, world.legacy, append(append([]string{"use " + database, "begin"}, setup...), append(statements, "commit")...)...)
	}
	for _, statements := range [][]string{inserts, changes, deletes} {
		run(statements)
		r.stopAtEnd()
		same(t, tables...)
		r.resume()
	}
	r.stopAtEnd()
	// Once more, as one batch of many transactions.
	var all []string
	for _, table := range tables {
		all = append(all, "delete from "+table)
	}
	for _, statements := range [][]string{all, inserts, changes, deletes, all, inserts} {
		for len(statements) > 0 {
			n := min(20, len(statements))
			run(statements[:n:n])
			statements = statements[n:]
		}
	}
	r.stopAtEnd()
	same(t, tables...)
}
