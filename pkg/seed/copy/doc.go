// Package copy owns filling an empty MySQL server with the tables of one database, read
// from consistent snapshots of another, in parallel over tables and key ranges. It needs no
// plugin and no equal version.
//
// It does not own the snapshots or the position they belong to (legacy.Cut), nor what
// becomes of the filled server (seed).
//
// Invariants:
//   - Every value arrives as it is stored: no character set is converted on the way, FLOAT
//     travels with all digits, ENUM and SET by number, JSON with the types inside it.
//   - A value that the target stored otherwise than it was sent is an error. LOAD DATA LOCAL
//     makes warnings of such things (and skips duplicate keys), so every warning counts.
//   - The tables' definitions are those of the source, word for word, and compared at the end.
//   - Nothing is written on the source.
package copy
