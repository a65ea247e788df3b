// Package binlog is vifl's own stream: it reads a legacy server's binlog by file and
// position, and applies it to the landing's primary, exactly.
//
// A Stream is the handle: it writes orders into a row of _vifl.stream on the target, and
// reads the position from it. A Worker, in this process or another, carries them out.
//
// What holds:
//   - The target is at a transaction's end whenever the stream is stopped, and the position
//     names that end exactly. A process that dies at any instant leaves a row from which
//     another goes on to the same state: position and rows are committed together, or the
//     row says beforehand how far some tables may be ahead.
//   - Two workers never apply one stream. Whoever takes it over raises its generation, in a
//     row that every applying transaction holds; a process that was asleep cannot commit.
//   - What could change the database's data and is not understood stops the stream before
//     anything behind it is applied: DDL on the shard's tables, changes logged as
//     statements, row images that are not whole, events and values that are not known.
//     Whose tables a statement touches is judged by the statement and by the server's own
//     list, not by the session's default database.
//   - Values are the same bytes, digits and JSON types as on the legacy.
//
// Changes are netted: of all the transactions that wait, each key's last image is written,
// many rows in a statement. Nothing waits in order to be netted.
//
// What it cannot see is what the binlog does not hold: sql_log_bin=0.
package binlog
