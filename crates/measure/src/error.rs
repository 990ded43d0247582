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
        /// How it ended: an exit code, a signal.
        ended: String,
        /// The end of what it wrote to standard error, or nothing.
        said: String,
    },
    /// A command took longer than it was allowed to, and was killed.
    #[error("{command}: killed after its time limit, {limit:?}{said}")]
    TimedOut {
        /// The command line.
        command: String,
        /// What it was allowed.
        limit: std::time::Duration,
        /// As above.
        said: String,
    },
    /// A server that commands need.
    #[error("{command}: {problem}")]
    Server {
        /// Its command line.
        command: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A ceiling cannot be measured there.
    #[error("{path}: {problem}")]
    Ceiling {
        /// The directory.
        path: PathBuf,
        /// Why not.
        problem: &'static str,
    },
    /// A run failed, and the plan says that this ends the measurement.
    #[error("{plan}: {what}, run {repeat}: {source}")]
    Run {
        /// Which plan.
        plan: String,
        /// What was run.
        what: String,
        /// In which repetition, from 1; 0 is a warm-up.
        repeat: usize,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A plan cannot be run as it was put together.
    #[error("{plan}: {problem}")]
    Plan {
        /// Which plan.
        plan: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A raw log that cannot be gone on with, or is none.
    #[error("{0}")]
    Log(String),
    /// Something at a worker failed, or the worker did.
    #[error("node {node}: {problem}")]
    Worker {
        /// The host's name.
        node: String,
        /// What it said.
        problem: String,
    },
    /// Somebody asked to stop; the log has every run that was made.
    #[error("stopped; what was measured is kept: give --resume to go on")]
    Stopped,
}

impl Error {
    pub(crate) fn file(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::File { path, doing, source }
    }

    pub(crate) fn worker(node: &str, problem: impl std::fmt::Display) -> Error {
        Error::Worker { node: node.to_owned(), problem: problem.to_string() }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
