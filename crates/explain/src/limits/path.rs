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
