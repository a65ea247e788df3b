// Package seed owns the way from a legacy server to a Vitess backup of its landing: a
// scratch mysqld is filled (copy, clone), given Vitess' accounts and the record of where it
// came from (_vifl.seed), and put into the fleet's backup storage. Tablets restore it by
// themselves.
//
// It does not own the tablets, the stream that goes on from the seed's position, or the
// decision to seed.
//
// Invariants:
//   - A seed is a child process of its own (Vitess' backup code works through process-wide
//     variables), as an ordinary user when we are root. It ends when its parent does, and
//     its scratch server with it.
//   - Secrets reach it through its standard input only.
//   - At most one seed of a keyspace runs in a work folder: a lock file, held by the parent
//     and the child, says so.
//   - A backup counts from its MANIFEST on, which Vitess writes last: an interrupted seed
//     leaves nothing that a tablet would restore.
//   - Nothing is written on the legacy servers but heartbeats (legacy.Cut).
package seed
