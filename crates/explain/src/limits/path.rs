//! The critical path and its ledger: all of them bound memory or time.

// errands.rs

/// Bound: calls that were not accepted, nested in each other.
pub(crate) const MOST_CALLS: usize = 16;

// ledger.rs

/// Bound: runs of the path that are kept exactly.
pub(crate) const EXACT_RUNS: usize = 1 << 18;
/// Bound: holders and waiters of one entry that are kept apart.
pub(crate) const MOST_LABELS: usize = 32;

// mod.rs

/// Bound: jumps without progress, whatever the number of threads; a chain of waits at one instant is shorter.
pub(crate) const MOST_JUMPS: usize = 256;

// pauses.rs

/// Between two pieces of one pause a runtime looks at its timers, and no more. Instead: which timer of the program's ended a wait.
pub(crate) const BETWEEN_PIECES_NS: i64 = 2_000_000;
/// Waits that are as long as each other to within a millisecond and a tenth are the program's own, one after the other: what a runtime waits for in between
/// has nothing to do with them. Instead: the same.
pub(crate) const ALIKE_NS: i64 = 1_200_000;
/// Of short ones, a tenth. Instead: the same.
pub(crate) const ALIKE_PART: i64 = 10;
/// Tcl sleeps for half a second at a time. Instead: the same.
pub(crate) const SLICE_NS: std::ops::Range<i64> = 500_000_000..502_000_000;
/// And goes on at once, but for the queue of a processor. Instead: the same.
pub(crate) const BETWEEN_SLICES_NS: i64 = 10_000_000;
