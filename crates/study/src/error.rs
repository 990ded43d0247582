//! The crate's error type: which node or file, what happened, and what to do.

use std::path::{Path, PathBuf};

/// An error of a study.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The study cannot be done as requested.
    #[error("{0}")]
    Choice(String),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] thalweg_client::wire::Error),
    /// An error of the measurement: a node, the log, or a request to stop.
    #[error(transparent)]
    Measure(#[from] thalweg_measure::Error),
}

impl Error {
    pub(crate) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::File { path, doing, source }
    }

    /// Whether the study was stopped on request; the runs so far are kept.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Measure(thalweg_measure::Error::Stopped))
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
