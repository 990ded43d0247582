//! The crate's error type: the object, what happened, and what to do.

use std::path::{Path, PathBuf};

/// An error of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, written or queried.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A command could not be started or waited for.
    #[error("{command}: {doing}: {source}")]
    Process {
        /// The command line.
        command: String,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A command failed.
    #[error("{command}: {ended}{said}")]
    Failed {
        /// The command line.
        command: String,
        /// The exit code or signal.
        ended: String,
        /// The end of its standard error; may be empty.
        said: String,
    },
    /// A command exceeded its time limit, and was killed.
    #[error("{command}: killed after its time limit, {limit:?}{said}")]
    TimedOut {
        /// The command line.
        command: String,
        /// The time limit.
        limit: std::time::Duration,
        /// The end of its standard error; may be empty.
        said: String,
    },
    /// A server that commands need has a problem.
    #[error("{command}: {problem}")]
    Server {
        /// Its command line.
        command: String,
        /// The problem.
        problem: String,
    },
    /// A ceiling cannot be measured in this directory.
    #[error("{path}: {problem}")]
    Ceiling {
        /// The directory.
        path: PathBuf,
        /// The reason.
        problem: &'static str,
    },
    /// A run failed, and the plan ends on failures.
    #[error("{plan}: {what}, run {repeat}: {source}")]
    Run {
        /// The plan.
        plan: String,
        /// The case.
        what: String,
        /// The repetition, from 1; 0 is a warm-up.
        repeat: usize,
        /// The error of the run.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A plan is invalid.
    #[error("{plan}: {problem}")]
    Plan {
        /// The plan.
        plan: String,
        /// The problem, and what was expected.
        problem: String,
    },
    /// A raw log that cannot be resumed, or is not one.
    #[error("{0}")]
    Log(String),
    /// An order failed at a worker, or the worker itself failed.
    #[error("node {node}: {problem}")]
    Worker {
        /// The host's name.
        node: String,
        /// The worker's error.
        problem: String,
    },
    /// Stopped on request; the log has every run made.
    #[error("stopped; the runs so far are kept: resume with --resume")]
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

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
