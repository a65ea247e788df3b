package transaction_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// edge are columns with values at their edges, as SQL on the legacy.
var edge = []struct {
	column string
	values []string
}{
	{"tinyint", []string{"0", "-1", "-128", "127"}}, {"tinyint unsigned", []string{"0", "128", "255"}}, {"tinyint(1)", []string{"0", "1", "2"}},
	{"smallint", []string{"-32768", "32767", "-1"}}, {"smallint unsigned", []string{"65535"}},
	{"mediumint", []string{"-8388608", "8388607", "-1"}}, {"mediumint unsigned", []string{"16777215"}},
	{"int", []string{"-2147483648", "2147483647", "-1"}}, {"int unsigned zerofill", []string{"4294967295", "7"}},
	{"bigint", []string{"-9223372036854775808", "9223372036854775807", "-1", "0"}}, {"bigint unsigned", []string{"18446744073709551615", "9223372036854775808", "0"}},
	{"float", []string{"0", "-0e0", "1.4e-45", "3.402823466e38", "16777217", "0.1", "0.123456791", "-8388609.5", "4.35"}}, {"float unsigned", []string{"0.7"}}, {"float(7,3)", []string{"1234.567", "0.001"}},
	{"double", []string{"0", "-0e0", "5e-324", "1.7976931348623157e308", "0.1", "0.30000000000000004", "9007199254740993", "1e15", "1e16", "-2.2250738585072014e-308"}}, {"double(12,4)", []string{"12345678.1234"}},
	{"decimal(65,30)", []string{"99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001", "0", "-12345678901234567890.5"}},
	{"decimal(10,0)", []string{"-9999999999", "0", "1"}}, {"decimal(9,9)", []string{"0.123456789", "-0.1"}}, {"decimal(18,9) unsigned", []string{"123456789.000000001"}}, {"decimal(1,1)", []string{"-0.9", "0.0"}}, {"decimal(65,0)", []string{"-99999999999999999999999999999999999999999999999999999999999999999"}},
	{"bit", []string{"0", "1"}}, {"bit(9)", []string{"b'101010101'", "0"}}, {"bit(64)", []string{"18446744073709551615", "0", "1"}},
	{"year", []string{"'0000'", "1901", "2155", "2024"}},
	{"date", []string{"'0000-00-00'", "'2024-00-00'", "'2024-02-00'", "'0000-01-01'", "'9999-12-31'", "'1000-01-01'", "'2024-02-31'"}},
	{"datetime", []string{"'0000-00-00 00:00:00'", "'2024-00-00 00:00:00'", "'9999-12-31 23:59:59'", "'0001-01-01 00:00:00'"}},
	{"datetime(1)", []string{"'2024-02-29 12:34:56.9'"}}, {"datetime(3)", []string{"'2024-02-29 12:34:56.009'"}}, {"datetime(4)", []string{"'2024-02-29 12:34:56.0009'"}}, {"datetime(6)", []string{"'2024-02-29 23:59:59.999999'", "'0000-00-00 00:00:00'", "'1000-01-01 00:00:00.000001'"}},
	{"timestamp null", []string{"'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"}}, {"timestamp(2) null", []string{"'2024-10-27 01:30:00.05'"}}, {"timestamp(5) null", []string{"'2024-10-27 01:30:00.00005'"}}, {"timestamp(6) null", []string{"'2038-01-19 03:14:07.999999'", "'0000-00-00 00:00:00'", "'1970-01-01 00:00:01.000001'"}},
	{"time", []string{"'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'"}}, {"time(1)", []string{"'-00:00:00.1'", "'838:59:59.0'"}}, {"time(2)", []string{"'-00:00:00.01'", "'-100:00:00.99'"}}, {"time(3)", []string{"'-00:00:00.001'"}}, {"time(4)", []string{"'-00:00:00.0001'"}}, {"time(5)", []string{"'-12:00:00.00001'"}}, {"time(6)", []string{"'-00:00:00.000001'", "'-838:59:58.999999'", "'-12:34:56.000001'", "'24:00:00.5'"}},
	{"char(10)", []string{"''", "'a'", "' a '", "'it''s'", "'\\\\'", "'\\0'"}}, {"char(255) character set utf8mb4", []string{"repeat('😀', 255)", "'é'"}}, {"char(0)", []string{"''"}},
	{"varchar(200) character set utf8mb4", []string{"'😀'", "'a\\0b\\n\\r\\Z\\t\"\\'\\\\'", "'a  '", "'\\\\'''", "'%_'"}}, {"varchar(16000)", []string{"repeat('é', 16000)", "repeat('\\'\\\\', 5000)"}},
	{"varchar(20) character set latin1", []string{"x'ff80e9'", "'plain'", "x'275c'", "''"}}, {"varchar(20) character set ascii", []string{"'plain'", "x'5c'"}}, {"varchar(20) character set utf8mb3", []string{"'éa'", "'plain'"}},
	{"varchar(20) character set utf16", []string{"'😀a\\'\\\\'", "''", "_utf16 0x275c5c27"}}, {"varchar(20) character set utf16le", []string{"'a\\\\😀'"}}, {"varchar(20) character set ucs2", []string{"'aé'", "_ucs2 0x5c275c5c"}}, {"char(20) character set utf32", []string{"'😀a '"}},
	{"varchar(20) character set gbk", []string{"'赲'", "_gbk 0xd55cd55c275c"}}, {"varchar(20) character set big5", []string{"_big5 0xa55cb35c5c27"}}, {"varchar(20) character set sjis", []string{"_sjis 0x835c8e5c27"}}, {"varchar(20) character set cp932", []string{"_cp932 0x835c5c7e"}}, {"varchar(20) character set gb18030", []string{"'赲😀'"}}, {"varchar(20) character set swe7", []string{"'Å'", "_swe7 0x5b5c27"}}, {"varchar(20) character set koi8r", []string{"'я'"}}, {"varchar(20) character set eucjpms", []string{"'あ'"}}, {"varchar(20) character set dec8", []string{"x'e9'"}},
	{"text character set latin1", []string{"''", "repeat(x'e9', 65535)"}}, {"tinytext", []string{"''", "'x'"}}, {"mediumtext", []string{"repeat('😀\\'', 200000)"}}, {"longtext character set ucs2", []string{"'aé'", "''"}},
	{"binary(4)", []string{"''", "x'00'", "x'01'", "x'ff00'", "x'00000001'", "'    '"}}, {"binary(255)", []string{"x'ff'"}}, {"binary(0)", []string{"''"}}, {"varbinary(20)", []string{"''", "x'00'", "x'275c'", "x'fffe00'"}}, {"varbinary(3000)", []string{"repeat(x'27', 3000)"}},
	{"tinyblob", []string{"''", "x'00'"}}, {"blob", []string{"repeat(x'ff', 65535)", "''"}}, {"mediumblob", []string{"repeat(x'5c00', 100000)"}}, {"longblob", []string{"x'e4b8'", "''"}},
	{"enum('a','','b')", []string{"'a'", "''", "3", "'bad'"}}, {"enum('x,y','it''s','ü') character set latin1", []string{"1", "2", "3"}}, {"enum(" + members(300) + ")", []string{"300", "1", "256"}},
	{"set('a','b')", []string{"''", "3"}}, {"set(" + members(64) + ")", []string{"18446744073709551615", "9223372036854775808", "0", "1"}}, {"set(" + members(17) + ")", []string{"131071"}}, {"set(" + members(33) + ")", []string{"8589934591"}},
	{"geometry", []string{"st_geomfromtext('point(1.5 -2.25)')", "st_geomfromtext('point(3 4)', 4326)", "st_geomfromtext('geometrycollection empty')", "st_geomfromtext('geometrycollection(point(1 1),linestring(0 0,1 1))', 3857)"}}, {"point srid 4326", []string{"st_geomfromtext('point(51 7)', 4326)"}}, {"polygon srid 0", []string{"st_geomfromtext('polygon((0 0,4 0,4 4,0 4,0 0))')"}},
	{"json", nil}, {"vector(3)", []string{"string_to_vector('[1,-0.5,3e30]')"}},
}

func members(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("'m%d'", i)
	}
	return strings.Join(out, ",")
}

// documents are JSON documents as SQL.
var documents = []string{
	`'null'`, `'true'`, `'false'`, `'0'`, `'-1'`, `'1.0'`, `'-0.0'`, `'1e300'`, `'5e-324'`, `'""'`, `'"it\'s \\"q\\" \\\\ \\u0000 \\n 😀"'`, `'[]'`, `'{}'`,
	`'[1, 1.0, 1e0, 100000000000000000000, 1e100, -0.0, 32767, 32768, 65535, 65536, 2147483648, -2147483649, 4294967296, 9223372036854775807, 9223372036854775808, -9223372036854775808, 18446744073709551615]'`,
	`'{"": 0, " ": 1, "\\"": 2, "\\\\": 3, "it\'s": 4, "é": 5, "😀": {"\\u0000": "\\u0000"}, "$.a": 6, "<&>\\u2028": 7}'`,
	`'[0.1, 0.30000000000000004, 2.2250738585072014e-308, 1.7976931348623157e308, 123456789.12345679, 1e22, 1e21, 123456789012345680000]'`,
	`json_array(cast(169.09 as decimal(10,2)), cast(0 as decimal(10,2)), cast(-0.10 as decimal(10,2)), cast(12 as decimal(5,0)), cast(0.5 as decimal(2,2)), cast('12345678901234567890.123456789' as decimal(40,20)), -1.50, 1.5e0)`,
	`cast(169.09 as json)`, `cast(cast(12 as decimal(5,0)) as json)`, `cast(18446744073709551615 as json)`, `cast(cast(5 as unsigned) as json)`, `json_array(cast(5 as unsigned), cast(70000 as unsigned), cast(5000000000 as unsigned))`,
	`cast(cast('2024-02-29' as date) as json)`, `cast(cast('-12:34:56.000789' as time(6)) as json)`, `cast(cast('2024-02-29 23:59:59.999999' as datetime(6)) as json)`, `cast(timestamp'2024-02-29 23:59:59' as json)`,
	`json_object('bin', cast(x'00ff8041' as binary), 'd', cast('2001-01-01' as date), 't', cast('838:59:59' as time), 'n', null, 'b', true, 's', 'it''s \\ "', 'o', json_object('x', json_array(1, 'two', 3.0e0)), 'i', -9223372036854775808, 'u', 18446744073709551615)`,
	`json_array(cast('1000-01-01' as date), cast('00:00:00' as time), cast('-00:00:01' as time(6)))`, `json_array(x'00ff')`, `cast(cast(x'2700' as binary) as json)`,
	`json_object('long', repeat('k', 70000), 'after', 1.50)`, `json_array(repeat('é', 40000), 1, 100000, cast(3000000000 as unsigned))`, `concat(repeat('[', 99), repeat(']', 99))`, `concat(repeat('{"a":[', 49), '1.5', repeat(']}', 49))`,
	`json_object(repeat('k', 200), 1, repeat('l', 300), json_array(cast(1.1 as decimal(2,1))))`,
}

// column types inside JSON come from columns.
const fromColumns = `(select json_array(tb, b, mb, lb, bi, vb, bt, y, dt, ts, t, d, e, s, de, tu, bu, f) from everything.types)`

// values: rows with edge values of every type are inserted, changed and deleted; what the
// literals store is what the server stored.
func values(t *testing.T, l *legacy) {
	l.run(t, "drop database if exists everything", "create database everything",
		"create table everything.types (id int primary key, tb tinyblob, b blob, mb mediumblob, lb longblob, bi binary(3), vb varbinary(10), bt bit(9), y year, dt datetime(3), ts timestamp(2), t time(3), d date, e enum('a','b'), s set('x','y'), de decimal(10,3), tu tinyint unsigned, bu bigint unsigned, f float)",
		`insert into everything.types values (1, 'a', 'a', 'a', 'a', 'a', 'a', b'101', 2024, '2024-01-02 03:04:05.678', '2024-01-02 03:04:05.67', '-12:34:56.789', '2024-01-02', 'b', 'x,y', '-0.5', 5, 5, 1.1)`)
	var statements []string
	tables := 0
	for i := range edge {
		e := &edge[i]
		vs := e.values
		if e.column == "json" {
			vs = append(append([]string{}, documents...), fromColumns)
			r := rand.New(rand.NewSource(1))
			for range 100 {
				vs = append(vs, fmt.Sprintf("'[%v, %v]'", r.NormFloat64(), r.ExpFloat64()*1e40))
			}
		}
		table := fmt.Sprintf("everything.t%d", i)
		tables++
		statements = append(statements, "create table "+table+" (id int primary key, c "+e.column+", g int as (id + 1) virtual, h int as (id + 2) stored, n int not null default 0 invisible)")
		e.values = vs
	}
	l.run(t, statements...)
	l.copySchema(t, "everything")
	l.target(t).exec("insert into copied.types select * from everything.types")
	from := l.end(t)
	statements = []string{"set sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'"}
	for i, e := range edge {
		table := fmt.Sprintf("everything.t%d", i)
		for j, v := range e.values {
			statements = append(statements, fmt.Sprintf("insert into %s (id, c) values (%d, %s), (%d, null), (%d, %s)", table, j, v, 1000+j, 2000+j, v))
		}
		statements = append(statements,
			"update "+table+" set n = n + 1 where id < 500",
			"update "+table+" t, (select id, c from "+table+" where id < 1000) o set t.c = o.c where t.id = o.id + 1000",
			"update "+table+" set c = null where id >= 2000",
			"delete from "+table+" where id >= 2000 and id % 2 = 0")
	}
	l.run(t, statements...)
	parts, err := l.read(t, l.reader("everything"), from, l.end(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := l.target(t).apply(parts); n < 500 {
		t.Errorf("found %d changes", n)
	}
	if n := l.same(t, "everything"); n < 500 {
		t.Errorf("compared %d rows", n)
	}
}
