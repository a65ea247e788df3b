// Package clone owns filling a scratch server by MySQL's CLONE: whether a donor can be
// cloned from, the clone itself, the binlog position it is from, and taking out of the copy
// what belongs to the donor (accounts, plugins, other databases).
//
// It does not own the scratch server's process, nor Vitess' accounts (seed).
//
// Invariants:
//   - Nothing is installed or set on the donor. A donor without an active clone plugin is
//     refused, with what its administrator would have to do.
//   - The position is the one that the server itself noted for the clone.
package clone
