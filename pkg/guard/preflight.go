package guard

import (
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/state"
)

// check is one preflight check: a pure function over the facts. It lives in a file of its
// own. It returns what it found good as well, so that the table says what was looked at.
type check struct {
	id, name string
	run      func(*Facts) []Finding
}

// checks in the order in which they are shown. Numbers are never used again for something
// else.
var checks = []check{
	{"P01", "server answers", serverAnswers},
	{"P02", "server version", serverVersion},
	{"P03", "sides replicate from each other", sidesArePair},
	{"P04", "replication runs", replicationRuns},
	{"P05", "database exists", databaseExists},
	{"P06", "teams of mains are in the data", teamsMatch},
	{"P07", "mains answers, and can be changed", mainsUsable},
	{"P08", "mains serves the shard from here", mainsServes},
	{"P09", "schema equal on both sides", schemaEqual},
	{"P10", "own grants", ownGrants},
	{"P11", "grants of the stream's account", streamGrants},
	{"P12", "replication account survives offline_mode", replicationAccount},
	{"P13", "accounts that pierce a freeze", piercingAccounts},
	{"P14", "binlog is written", binlogOn},
	{"P15", "binlog format", binlogFormat},
	{"P16", "binlog row image", rowImage},
	{"P17", "binlog row value options", rowValueOptions},
	{"P18", "binlog compression", compression},
	{"P19", "binlog rows query events", rowsQuery},
	{"P20", "positions are file and offset", gtidOff},
	{"P21", "binlog filters", binlogFilters},
	{"P22", "replication filters", replicationFilters},
	{"P23", "replicated writes are logged", logReplicaUpdates},
	{"P24", "binlog retention", retention},
	{"P25", "durable settings", durable},
	{"P26", "auto_increment settings", autoIncrement},
	{"P27", "sides take writes", writable},
	{"P28", "prepared XA transactions", noPreparedXA},
	{"P29", "storage engines", engines},
	{KeysID, KeysName, primaryKeys},
	{"P31", "foreign keys", foreignKeys},
	{"P32", "triggers", triggers},
	{"P33", "events", events},
	{"P34", "stored procedures and functions", routines},
	{"P35", "views", views},
	{"P36", "table names", tableNames},
	{"P37", "columns", columns},
	{"P38", "character sets and collations", collations},
	{"P39", "sql_mode", sqlMode},
	{"P40", "time zone", timeZone},
	{"P41", "isolation level", isolation},
	{"P42", "case of table names", lowerCase},
	{"P43", "disk space for the seed", diskSpace},
	{"P44", "applier reports often", checkpointPeriod},
	{"P46", "values that vreplication changes", changedValues},
	{"P47", "grants for the way back", backGrants},
	{"P48", "queries are audited", audited},
}

// KeysID and KeysName are of what a diff says again of a table whose key was dropped since.
const KeysID, KeysName = "P30", "primary keys"

// CloneID and CloneName are of what a seed by clone asks its donor besides.
const CloneID, CloneName = "P45", "side can be cloned"

// Preflight runs all checks. A side that could not be asked has one finding, its own; the
// checks that need it leave it out.
func Preflight(f *Facts) []Finding {
	var out []Finding
	for _, c := range checks {
		for _, found := range together(c.run(f)) {
			found.ID, found.Name = c.id, c.name
			out = append(out, found)
		}
	}
	return out
}

// together makes one line of what is good on both sides alike.
func together(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		if n := len(out); n > 0 && f.Level == OK && out[n-1].Level == OK && out[n-1].Found == f.Found {
			out[n-1].Server += ", " + f.Server
			continue
		}
		out = append(out, f)
	}
	return out
}

// onSides runs a check on each side that could be asked.
func onSides(f *Facts, run func(*Side) []Finding) []Finding {
	var out []Finding
	for _, s := range f.Sides {
		if s.Err == nil && s.Vars != nil {
			out = append(out, run(s)...)
		}
	}
	return out
}

// onTables runs a check on each side whose tables could be read.
func onTables(f *Facts, run func(*Side) []Finding) []Finding {
	return onSides(f, func(s *Side) []Finding {
		if s.Schema == nil {
			return nil // the database's own finding says why
		}
		return run(s)
	})
}

func good(server, format string, args ...any) []Finding {
	return []Finding{{Level: OK, Server: server, Found: fmt.Sprintf(format, args...)}}
}

func refuse(server, found, expected, remedy string) []Finding {
	return []Finding{{Level: Refuse, Server: server, Found: found, Expected: expected, Remedy: remedy}}
}

func warn(server, found, expected, remedy string) []Finding {
	return []Finding{{Level: Warning, Server: server, Found: found, Expected: expected, Remedy: remedy}}
}

// blind is for what could not be read.
func blind(server string, err error, remedy string) []Finding {
	return refuse(server, "cannot be checked: "+err.Error(), "an answer", remedy)
}

// variable checks a global variable on both sides. wants are the good values; a variable
// that the server does not have is good when "" is among them. finding makes the bad ones.
func variable(f *Facts, name string, wants []string, finding func(server, found, expected, remedy string) []Finding, why string) []Finding {
	return onSides(f, func(s *Side) []Finding {
		got, has := s.Vars[name]
		for _, want := range wants {
			if strings.EqualFold(got, want) {
				if !has {
					return good(s.Name, "no %s", name)
				}
				return good(s.Name, "%s=%s", name, got)
			}
		}
		return finding(s.Name, name+"="+got+": "+why, name+"="+wants[0], fmt.Sprintf("SET PERSIST %s=%s on %s, and let sessions that have it otherwise reconnect", name, quoteValue(wants[0]), s.Name))
	})
}

// vreplicationOnly is a setting that only Vitess' stream cannot live with.
func vreplicationOnly(f *Facts, name string, wants []string, why string) []Finding {
	if f.Stream == state.Binlog {
		return onSides(f, func(s *Side) []Finding {
			got, has := s.Vars[name]
			if !has {
				return good(s.Name, "no %s", name)
			}
			return good(s.Name, "%s=%s, which the binlog stream reads", name, got)
		})
	}
	out := variable(f, name, wants, refuse, why)
	for i := range out {
		if out[i].Level == Refuse {
			out[i].Remedy += fmt.Sprintf("; or move the shard by the other stream: vifl preflight %s --stream binlog", f.Shard.Number.ID)
		}
	}
	return out
}

func quoteValue(v string) string {
	if v == "" {
		return "''"
	}
	return v
}

// few lists at most some, and says how many more there are.
func few(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
