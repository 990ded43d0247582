//! A look at a target's directory without its server: what it has witnessed, and its datafiles. It takes no lock and changes nothing.

use super::epoch;
use super::name::each_datafile;
use super::target::TargetIdentity;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thalweg_wire::protocol::common::Witnessed;
use thalweg_wire::protocol::io::{FileId, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// A datafile that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDatafile {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// Its length.
    pub size_bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

/// Looks at the directory of a target of this store: calls `each` with every datafile; returns what the target has witnessed. `None`: there
/// is no such directory on this machine.
///
/// # Errors
/// It is another target's, or cannot be read.
pub fn look(directory: &Path, store: u64, number: TargetId, each: &mut dyn FnMut(StoredDatafile)) -> Result<Option<Witnessed>> {
    let Some(identity) = TargetIdentity::read(directory)? else { return Ok(None) };
    if (identity.store.as_str(), identity.target) != (&format!("{store:016x}"), number.0) {
        let problem =
            format!("{} is target {} of store {}: expected target {number}", directory.display(), identity.target, identity.store);
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    each_datafile(directory, false, &mut |_, file, _, path| {
        // A datafile that is removed meanwhile is none.
        if let Ok(found) = std::fs::symlink_metadata(path) {
            let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            each(StoredDatafile { file, path: path.to_owned(), size_bytes: found.len(), modified });
        }
    })?;
    epoch::seen(directory).map(Some)
}
