//! The crate's error: a file or directory and the problem with it.

use std::path::{Path, PathBuf};

/// A recording that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TraceError {
    /// The file or directory.
    pub path: PathBuf,
    /// The problem: what was found, what was expected, and what to do.
    pub problem: String,
}

/// [`TraceError`] under the name readers use.
pub type SourceError = TraceError;

impl TraceError {
    /// Creates an error about `path`.
    pub fn new(path: &Path, problem: impl std::fmt::Display) -> TraceError {
        TraceError { path: path.to_owned(), problem: problem.to_string() }
    }
}
