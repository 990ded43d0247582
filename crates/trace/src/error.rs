//! The crate's one error: which file or directory, and what is the matter with it.

use std::path::{Path, PathBuf};

/// A recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TraceError {
    /// The file or directory.
    pub path: PathBuf,
    /// What was found, what was expected, and what to do.
    pub problem: String,
}

/// [`TraceError`], under the name that fits a reader.
pub type SourceError = TraceError;

impl TraceError {
    /// An error about `path`.
    pub fn new(path: &Path, problem: impl std::fmt::Display) -> TraceError {
        TraceError { path: path.to_owned(), problem: problem.to_string() }
    }
}
