//! The one error type: what cannot be tuned, and what to give instead.

use std::path::{Path, PathBuf};

/// What went wrong in tuning.
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
    /// It cannot be tuned as it was asked for.
    #[error("{0}")]
    Choice(String),
    /// The command is not one that can be tuned: what its runs show.
    #[error("{0}")]
    Unfit(String),
    /// The grid, or a run.
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

    /// Whether somebody wanted to stop; what was measured is kept.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Study(error) if error.is_stopped())
    }

    /// Whether the request was at fault, and not a run or a file.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Choice(_) | Error::Study(thalweg_study::Error::Choice(_)))
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
