//! Counters for a thread's file and name totals.

use crate::bpf::raw::NAME_COUNTS;
use thalweg_trace::CounterName;

/// Returns each counter's value. What an overlay is asked, the same thread asks the file system below: the larger
/// count has each operation once.
pub(super) fn of(count: &[u64; NAME_COUNTS]) -> [(CounterName, u64); 7] {
    let [opened, created, stated, listed, removed, removed_in_overlay, renamed, renamed_in_overlay, read] = *count;
    [
        (CounterName::FileOpens, opened),
        (CounterName::FileCreates, created),
        (CounterName::FileStats, stated),
        (CounterName::FileRemoves, removed.max(removed_in_overlay)),
        (CounterName::FileRenames, renamed.max(renamed_in_overlay)),
        (CounterName::FileListed, listed),
        (CounterName::FileReads, read),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_overlay_passes_on_counts_once() {
        let found: Vec<u64> = of(&[9, 3, 8, 7, 12, 10, 0, 4, 5]).iter().map(|(_, count)| *count).collect();
        assert_eq!(found, [9, 3, 8, 12, 4, 7, 5], "ten in an overlay, which are among the twelve, and four that it did not pass on");
    }
}
