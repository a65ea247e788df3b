package copy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
	"github.com/vifl/vifl/pkg/seed/copy"
)

// Documents with SQL types inside are found and mended whatever the table's key is made of,
// and nothing else in their rows changes.
func TestTypesInsideJSONUnderEveryKindOfKey(t *testing.T) {
	source, target := mysqldtest.Start(t, mysqldtest.Options{Name: "source"}), mysqldtest.Start(t, mysqldtest.Options{Name: "target"})
	src, tgt := mysqldtest.Open(t, source), mysqldtest.Open(t, target)
	const doc = "JSON_OBJECT('sum', CAST(5 AS DECIMAL(20,0)), 'eight', CAST(12345.67 AS DECIMAL(10,2)), 'double', 12345.67e0, 'list', JSON_ARRAY(1, 'x', CAST('2024-02-29' AS DATE), CAST('11:12:13.5' AS TIME(1))), '\"odd\\\\ name', CAST(X'00FF' AS BINARY))"
	statements := []string{"CREATE DATABASE x CHARACTER SET utf8mb4", "USE x"}
	for name, key := range map[string][2]string{
		"k_enum":   {"ENUM('z','a') NOT NULL", "'a'"},
		"k_latin1": {"VARCHAR(10) CHARACTER SET latin1 NOT NULL", "_latin1 X'80E9'"},
		"k_utf16":  {"VARCHAR(10) CHARACTER SET utf16 NOT NULL", "'ä😀'"},
		"k_binary": {"VARBINARY(16) NOT NULL", "X'00FF2700'"},
		"k_bit":    {"BIT(20) NOT NULL", "b'10000000000000000011'"},
		"k_double": {"DOUBLE NOT NULL", "0.1e0"},
		"k_float":  {"FLOAT NOT NULL", "16777213"},
		"k_time":   {"TIME(6) NOT NULL", "'-00:00:00.000001'"},
		"k_date":   {"DATETIME(3) NOT NULL", "'2024-02-29 01:02:03.004'"},
		"k_number": {"DECIMAL(30,10) NOT NULL", "-12345678901234567890.0123456789"},
		"k_big":    {"BIGINT UNSIGNED NOT NULL", "18446744073709551615"},
		"k_year":   {"YEAR NOT NULL", "0"},
	} {
		statements = append(statements,
			"CREATE TABLE "+name+" (k "+key[0]+", j JSON, other JSON, upd TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), PRIMARY KEY (k))",
			"INSERT INTO "+name+" VALUES ("+key[1]+", "+doc+", '{\"plain\": [1, 2.5, \"2024-02-29\"]}', '2001-02-03 04:05:06.000007')",
			// A unique key in the place of the primary one, in which rows are in another order.
			"CREATE TABLE u_"+name+" (other INT NOT NULL, j JSON, k "+key[0]+", UNIQUE KEY u (k, other DESC), UNIQUE KEY a (other))",
			"INSERT INTO u_"+name+" VALUES (2, "+doc+", "+key[1]+"), (3, '[1]', "+key[1]+"), (1, "+doc+", "+key[1]+")")
	}
	run(t, src, statements...)
	res, err := copy.Fill(context.Background(), copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 2)}, target.Target("target"), copy.Options{Scratch: true})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, src, tgt, "x", res.Rows)
}

// A full disk is one clear error, and the fill ends at once.
func TestFullTablespaceIsOneClearError(t *testing.T) {
	source := mysqldtest.Start(t, mysqldtest.Options{Name: "source", Extra: []string{"max_allowed_packet=64M"}})
	// InnoDB gives the same error (1114) for a disk that is full and for a limit of its own.
	target := mysqldtest.Start(t, mysqldtest.Options{Name: "target", Extra: []string{"innodb_file_per_table=OFF", "innodb_data_file_path=ibdata1:12M:autoextend:max:24M", "max_allowed_packet=64M"}})
	src := mysqldtest.Open(t, source)
	run(t, src, "CREATE DATABASE x", "USE x", "CREATE TABLE big (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)",
		"INSERT INTO big (b) SELECT REPEAT('x', 1000000) FROM information_schema.collations LIMIT 60")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, err := copy.Fill(ctx, copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 2)}, target.Target("target"), copy.Options{Scratch: true})
	if err == nil || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), `"big"`) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, expected one line that names the table and says that the disk is full", err)
	}
}

// The error value of an ENUM (number 0) is not the member ”, and makes a warning that is
// meant; any other warning would stop the fill.
func TestEnumErrorValueAndEmptyMember(t *testing.T) {
	source, target := mysqldtest.Start(t, mysqldtest.Options{Name: "source"}), mysqldtest.Start(t, mysqldtest.Options{Name: "target"})
	src, tgt := mysqldtest.Open(t, source), mysqldtest.Open(t, target)
	run(t, src, "CREATE DATABASE x", "USE x", "SET sql_mode=''",
		"CREATE TABLE e (id INT PRIMARY KEY, a ENUM('x','','2') CHARACTER SET utf16, b SET('p','q','r') NOT NULL)",
		"INSERT INTO e VALUES (1,'x','p'),(2,'',''),(3,'bogus','r'),(4,0,'p,r'),(5,NULL,''),(6,'2','p'),(7,3,'p')")
	ctx := context.Background()
	res, err := copy.Fill(ctx, copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 1)}, target.Target("target"), copy.Options{Scratch: true})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, src, tgt, "x", res.Rows)

	_, err = copy.Fill(ctx, copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 1)}, target.Target("target"), copy.Options{Scratch: true})
	if err == nil || !strings.Contains(err.Error(), "create the database on target") {
		t.Errorf("filling a server that has the database already: %v", err)
	}
	run(t, tgt, "DROP DATABASE x")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := copy.Fill(stopped, copy.Source{Name: "source", Database: "x", Snapshots: snapshots(t, src, 1)}, target.Target("target"), copy.Options{Scratch: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
