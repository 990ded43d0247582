//! Drafts of copies, as the metadata service tells of them.

use super::metadata::{FileId, FileLayout, Place};
use serde::{Deserialize, Serialize};

/// A file that a copy has made and not finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftEntry {
    /// Its number.
    pub file: FileId,
    /// Its directory and its name there.
    pub place: Place,
    /// Its path from the root, if that was quick to find.
    pub path: Option<Vec<u8>>,
    /// Its layout.
    pub layout: FileLayout,
    /// For how long its maker has been gone; `None`: it is being written, or its maker may come back.
    pub abandoned_for_ns: Option<u64>,
}
