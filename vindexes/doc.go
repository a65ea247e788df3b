// Package vindexes holds the vindexes of ours. Importing it registers them
// with Vitess, so the mains of our vtgate, vttablet and vtctld import it for
// that alone: a vindex that one of the three does not know is refused there
// ("vindexType … not found").
//
// Rules of this floor:
//   - It may import Vitess and pkg/shardid, and nothing else of ours: it is
//     linked into servers that run in production, and what is linked there
//     must be small and without surprises.
//   - vindexes.Register panics on a name registered twice, so each name is
//     registered in one init function only.
//   - Vitess rebuilds every vindex whenever the vschema changes and never
//     closes one: caches and goroutines belong to the package, keyed by the
//     vindex's parameters, not to the vindex.
//   - A look-up that fails is an error, never "no destination": to a SELECT,
//     no destination means no rows.
package vindexes
