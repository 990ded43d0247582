//! The error type: what cannot be tuned, and what to give instead.

use std::path::{Path, PathBuf};

/// An error of a tuning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {doing}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Choice(String),
    /// The command cannot be tuned, as its runs show.
    #[error("{0}")]
    Unfit(String),
    /// An error of the grid or of a run.
    #[error(transparent)]
    Study(#[from] thalweg_study::Error),
}

impl From<thalweg_recipes::Error> for Error {
    fn from(error: thalweg_recipes::Error) -> Error {
        match error {
            thalweg_recipes::Error::File { path, source } => Error::File { path, doing: "reading a recipe", source },
            wrong @ thalweg_recipes::Error::Wrong(_) => Error::Choice(wrong.to_string()),
        }
    }
}

impl Error {
    pub(crate) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::File { path, doing, source }
    }

    /// Whether the user asked to stop; measurements are kept.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Study(error) if error.is_stopped())
    }

    /// Whether the request was at fault, rather than a run or a file.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Choice(_) | Error::Study(thalweg_study::Error::Choice(_)))
    }
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
