//! Whether a run was about files and names, and what it did with them. Changes (created, removed, renamed) come first, then opens and
//! reads, then attributes and listings: each also occurs with the ones before.

use crate::facts::file_counts::FileCounts;
use crate::limits::summary as limits;
use thalweg_base::numbers::{count, duration, size};

/// An action, and the number of files or names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) n: u64,
    pub(super) what: &'static str,
    /// Whether the action changes files.
    changed: bool,
    /// Whether the action moves bytes.
    moves: bool,
}

/// The run's action on files and names, if they were many, with few bytes each. `bytes` is what it moved, `largest` the most of one
/// transfer.
pub(super) fn about(files: &FileCounts, (bytes, largest): (u64, u64)) -> Option<Done> {
    leading(files).filter(|done| !is_about_bytes(*done, bytes, largest))
}

impl Done {
    /// The action in words, with the bytes moved.
    pub(super) fn words(self, bytes: u64, wall_s: f64) -> String {
        if !self.moves || bytes < limits::LEAST_BYTES {
            return each(self.n, self.what, wall_s);
        }
        let each = duration(wall_s / self.n as f64);
        format!("{} {}, {} in {}, {each} each", count(self.n), self.what, size(bytes), duration(wall_s))
    }
}

/// A count of items, and the time for each.
pub(super) fn each(n: u64, what: &str, wall_s: f64) -> String {
    format!("{} {what} in {}, {} each", count(n), duration(wall_s), duration(wall_s / n.max(1) as f64))
}

/// Whether the bytes matter more. A program's startup files do not count against the one file that it then reads.
fn is_about_bytes(done: Done, bytes: u64, largest: u64) -> bool {
    let for_each = bytes / done.n.max(1);
    let of_one_file = !done.changed && largest >= bytes / 2;
    // Removing or renaming a file moves nothing.
    let by_the_way = done.changed && !done.moves;
    for_each > if of_one_file || by_the_way { limits::MOST_BYTES_A_NAME } else { limits::MOST_BYTES_A_FILE }
}

/// Returns the first action in the list that was done with many files. A later action takes its place if the first was incidental: done far
/// less often.
fn leading(files: &FileCounts) -> Option<Done> {
    let own = files.processes * limits::OWN_NAMES;
    let changed = |n, what, moves| Done { n, what, changed: true, moves };
    // Whatever a process needs to start, at least half of the files that matter must be others.
    let matters = |n: u64| n >= limits::LEAST_LOOKED && n.saturating_sub(own) >= limits::LEAST_LOOKED / 2;
    let looked = |n: u64, what, moves| Done { n: if matters(n) { n } else { 0 }, what, changed: false, moves };
    let all = [
        changed(files.created, "files created", true),
        changed(files.removed, "files removed", false),
        changed(files.renamed, "files renamed", false),
        looked(files.opened, "files opened", true),
        looked(files.read, "files read", true),
        looked(files.stats, "stat calls", false),
        looked(files.listed, "names listed", false),
    ];
    let most = all.iter().map(|done| done.n).max().unwrap_or(0);
    all.into_iter().find(|done| done.n >= limits::LEAST_CHANGED && done.n >= most / limits::BY_THE_WAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(counts: [u64; 7]) -> Option<(u64, &'static str)> {
        let [opened, created, stats, removed, renamed, listed, read] = counts;
        leading(&FileCounts { opened, created, stats, removed, renamed, listed, read, processes: 1 }).map(|done| (done.n, done.what))
    }

    #[test]
    fn what_was_changed_leads_then_what_was_opened_then_what_was_asked_for() {
        assert_eq!(said([10_040, 5_000, 15_000, 0, 0, 5_000, 0]), Some((5_000, "files created")), "cp -r");
        assert_eq!(said([40, 0, 60, 5_000, 0, 5_000, 0]), Some((5_000, "files removed")), "rm -r");
        assert_eq!(said([5_040, 1, 10_100, 0, 0, 5_000, 0]), Some((5_040, "files opened")), "tar c");
        assert_eq!(said([60, 3, 12_000, 0, 0, 12_400, 0]), Some((12_000, "stat calls")), "git status");
        assert_eq!(said([20, 0, 300, 0, 0, 20_000, 0]), Some((20_000, "names listed")), "find");
        assert_eq!(said([0, 0, 0, 0, 0, 0, 1_012]), Some((1_012, "files read")), "tar c, where opens are not counted");
    }

    #[test]
    fn what_a_program_needs_to_start_is_not_what_it_was_about() {
        assert_eq!(said([20, 0, 30, 0, 0, 0, 0]), None, "cat");
        assert_eq!(said([620, 12, 900, 0, 0, 400, 0]), None, "an interpreter with 300 modules");
        let many = FileCounts { opened: 4_000, stats: 3_000, processes: 500, ..FileCounts::default() };
        assert_eq!(leading(&many), None, "a script that starts 500 programs");
        let many = FileCounts { read: 2_500, processes: 500, ..FileCounts::default() };
        assert_eq!(leading(&many), None, "the same, where reads are counted");
    }

    #[test]
    fn bytes_lead_where_files_are_large_or_one_file_has_most() {
        let opened = Done { n: 2_000, what: "files opened", changed: false, moves: true };
        assert!(is_about_bytes(opened, 100 << 20, 98 << 20), "many modules, and then one large file");
        assert!(!is_about_bytes(opened, 100 << 20, 1 << 20), "50 KiB each");
        assert!(!is_about_bytes(opened, 1 << 20, 1 << 20), "an index");
        let created = Done { changed: true, ..opened };
        assert!(is_about_bytes(created, 4 << 30, 2 << 20), "2 MiB each");
        assert!(!is_about_bytes(created, 100 << 20, 60 << 20), "a tree in which one is large");
        let removed = Done { n: 195, what: "files removed", changed: true, moves: false };
        assert!(is_about_bytes(removed, 21 << 20, 18 << 20), "packed, and then what was packed is removed: git gc");
        assert!(!is_about_bytes(removed, 100 << 10, 100 << 10), "rm -r, which reads its own library");
    }
}
