//! Bounds of the critical path and its ledger.

// errands.rs

/// Bound: nesting of calls that were not accepted.
pub(crate) const MOST_CALLS: usize = 16;

// ledger.rs

/// Bound: runs of the path kept exactly.
pub(crate) const EXACT_RUNS: usize = 1 << 18;
/// Bound: holders and waiters of one entry kept separately.
pub(crate) const MOST_LABELS: usize = 32;

// mod.rs

/// Bound: jumps without progress, for any number of threads; a chain of waits at one instant is shorter.
pub(crate) const MOST_JUMPS: usize = 256;

// pauses.rs

/// Between two pieces of one pause a runtime only checks its timers. Instead: which timer of the program's ended a wait.
pub(crate) const BETWEEN_PIECES_NS: i64 = 2_000_000;
/// Waits whose lengths agree to within this and [`ALIKE_PART`] are the program's own, one after the other, not pieces of a runtime's pause.
/// Instead: as above.
pub(crate) const ALIKE_NS: i64 = 1_200_000;
/// The relative part of that tolerance. Instead: as above.
pub(crate) const ALIKE_PART: i64 = 10;
/// Length of Tcl's sleeps: half a second. Instead: as above.
pub(crate) const SLICE_NS: std::ops::Range<i64> = 500_000_000..502_000_000;
/// Longest time between two such sleeps, mostly in a run queue. Instead: as above.
pub(crate) const BETWEEN_SLICES_NS: i64 = 10_000_000;
