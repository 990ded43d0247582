//! The crate's error: one sentence with the problem and the remedy.

/// A result with this crate's error.
pub type Result<T, E = LaunchError> = std::result::Result<T, E>;

/// The reason why a job did not run, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// The request was valid, but failed.
    #[error("{0}")]
    Failed(String),
    /// A signal arrived before the program was started.
    #[error("{0}")]
    Interrupted(String),
    /// The program cannot be executed; holds the exit code that a shell would give.
    #[error("{0}")]
    NotRun(String, u8),
}

impl LaunchError {
    /// Creates a failure with this message.
    pub(crate) fn failed(message: impl std::fmt::Display) -> LaunchError {
        LaunchError::Failed(message.to_string())
    }

    /// Creates a usage error with this message.
    pub(crate) fn usage(message: impl std::fmt::Display) -> LaunchError {
        LaunchError::Usage(message.to_string())
    }
}

impl From<thalweg_store::wire::Error> for LaunchError {
    fn from(error: thalweg_store::wire::Error) -> LaunchError {
        LaunchError::failed(error)
    }
}
