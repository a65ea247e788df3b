// Package diff compares two sides of a shard and says which rows are not the same.
//
// It owns: what "the same row" means, the checksums that are computed inside the servers,
// how chunks of a table are chosen, halved and listed, and the report. It does not own the
// instant at which sides are read: Compare takes connections whose transactions already
// show one logical instant (a cut), and never opens, commits or reconnects one. A
// connection that breaks is an error of the whole comparison, never an equal table.
//
// The same row means the same stored value in every column, invisible and generated ones
// included: text by bytes (collation aside), all digits of FLOAT and DOUBLE and the sign of
// zero, microseconds, TIMESTAMP as an instant, ENUM and SET by number, geometry with its
// SRID, JSON by text, type, size (which tells a date inside a document from a string of the
// same text) and the types of the non-integers inside; a signed from an unsigned integer of
// the same value is told at the top of a document only. docs/diff.md goes type by type.
//
// A chunk's checksum is the number of its rows and the XOR of the 256-bit SHA-2 of each
// row. The XOR alone would not see a row that is there twice; rows are distinct, because
// the key is part of what is hashed, so nothing cancels, and swapped, shifted or
// evenly repeated changes show, which they would not in a XOR of CRC32: that one is linear.
//
// Chunks are ranges of the key (the primary one, or schema.Table.RowKey) between keys that exist on one side; together they
// cover every possible key (the first has no lower bound, the last no upper one), so rows
// below, above and between the other side's rows are seen.
//
// A table without a key has no ranges: its rows are counted in hash buckets (bucket.go), by
// how often each is on either side.
//
// A row is told by the whole values of its key columns. Of a key over prefixes of columns,
// a row whose value changed behind the prefix is reported as a missing and an extra one.
package diff
