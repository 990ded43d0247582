//! Promises of other processes' targets on the same file system, for instance of two I/O servers of a store on one disk.
//!
//! The other processes are not asked: their promises are read from their share files. Their targets are looked for where a
//! store's targets usually are: in the parent directories of this process's targets, and in the siblings of those parents
//! (`STORE/io0`, `STORE/io1`; `STORE/io0/target0`, `STORE/io1/target0`). Targets elsewhere, or unreadable ones, are not known.
//! Only new promises are checked against theirs: writes outside lots through another process are, to this one, like those of any
//! other program. The level is therefore never `own` there, and only a ballast or the kernel holds promises.

use super::deadline::Clock;
use super::share_file::ShareFile;
use super::walk::used;
use crate::name::LOTS;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that identifies a target.
const IDENTITY: &str = "thalweg-target.toml";
/// Maximum names examined in a directory: a store's directory has few.
const NAMES: usize = 1024;

/// A target of another process.
pub(super) struct Neighbour {
    directory: PathBuf,
    kept: ShareFile,
}

/// Finds the targets beside `members`, the targets of this process.
pub(super) fn of(members: &[&Path], device: u64) -> Vec<Neighbour> {
    let members: BTreeSet<PathBuf> = members.iter().filter_map(|member| member.canonicalize().ok()).collect();
    let mut around: BTreeSet<PathBuf> = members.iter().filter_map(|member| member.parent().map(Path::to_owned)).collect();
    let further: Vec<PathBuf> = around.iter().filter_map(|parent| parent.parent().map(Path::to_owned)).collect();
    around.extend(further.iter().flat_map(|directory| directories(directory, device)));
    let found: BTreeSet<PathBuf> = around.iter().flat_map(|directory| directories(directory, device)).collect();
    let others = found.into_iter().filter(|found| !members.contains(found) && found.join(IDENTITY).is_file());
    others.filter_map(|directory| Some(Neighbour { kept: ShareFile::read(&directory).ok()?, directory })).collect()
}

fn directories(directory: &Path, device: u64) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES);
    let is_here = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.dev() == device);
    entries.map(|entry| entry.path()).filter(is_here).collect()
}

impl Neighbour {
    /// Returns what it has promised: at most, or (`exactly`, which takes a walk) without what is used.
    pub(super) fn promised(&self, clock: &dyn Clock, exactly: bool) -> u64 {
        let now = clock.now();
        let lasting = self.kept.shares.iter().filter(|kept| !kept.deadline.clone().again(clock).is_over(&now));
        let in_use = if exactly { used(&self.directory).unwrap_or_default() } else { BTreeMap::new() };
        let unused = lasting.map(|kept| {
            let share = kept.share();
            share.share_bytes.saturating_sub(in_use.get(&share.lot).copied().unwrap_or(0))
        });
        // Its ballast is not free space.
        let ballast = self.directory.join(LOTS).join("ballast").metadata().map_or(0, |found| found.blocks().saturating_mul(512));
        unused.fold(0, u64::saturating_add).saturating_sub(ballast)
    }
}
