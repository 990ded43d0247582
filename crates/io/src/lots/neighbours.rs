//! What other processes' targets on the same file system have promised: two I/O servers of a store on one disk, say, each a process.
//!
//! Nobody there is asked: what they have promised is read from their lists of shares. They are looked for where a store's targets are, beside
//! those of this process: in the directory that holds one of them, and in the directories beside that one (`STORE/io0`, `STORE/io1`;
//! `STORE/io0/target0`, `STORE/io1/target0`). What lies elsewhere, or may not be read, is not known; and only a new promise is held against them: what is
//! written outside lots through another process is to this one what any other program writes. So the level is never `own` there, and only
//! a ballast or the kernel holds it.

use super::deadline::Clock;
use super::kept::Kept;
use super::walk::used;
use crate::name::LOTS;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What says that a directory is a target.
const IDENTITY: &str = "thalweg-target.toml";
/// Names that are looked at in one directory: a store's directory has few.
const NAMES: usize = 1024;

/// One of them.
pub(super) struct Neighbour {
    directory: PathBuf,
    kept: Kept,
}

/// Those beside `members`, the targets of this process.
pub(super) fn of(members: &[&Path], device: u64) -> Vec<Neighbour> {
    let members: BTreeSet<PathBuf> = members.iter().filter_map(|member| member.canonicalize().ok()).collect();
    let mut around: BTreeSet<PathBuf> = members.iter().filter_map(|member| member.parent().map(Path::to_owned)).collect();
    let further: Vec<PathBuf> = around.iter().filter_map(|parent| parent.parent().map(Path::to_owned)).collect();
    around.extend(further.iter().flat_map(|directory| directories(directory, device)));
    let found: BTreeSet<PathBuf> = around.iter().flat_map(|directory| directories(directory, device)).collect();
    let others = found.into_iter().filter(|found| !members.contains(found) && found.join(IDENTITY).is_file());
    others.filter_map(|directory| Some(Neighbour { kept: Kept::read(&directory).ok()?, directory })).collect()
}

fn directories(directory: &Path, device: u64) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(NAMES);
    let is_here = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.dev() == device);
    entries.map(|entry| entry.path()).filter(is_here).collect()
}

impl Neighbour {
    /// What it has promised at most, and how much is used of it, if that is to be known: it takes a walk.
    pub(super) fn promised(&self, clock: &dyn Clock, exactly: bool) -> u64 {
        let now = clock.now();
        let lasting = self.kept.shares.iter().filter(|kept| !kept.deadline.clone().again(clock).is_over(&now));
        let in_use = if exactly { used(&self.directory).unwrap_or_default() } else { BTreeMap::new() };
        let unused = lasting.map(|kept| {
            let share = kept.share();
            share.share_bytes.saturating_sub(in_use.get(&share.lot).copied().unwrap_or(0))
        });
        // What its ballast has is not free.
        let ballast = self.directory.join(LOTS).join("ballast").metadata().map_or(0, |found| found.blocks().saturating_mul(512));
        unused.fold(0, u64::saturating_add).saturating_sub(ballast)
    }
}
