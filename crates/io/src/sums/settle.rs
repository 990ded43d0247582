//! Work on sums that nobody waits for: dirty datafiles become clean, and unverified ones get their sums recomputed.

use super::kept::{Locked, Trust};
use super::table::Table;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_wire::Result;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::DatafileId;

/// An open datafile.
pub(crate) trait Open {
    fn locked(&self) -> Result<Locked<'_>>;
    /// Syncs its data and its name.
    fn sync(&self) -> Result<()>;
}

/// The datafiles of a target.
pub(crate) trait Files {
    fn table(&self) -> &Table;
    fn open(&self, id: DatafileId) -> Result<Option<Arc<dyn Open>>>;
    fn sync_file_system(&self) -> Result<()>;
}

/// How fast, and until when.
pub(crate) struct Pace<'a> {
    /// How long a datafile has been dirty before it is synced and becomes clean.
    pub(crate) after: Duration,
    /// Bytes read per second for recomputing sums.
    pub(crate) bytes_per_second: u64,
    pub(crate) is_over: &'a dyn Fn() -> bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Datafiles that became clean.
    pub clean: u64,
    /// Datafiles whose sums were recomputed.
    pub recomputed: u64,
    /// Their blocks whose sum differed.
    pub differed: u64,
}

/// Blocks recomputed while nobody may change the datafile.
const STEP_BLOCKS: u64 = 256;
/// Datafiles synced one by one; more are synced with their file system.
const FEW: usize = 32;

/// Recomputes sums of unverified datafiles, and makes dirty ones clean. One that cannot be treated stays as it is.
pub(crate) fn settle(files: &dyn Files, pace: &Pace<'_>) -> Settled {
    let mut settled = Settled::default();
    for id in files.table().take_unverified() {
        if (pace.is_over)() {
            files.table().is_unverified(id);
            continue;
        }
        if let Ok(Some(differed)) = recompute(files, id, pace) {
            settled.recomputed += 1;
            settled.differed += differed;
        }
    }
    let dirty = files.table().take_dirty(pace.after);
    for some in dirty.chunks(limits::SUMS_DUE / 16) {
        if (pace.is_over)() || some.is_empty() {
            some.iter().for_each(|id| files.table().is_dirty(*id));
            continue;
        }
        if sync(files, some).is_err() {
            continue;
        }
        settled.clean += some.iter().filter(|id| matches!(make_clean(files, **id), Ok(true))).count() as u64;
    }
    settled
}

/// Puts datafiles and their sums on stable storage.
fn sync(files: &dyn Files, some: &[DatafileId]) -> Result<()> {
    if some.len() > FEW {
        return files.sync_file_system();
    }
    for id in some {
        let Some(open) = files.open(*id)? else { continue };
        open.sync()?;
        let locked = open.locked()?;
        locked.sync_sums().map_err(|e| thalweg_wire::Error::system(locked.of.path().display(), e))?;
    }
    Ok(())
}

fn make_clean(files: &dyn Files, id: DatafileId) -> Result<bool> {
    let Some(open) = files.open(id)? else { return Ok(false) };
    let mut locked = open.locked()?;
    // Changed since it was synced: its turn comes again.
    if files.table().is_dirty_again(id) || locked.trust() != Trust::Verified {
        return Ok(false);
    }
    Ok(locked.settle().is_ok())
}

/// Recomputes the sums of a datafile, a step at a time; returns how many differed, or `None` if there was nothing to do.
fn recompute(files: &dyn Files, id: DatafileId, pace: &Pace<'_>) -> Result<Option<u64>> {
    let Some(open) = files.open(id)? else { return Ok(None) };
    let begun = Instant::now();
    let (mut at, mut differed, mut steps) = (0, 0, 0_u64);
    loop {
        let mut locked = open.locked()?;
        if locked.trust() != Trust::Unverified {
            return Ok(None);
        }
        let failed = |e| thalweg_wire::Error::system("preparing checksums", e);
        if at == 0 {
            let size = locked.of.file().metadata().map_err(failed)?.len();
            locked.prepare(size).map_err(failed)?;
        }
        let (next, wrong) = locked.recompute_some(at, STEP_BLOCKS)?;
        differed += wrong;
        files.table().are_recomputed(wrong);
        let Some(next) = next else {
            locked.trim()?;
            locked.believe().map_err(failed)?;
            return Ok(Some(differed));
        };
        at = next;
        drop(locked);
        if (pace.is_over)() {
            files.table().is_unverified(id);
            return Ok(None);
        }
        steps += 1;
        let due = Duration::from_secs_f64((steps * STEP_BLOCKS * super::block::BLOCK) as f64 / pace.bytes_per_second.max(1) as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()).min(Duration::from_secs(1)));
    }
}
