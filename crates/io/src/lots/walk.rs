//! Counts the space of lots from the file system.

use super::account::Key;
use crate::name::{LOTS, each_datafile};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thalweg_wire::protocol::io::LotId;
use thalweg_wire::{Error, Result};

/// Returns the bytes of each lot's datafiles, by one walk.
pub(super) fn used(directory: &Path) -> Result<BTreeMap<LotId, u64>> {
    let mut used = BTreeMap::new();
    each_used(directory, |lot, _, bytes| *used.entry(lot).or_insert(0) += bytes)?;
    Ok(used)
}

/// Calls `each` with every datafile of a lot and the bytes it takes.
pub(super) fn each_used(directory: &Path, mut each: impl FnMut(LotId, Key, u64)) -> Result<()> {
    let mut failure = None;
    each_datafile(directory, true, &mut |lot, file, index, path| {
        let Some(lot) = lot else { return };
        match path.symlink_metadata() {
            Ok(found) => each(lot, (file, index), found.blocks().saturating_mul(512)),
            Err(e) => failure = Some(Error::system(path.display(), e)),
        }
    })?;
    failure.map_or(Ok(()), Err)
}

/// Writes back the lots' files of a target: some file systems (ext4) allocate a file's index blocks only then.
pub(super) fn write_back(directory: &Path) {
    if let Ok(lots) = std::fs::File::open(directory.join(LOTS)) {
        // A lost write is reported to its writer at a sync; the rest counts nevertheless.
        let _ = rustix::fs::syncfs(lots);
    }
}
