//! What lots take, counted from the file system itself.

use crate::error::{Error, Result};
use crate::io::name::each_datafile;
use crate::protocol::io::LotId;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What each lot's datafiles take, by one walk.
pub(super) fn used(directory: &Path) -> Result<BTreeMap<LotId, u64>> {
    let mut used = BTreeMap::new();
    let mut failure = None;
    each_datafile(directory, true, &mut |lot, _, _, path| {
        let Some(lot) = lot else { return };
        match path.symlink_metadata() {
            Ok(found) => *used.entry(lot).or_insert(0) += found.blocks().saturating_mul(512),
            Err(e) => failure = Some(Error::system(path.display(), e)),
        }
    })?;
    failure.map_or(Ok(used), Err)
}
