//! The one error type: what was touched, what happened, and where it helps, what to do.

use std::path::{Path, PathBuf};

/// What went wrong in a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, written or asked about.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done to it.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A command could not be started or waited for.
    #[error("{command}: {doing}: {source}")]
    Process {
        /// The command line.
        command: String,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A command ended otherwise than with success.
    #[error("{command}: {ended}{said}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended: an exit code, a signal, a time limit.
        ended: String,
        /// The end of what it wrote to standard error, or nothing.
        said: String,
    },
    /// A ceiling cannot be measured there.
    #[error("{path}: {problem}")]
    Ceiling {
        /// The directory.
        path: PathBuf,
        /// Why not.
        problem: &'static str,
    },
    /// One run of one arm failed, so the pair it belongs to has no ratio.
    #[error("{experiment}: {arm}, run {run}: {source}")]
    Arm {
        /// The experiment's name.
        experiment: String,
        /// The arm's name.
        arm: String,
        /// Which round it was, from 1; 0 is a warm-up.
        run: usize,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The experiment cannot be run as it was put together.
    #[error("{experiment}: {problem}")]
    Experiment {
        /// The experiment's name.
        experiment: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::File { path, doing, source }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
