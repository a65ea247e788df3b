package inspect

import (
	"strings"
	"unicode"

	"vitess.io/vitess/go/vt/sqlparser"
)

// Class is what a statement in a binlog means for a stream of one database.
type Class int

// Classes of statements.
const (
	// Nothing has no effect on the database's tables: accounts and grants, FLUSH, ANALYZE,
	// savepoints, DDL of other databases.
	Nothing Class = iota
	// Begin and End are the borders of a transaction.
	Begin
	End
	// Change changes rows and was logged as a statement instead of as rows.
	Change
	// Definition changes the database's tables, views, routines, triggers or events.
	Definition
	// XA belongs to a distributed transaction.
	XA
	// Unknown could mean anything.
	Unknown
)

// Statement says what a statement from a binlog means for a stream of the database. kind
// is its first words, such as ALTER TABLE, which hold no data and no password: a statement
// itself must never reach a log (CREATE USER carries the password's hash).
func Statement(sql, defaultDatabase, database string) (class Class, kind string) {
	words := firstWords(sql, 4)
	kind = kindOf(words)
	switch at(words, 0) {
	case "":
		if strings.HasPrefix(sql, "#") || strings.HasPrefix(sql, "--") || strings.HasPrefix(sql, "/*") {
			return Nothing, "a comment"
		}
		return Unknown, kind
	case "BEGIN":
		return Begin, kind
	case "START":
		if at(words, 1) == "TRANSACTION" {
			return Begin, kind
		}
	case "COMMIT":
		return End, kind
	case "SAVEPOINT":
		return Nothing, kind
	case "XA":
		return XA, kind
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO", "SELECT":
		return Change, kind
	case "GRANT", "REVOKE":
		return Nothing, kind
	case "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK":
		return Nothing, kind
	case "SET":
		switch at(words, 1) {
		case "PASSWORD", "DEFAULT", "ROLE":
			return Nothing, kind
		}
		return Unknown, kind
	case "CREATE", "ALTER", "DROP", "RENAME":
		switch object := objectOf(words); object {
		case "USER", "ROLE":
			return Nothing, kind
		case "SERVER", "TABLESPACE", "UNDO", "LOGFILE", "INSTANCE", "RESOURCE":
			return Nothing, kind
		}
		return definition(sql, defaultDatabase, database), kind
	case "TRUNCATE", "IMPORT":
		return definition(sql, defaultDatabase, database), kind
	}
	return Unknown, kind
}

// Understood reports a statement that the parser understands: Statement then judges it by
// the tables it names, and otherwise by whether the database's name occurs in it.
func Understood(sql string) bool {
	_, err := parse(sql)
	return err == nil
}

// parse is Vitess' parser, the one that decides in VReplication too. The version is that of
// no server: text in a comment such as /*!90000 , slack.t */ counts on a server of 9.0 and
// is seen here.
func parse(sql string) (sqlparser.Statement, error) {
	p, err := sqlparser.New(sqlparser.Options{MySQLServerVersion: "99.99.99"})
	if err != nil {
		return nil, err
	}
	// What CREATE TABLE … SELECT is logged as has an end that the parser does not know.
	sql = strings.TrimSuffix(sql, " START TRANSACTION")
	// Not Parse: that logs a DDL which it does not understand, and judges it by its head.
	return p.ParseStrictDDL(sql)
}

// definition says whether a DDL is about the database.
func definition(sql, defaultDatabase, database string) Class {
	belongs := func(qualifier string) bool {
		if qualifier == "" {
			qualifier = defaultDatabase
		}
		// Two names that differ in case may be one (lower_case_table_names): when in doubt
		// it is ours.
		return strings.EqualFold(qualifier, database)
	}
	// One that the parser does not understand is judged by the names it mentions.
	byMention := func() Class {
		if belongs("") || defaultDatabase == "" || strings.Contains(strings.ToLower(sql), strings.ToLower(database)) {
			return Definition
		}
		return Nothing
	}
	stmt, err := parse(sql)
	if err != nil {
		return byMention()
	}
	switch stmt := stmt.(type) {
	case *sqlparser.DropTable:
		if stmt.Temp {
			return Nothing
		}
	case *sqlparser.CreateTable:
		if stmt.Temp {
			return Nothing
		}
	case sqlparser.DBDDLStatement:
		if strings.EqualFold(stmt.GetDatabaseName(), database) || stmt.GetDatabaseName() == "" && belongs("") {
			return Definition
		}
		return Nothing
	}
	ddl, ok := stmt.(sqlparser.DDLStatement)
	if !ok {
		return byMention()
	}
	tables := append(append(sqlparser.TableNames{}, ddl.GetFromTables()...), ddl.GetToTables()...)
	tables = append(tables, ddl.AffectedTables()...)
	if t := ddl.GetTable(); !t.IsEmpty() {
		tables = append(tables, t)
	}
	for _, t := range tables {
		if belongs(t.Qualifier.String()) {
			return Definition
		}
	}
	if len(tables) == 0 && belongs("") {
		return Definition
	}
	return Nothing
}

// firstWords are the first n words of a statement in capitals, comments and punctuation
// left out. A statement in an executable comment (/*!…*/) has a first word of its own.
func firstWords(sql string, n int) []string {
	var words []string
	for len(words) < n {
		sql = strings.TrimLeftFunc(sql, func(r rune) bool { return unicode.IsSpace(r) || r == '(' || r == ';' })
		switch {
		case sql == "":
			return words
		case strings.HasPrefix(sql, "/*!"):
			// Its text counts on servers of that version.
			sql = strings.TrimLeft(sql[3:], "0123456789")
			continue
		case strings.HasPrefix(sql, "*/"):
			sql = sql[2:]
			continue
		case strings.HasPrefix(sql, "/*"):
			end := strings.Index(sql, "*/")
			if end < 0 {
				return words
			}
			sql = sql[end+2:]
			continue
		case strings.HasPrefix(sql, "--") || strings.HasPrefix(sql, "#"):
			end := strings.IndexByte(sql, '\n')
			if end < 0 {
				return words
			}
			sql = sql[end+1:]
			continue
		}
		end := strings.IndexFunc(sql, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
		if end == 0 {
			return words
		}
		if end < 0 {
			end = len(sql)
		}
		words = append(words, strings.ToUpper(sql[:end]))
		sql = sql[end:]
	}
	return words
}

func at(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}

// objectOf is what a CREATE, ALTER, DROP or RENAME is about, as far as that can be told
// from its words.
func objectOf(words []string) string {
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "OR", "REPLACE", "TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "AGGREGATE":
			continue
		}
		return words[i]
	}
	return ""
}

// kindOf names a statement by words that the grammar owns; what follows could be a name or
// a password.
func kindOf(words []string) string {
	switch at(words, 0) {
	case "":
		return "a statement"
	case "CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE", "ANALYZE", "REPAIR", "CHECK", "IMPORT":
		switch object := objectOf(words); object {
		case "TABLE", "TABLES", "USER", "ROLE", "DATABASE", "SCHEMA", "INDEX", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "SERVER", "TABLESPACE", "INSTANCE":
			return words[0] + " " + object
		case "DEFINER", "ALGORITHM", "SQL":
			return words[0] + " with a definer"
		}
		return words[0]
	case "SET", "START", "XA":
		switch at(words, 1) {
		case "PASSWORD", "DEFAULT", "ROLE", "TRANSACTION", "END", "PREPARE", "COMMIT", "ROLLBACK", "BEGIN":
			return words[0] + " " + words[1]
		}
		return words[0]
	case "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO", "SELECT", "GRANT", "REVOKE", "FLUSH":
		return words[0]
	}
	return "a statement"
}
