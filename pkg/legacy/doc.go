// Package legacy owns what vifl does with one legacy MySQL server, and with the pair that
// two of them make: who it is, where its binlog ends, how far it has applied the other
// side, heartbeats, the cut (one instant for many snapshots), the freeze, and keeping a
// server closed after a switch.
//
// It does not own policy (guard), what is streamed or compared (stream, diff), or when any
// of this may happen (workflows).
//
// Invariants:
//   - A position always carries the server_uuid of the server that reported it, read on the
//     same connection: behind one address there can be another server a second later.
//   - Nothing here waits without a deadline, and a wait that holds up writers is ended from
//     a second connection, because a client that goes away does not end a waiting
//     statement on the server.
//   - A connection that froze a server, or holds its lock, never reconnects.
//
// Servers: MySQL 8.0.26 or newer. All statements are written for that range; where the
// range is not uniform, version.go has a question with a name.
package legacy
