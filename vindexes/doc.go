// Package vindexes holds the vindexes of ours. Importing it registers them
// with Vitess, so the mains of our vtgate, vttablet and vtctld import it for
// that alone: a vindex that one of the three does not know is refused there
// ("vindexType … not found").
//
//	entity_id     an entity's number or its public form -> Vitess' xxhash of the number
//	legacy_shard  a team -> its legacy shard's number, then Vitess' xxhash of the team
//
// docs/vindexes.md is their reference.
//
// Rules of this floor:
//   - It may import Vitess, pkg/shardid and pkg/teammap, and nothing else of ours: it is
//     linked into servers that run in production, and what is linked there
//     must be small and without surprises.
//   - One vindex, one file. vindexes.Register panics on a name registered
//     twice, so each name is registered in one init function only.
//   - Vitess rebuilds every vindex whenever the vschema changes and never
//     closes one: caches and goroutines belong to the package, keyed by the
//     vindex's parameters, not to the vindex.
//   - A look-up that fails is an error, never "no destination": to a SELECT,
//     no destination means no rows. NULL alone is "no destination": no row is
//     equal to NULL.
//   - Every vindex passes the suite in conformance_test.go, with its vectors
//     pinned: a keyspace id that changes is a row that is lost.
package vindexes
