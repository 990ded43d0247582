//! The one error type: which node or file, what happened, and where it helps, what to do.

use std::path::{Path, PathBuf};

/// What went wrong in a study.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done to it.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The study cannot be made as it was asked for.
    #[error("{0}")]
    Choice(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] thalweg_client::wire::Error),
    /// A measurement: a node, the log, or somebody who wants to stop.
    #[error(transparent)]
    Measure(#[from] thalweg_measure::Error),
}

impl Error {
    pub(crate) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::File { path, doing, source }
    }

    /// Whether somebody wanted to stop; what was measured is kept.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Measure(thalweg_measure::Error::Stopped))
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
