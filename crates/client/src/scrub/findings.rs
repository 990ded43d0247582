//! What a scrub finds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::scrub::ScrubbedDatafile;

/// Maximum findings of a report; the rest is counted.
const FINDINGS: usize = 100_000;

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Bytes do not match their checksum.
    Damaged,
    /// A datafile has not the size that it must have, or cannot be read.
    Unreadable,
    /// A file has lost bytes: a datafile is missing, shorter or longer than the metadata service expects.
    Lost,
    /// A datafile belongs to no file.
    Orphan,
    /// A datafile belongs to a file whose layout has it elsewhere.
    Misplaced,
    /// A name that no server has made.
    Strange,
    /// A partial copy whose client is gone.
    Partial,
    /// A lot's use was counted wrongly.
    Account,
    /// A row of the metadata contradicts others, or cannot be read.
    Metadata,
}

impl FindingKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Damaged => "damaged",
            FindingKind::Unreadable => "unreadable",
            FindingKind::Lost => "lost",
            FindingKind::Orphan => "orphan",
            FindingKind::Misplaced => "misplaced",
            FindingKind::Strange => "strange",
            FindingKind::Partial => "partial",
            FindingKind::Account => "account",
            FindingKind::Metadata => "metadata",
        }
    }

    /// Returns what to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            FindingKind::Damaged => "thalweg cp --skip-damaged copies what is intact; writing the bytes again repairs it",
            FindingKind::Unreadable => "look at the server's file system and disk; thalweg cp --skip-damaged copies what is intact",
            FindingKind::Lost => "restore the datafile at its path, or write the file again",
            FindingKind::Orphan => "thalweg scrub --repair moves it to set-aside, and removes nothing",
            FindingKind::Misplaced => "no reader looks there: move it away once you know that you do not need it",
            FindingKind::Strange => "move it away if you know what it is; no server reads it",
            FindingKind::Partial => "thalweg rm --partials removes it",
            FindingKind::Account => "thalweg scrub --repair counts it again",
            FindingKind::Metadata => "stop the store, and run thalweg metadata check; thalweg metadata restore goes back to a backup",
        }
    }
}

/// Where a finding is; what is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The target.
    pub target: Option<TargetId>,
    /// The datafile.
    pub id: Option<DatafileId>,
    /// The path of the datafile at its server, or of a strange name.
    pub datafile: Option<String>,
    /// The file.
    pub file: Option<FileId>,
    /// Its path in the store.
    pub path: Option<Vec<u8>>,
    /// Ranges of the datafile.
    pub ranges: Vec<(u64, u64)>,
    /// The same bytes in the file.
    pub in_file: Vec<(u64, u64)>,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// Where it is.
    pub place: Place,
    /// What it is, as a sentence.
    pub problem: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// What was found, by path.
    pub findings: Vec<Finding>,
    /// Findings beyond the maximum.
    pub more: u64,
    /// Datafiles examined.
    pub datafiles: u64,
    /// Names walked.
    pub names: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Datafiles whose checksums were computed, because they had none or a crash had left them unverified.
    pub recomputed: u64,
    /// Targets without checksums.
    pub without_sums: BTreeSet<TargetId>,
    /// Servers that did not answer, and why.
    pub silent: Vec<String>,
    /// Whether the scrub came to its end.
    pub is_whole: bool,
}

/// What a scrub has found so far, and what is to be looked at again.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) report: ScrubReport,
    /// Datafiles that belong to no file, or elsewhere, or whose checksums are alone.
    pub(super) suspects: BTreeMap<DatafileId, ScrubbedDatafile>,
    /// Files whose datafiles have not the size that is expected, by number, with a path.
    pub(super) short: BTreeMap<FileId, Vec<u8>>,
    /// Files scrubbed one by one.
    pub(super) seen: BTreeSet<FileId>,
    /// Files that findings are about, whose paths are wanted.
    pub(super) paths: HashMap<FileId, Option<Vec<u8>>>,
    /// Blocks of lots' datafiles on each target.
    pub(super) lots: BTreeMap<(TargetId, LotId), u64>,
    /// Bytes that each target has, as far as can be estimated.
    pub(super) about: BTreeMap<TargetId, u64>,
    /// How much of each target's lots was used at the beginning.
    pub(super) uses: BTreeMap<(TargetId, LotId), u64>,
}

impl Collected {
    pub(super) fn add(&mut self, kind: FindingKind, place: Place, problem: String) {
        if self.report.findings.len() >= FINDINGS {
            self.report.more += 1;
            return;
        }
        if let Some(file) = place.file {
            self.paths.entry(file).or_insert_with(|| place.path.clone());
        }
        self.report.findings.push(Finding { kind, place, problem, repaired: false });
    }

    /// Estimates the bytes of all targets, of which one has about this many; 0: it is not known.
    pub(super) fn about(&mut self, (target, bytes): (TargetId, u64), targets: usize) -> u64 {
        if bytes == 0 {
            return 0;
        }
        self.about.insert(target, bytes);
        let sum: u128 = self.about.values().map(|bytes| u128::from(*bytes)).sum();
        u64::try_from(sum * targets as u128 / self.about.len() as u128).unwrap_or(u64::MAX)
    }

    pub(super) fn suspect(&mut self, found: &ScrubbedDatafile) {
        if self.suspects.len() < FINDINGS {
            self.paths.entry(found.id.file).or_default();
            self.suspects.insert(found.id, found.clone());
        } else {
            self.report.more += 1;
        }
    }

    pub(super) fn is_short(&mut self, file: FileId, path: &[u8]) {
        if self.short.len() < FINDINGS {
            self.short.insert(file, path.to_vec());
        } else {
            self.report.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_which_nothing_is_known_are_estimated_like_the_others() {
        let mut found = Collected::default();
        assert_eq!(found.about((TargetId(0), 100), 4), 400);
        assert_eq!(found.about((TargetId(1), 300), 4), 800);
        assert_eq!(found.about((TargetId(0), 200), 4), 1000);
        assert_eq!(found.about((TargetId(2), 0), 4), 0);
    }
}
