//! A temporary directory for sorting.

use crate::TraceError;
use thalweg_base::temporary::TemporaryDirectory;

/// Creates one that other users cannot enter: a recording is private to its user.
pub(crate) fn for_sorting() -> Result<TemporaryDirectory, TraceError> {
    TemporaryDirectory::new(".thw").map_err(|problem| TraceError::new(&std::env::temp_dir(), format!("sorting needs space: {problem}")))
}
